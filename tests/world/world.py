"""One run of the world: what a seed draws, and what has become of it."""

import random as global_random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from random import Random

import pytest
import structlog

from rebalancer.documents import memory
from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.policy import Mode, Policy, RepairBy
from rebalancer.ports import EvictionResult
from rebalancer.simulator import ZONE, SimulatedCluster, SimulatedLease
from rebalancer.simulator.autoscaler import Autoscaling, NodeAutoscaler
from tests.world.ending import check_end, is_at_rest
from tests.world.hub import Hub
from tests.world.monitor import Monitor
from tests.world.observer import WorldObserver
from tests.world.port import Api, Faults
from tests.world.replica import Replica
from tests.world.scenarios import (
    FORCED,
    LATE_ZONE,
    add_features,
    add_surges,
    add_violations,
    draw_cluster,
    draw_policy,
    draw_scenario,
    draw_timings,
    is_crowded,
)
from tests.world.schedule import WHOLE, Cut, Planned, draw_schedule
from tests.world.surges import SurgeMonitor

CROWDED_MEMORY = 1_800
"""Bytes that the server stores of a memory in a crowded world: the moves in flight fit, 120 violations do not."""

APPROVING_MEMORY = 5_000
"""Bytes in mode Approve, where each move has by which approval it was made, beside what is proposed and approved."""

_CROWDED_BOUND = 1_700
"""What the controller takes for its bound there, as 240 KiB are to the 288 KiB of a ConfigMap."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What has become of a run; `digest` is over everything that happened."""

    seed: int
    scenario: str
    breaches: list[str]
    notes: list[str]
    evictions: int
    faults: int
    """Disturbances that took place."""
    nodes: int
    pods: int
    disturbances: int
    """Disturbances that were drawn."""
    replicas: int
    seconds: float
    digest: str


class World:
    """One run of a seed, or of what is left of it."""

    def __init__(self, seed: int, scenario: str = "", cut: Cut = WHOLE, *, has_features: bool = False) -> None:
        """Draw a world; one that `has_features` has an autoscaler, and a policy with capacity and prevention."""
        self.seed, self.cut = seed, cut
        self._has_features = has_features
        self.scenario = scenario or draw_scenario(seed)
        kind = FORCED[self.scenario]
        self.crowded = is_crowded(seed)
        self.notes: list[str] = []
        self.planning_seconds = 0.0
        self.lost_zone = ""
        self.faults = 0
        self.refusing: frozenset[str] = frozenset()
        """Namespaces whose webhook refuses for ever."""
        global_random.seed(seed)  # the lease's thread draws its jitter from it
        random = Random(f"{seed} cluster")
        first, self.late_node = draw_cluster(random, kind)
        self.nodes, self.pods = len(first.nodes), len(first.pods)
        self.cluster = SimulatedCluster(first, seed=seed, timings=draw_timings(Random(f"{seed} timings")))
        self.state = self.cluster.state  # operators and outages change what the simulator stores
        self.namespaces = sorted({pod.namespace for pod in first.pods})
        self.hub = Hub(self.state.event_queue)
        policy = draw_policy(random, kind)
        if kind.has_surges:
            policy = add_surges(policy)
        if has_features:
            policy = add_features(policy)
            NodeAutoscaler(self.state, self.cluster.nodes, Autoscaling(zones=("a", "b", "c", LATE_ZONE)))
        self.policy = self.in_force = add_violations(policy) if self.crowded else policy
        self.monitor = Monitor(self.state, self.hub, self.policy)
        self.first_replicas = {top.uid: top.replicas for top in self.monitor.tops()}
        self.api = Api(cluster=self.cluster, lease=SimulatedLease(), has_surges=kind.has_surges)
        if kind.has_surges:
            most = self.policy.repair.max_surge
            self.api.surge_monitor = SurgeMonitor(self.state, self.hub, self.monitor.breach, most)
        if self.policy.mode is Mode.APPROVE:
            self.api.largest_memory = APPROVING_MEMORY
        if self.crowded:
            self.api.largest_memory = CROWDED_MEMORY
        self.replicas: list[Replica] = []
        drawn = random.choice([1, 2, 2, 3])
        for _ in range(min(drawn, cut.replicas or drawn)):
            self.start_replica()
        self._does = {action.__name__: action for action in (*kind.cluster, *kind.network)}
        self.schedule = draw_schedule(
            seed, [action.__name__ for action in kind.cluster], [action.__name__ for action in kind.network]
        )
        kind.prepare(self, Random(f"{seed} scenario's own"))

    # What is there

    @property
    def living(self) -> list[Replica]:
        """The replicas that run."""
        return [replica for replica in self.replicas if replica.alive]

    def pick_replica(self, random: Random) -> Replica:
        """Draw a replica, often the one that holds the lease."""
        record = self.api.lease.read()
        holders = [replica for replica in self.living if record is not None and replica.name == record.holder]
        return random.choice(holders if holders and random.random() < 0.6 else self.living)

    def pick_workload(self, random: Random) -> Workload:
        """Draw a workload, often the one of which a pod was to be evicted last."""
        tops = sorted(self.monitor.tops(), key=str)
        last = self.monitor.last
        focus = [top for top in tops if last is not None and reference_of(top) == last.workload]
        return random.choice(focus if focus and random.random() < 0.7 else tops)

    def pods_of(self, top: Workload) -> list[Pod]:
        """Return the pods of a workload."""
        owners = [item.uid for item in self.state.store.workloads if item.owner and item.owner.uid == top.uid]
        return [pod for owner in (top.uid, *owners) for pod in self.state.store.pods.of(owner)]

    @property
    def was_unreachable(self) -> bool:
        """Whether a request met a fault of network or server within the last ten seconds."""
        return self.hub.seconds - self.api.unreachable_at < 10

    # What is done to it

    def note(self, sentence: str) -> None:
        """Record what was done."""
        self.notes.append(f"{self.hub.seconds:.2f}s: {sentence}")

    def start_replica(self) -> None:
        """Start one more replica."""
        number = len(self.replicas) + 1
        random = Random(f"{self.seed} replica {number}")
        replica = Replica(
            f"replica-{number}",
            api=self.api,
            hub=self.hub,
            monitor=self.monitor,
            policy=self.in_force,
            random=random,
            state=self.state,
            ahead=random.choice([0.0, 0.0, -2.0, 1.0, 1.0, 30.0]),
            rate=random.choice([1.0, 1.0, 1.4]),
            has_features=self._has_features,
        )
        replica.runner._observer = WorldObserver(self, replica)  # planning takes time here
        self.replicas.append(replica)
        self.hub.after(0.1, replica.hear_pause)
        self.hub.after(0.1, replica.hear_approval)

    def tell_pause(self, delay: float) -> None:
        """Let every replica's watch of the control object deliver after so many seconds."""
        for replica in self.living:
            self.hub.after(delay, replica.hear_pause)

    def set_policy(self, policy: Policy, random: Random) -> None:
        """Change the policy; every replica reads it within a second, or the next one if that comes sooner."""
        self.in_force = policy
        for replica in self.living:
            self.hub.after(
                random.random(),
                lambda replica=replica: replica.load_policy(self.in_force),  # type: ignore[misc]
            )

    def refuse_for_ever(self, namespace: str, result: EvictionResult) -> None:
        """Let the webhook of a namespace answer so to the end."""
        self.refusing = frozenset({namespace})
        self.api.faults.sick[namespace] = result

    def restore_zone(self, zone: str) -> None:
        """Let a lost zone come back, if it has not yet."""
        if zone and zone == self.lost_zone:
            self.lost_zone = ""
            self.cluster.nodes.restore_domain(ZONE, zone)
            self.note(f"zone {zone} is back")

    def at_next(self, kind: str, delay: float, action: Callable[[], None]) -> None:
        """Do something so many seconds after the next request of a kind."""
        self.api.triggers.setdefault(kind, []).append(lambda: self.hub.after(delay, action))

    # The run

    def run(self) -> Result:
        """Disturb it for a while, heal it, and check that it comes right and is then left alone."""
        with pytest.MonkeyPatch.context() as patch:
            if self.crowded:
                patch.setattr(memory, "MOST_BYTES", _CROWDED_BOUND)
            self._disturb_and_check()
        return self._result()

    def _disturb_and_check(self) -> None:
        only = self.cut.disturbances
        for number, planned in enumerate(self.schedule):
            if (only is None or number in only) and planned.at < self.cut.chaos:
                self.hub.after(planned.at, lambda planned=planned: self._begin(planned))  # type: ignore[misc]
        self.cluster.advance(self.cut.chaos)
        self._heal()
        self.cluster.advance(self.cut.quiet)
        check_end(self)
        at_rest, begun = is_at_rest(self), len(self.monitor.begun)
        self.cluster.advance(self.cut.rest)
        if at_rest and len(self.monitor.begun) > begun:
            self.monitor.breach(f"evicts although all had come right: {self.monitor.begun[begun]}")
        if self.api.has_surges:
            self._end_surges()
        for replica in self.living:
            replica.kill()

    def _end_surges(self) -> None:
        """Let the policy add nothing any more: what is under way is taken back, and nothing is left of any surge."""
        if self.monitor.begun:
            self.monitor.breach(f"evicts although the policy adds pods first: {self.monitor.begun[0]}")
        observing = self.policy.model_copy(update={"repair": RepairBy()})
        self.set_policy(observing, Random(0))
        self.cluster.advance(120)
        self.api.surge_monitor.check_end()

    def _result(self) -> Result:
        history = [*self.notes, *map(str, self.state.trace), *map(str, self.monitor.begun), *self.monitor.breaches]
        return Result(
            seed=self.seed,
            scenario=self.scenario,
            breaches=self.monitor.breaches,
            notes=self.notes,
            evictions=len(self.monitor.records.granted),
            faults=self.faults,
            nodes=self.nodes,
            pods=self.pods,
            disturbances=len(self.schedule),
            replicas=len(self.replicas),
            seconds=self.hub.seconds,
            digest=sha256("\n".join(history).encode()).hexdigest()[:16],
        )

    def _begin(self, planned: Planned) -> None:
        def disturb() -> None:
            if self.living and self.hub.seconds < self.cut.chaos:
                self.faults += 1
                self.note(self._does[planned.name](self, Random(planned.seed)))

        if planned.trigger:
            self.at_next(planned.trigger, planned.delay, disturb)
        else:
            disturb()

    def _heal(self) -> None:
        sick = {name: self.api.faults.sick[name] for name in self.refusing}
        self.api.faults = Faults(sick=sick)
        self.api.triggers.clear()
        self.planning_seconds = 0.0
        self.restore_zone(self.lost_zone)
        if not self.living:
            self.start_replica()
        self.note("healed")


@contextmanager
def quiet() -> Iterator[None]:
    """Log nothing."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        yield
    finally:
        structlog.reset_defaults()


def run(seed: int, scenario: str = "", cut: Cut = WHOLE) -> Result:
    """Run the world of a seed."""
    with quiet():
        return World(seed, scenario, cut).run()
