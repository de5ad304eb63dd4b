"""The night that `demo` shows: the same scale-downs of the same workload, with prevention and without."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from rebalancer.cli.demo_scenarios import ZONES
from rebalancer.policy import Policy, ScaleDownPrevention, load_policy
from rebalancer.simulator import HOSTNAME, START, ZONE, ClusterBuilder, SimulatedCluster
from rebalancer.simulator.controller import SimulatedController

REPLICAS: Final = 30
STEPS: Final = (20, 12, 6, 3)
_POLICY: Final = """\
apiVersion: rebalancer.dev/v1alpha1
kind: RebalancePolicy
mode: Observe
prevention: {{scaleDown: "{mode}"}}
"""
_SECONDS: Final = 60.0
"""Between two steps."""


class NightStep(NamedTuple):
    """The pods by zone after a step, without and with prevention."""

    replicas: int
    without: tuple[int, ...]
    steered: tuple[int, ...]


def play_night(seed: int) -> Iterator[NightStep]:
    """Yield the steps of the night: an autoscaler takes 30 pods in three zones down to 3."""
    plain, steered = _Night(ScaleDownPrevention.OFF, seed), _Night(ScaleDownPrevention.STEER, seed)
    for replicas in (REPLICAS, *STEPS):
        yield NightStep(replicas, plain.scale(replicas), steered.scale(replicas))


class _Night:
    def __init__(self, mode: ScaleDownPrevention, seed: int) -> None:
        blueprint = ClusterBuilder(START)
        blueprint.zones(ZONES, nodes=4)
        blueprint.deployment("web", namespace="shop", replicas=REPLICAS, spread={ZONE: 1, HOSTNAME: 1})
        self._cluster = SimulatedCluster(blueprint.snapshot(), seed=seed)
        policy: Policy = load_policy(_POLICY.format(mode=mode).encode(), source="the demo's policy")
        self._controller = SimulatedController(self._cluster, policy, name="demo")
        for _ in range(3):
            self._pass_time()

    def _pass_time(self) -> None:
        self._cluster.advance(_SECONDS)
        self._controller.run_cycle()

    def scale(self, replicas: int) -> tuple[int, ...]:
        """Scale, let time pass, and return the pods by zone."""
        if replicas != REPLICAS:
            self._cluster.scale("shop", "Deployment", "web", replicas)
            self._pass_time()
        snapshot = self._cluster.snapshot(self._cluster.now)
        zones = [snapshot.node[pod.node].labels[ZONE] for pod in snapshot.pods if pod.node and not pod.terminating]
        return tuple(Counter(zones)[zone] for zone in ZONES)
