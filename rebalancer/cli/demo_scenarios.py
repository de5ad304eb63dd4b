"""What `demo` plays: a cluster, a policy with short waiting times, and what happens when.

A scene begins with each event, and with what the controller makes of it. `--step` stops at each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from rebalancer.admission.pause import Pause
from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator import HOSTNAME, START, ZONE, ClusterBuilder, SimulatedCluster
from rebalancer.simulator.controller import SimulatedController

ZONES: Final = ("a", "b", "c")
LOST: Final = "c"
PAUSE: Final = Pause(reason="an incident elsewhere", by="alice")

_ZONE_POLICY: Final = b"""\
apiVersion: rebalancer.dev/v1alpha1
kind: RebalancePolicy
mode: Evict
interval: 5s
spread: {for: 10s}
eligibility: {minAge: 20s}
budgets: {maxUnavailable: 1, perWorkload: 20%}
nodes: {settle: 15s}
groups:
- name: quorum
  selector: {matchLabels: {app: db}}
  limits:
  - {name: below-half, topologyKey: topology.kubernetes.io/zone, maxShare: "<1/2", severity: critical}
"""

_DEADLOCK_POLICY: Final = b"""\
apiVersion: rebalancer.dev/v1alpha1
kind: RebalancePolicy
mode: Evict
interval: 5s
spread: {for: 10s}
eligibility: {minAge: 5s, minReplicas: 1}
groups: []
"""


@dataclass(frozen=True, kw_only=True)
class ScheduledEvent:
    """Something that happens, so long after the start, or after the repair has begun.

    `pace` is how many simulated seconds pass in a second from then on.
    """

    after: timedelta
    in_repair: bool = False
    text: str
    do: Callable[[SimulatedCluster, SimulatedController], None]
    pace: float


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One part of the demo. `repaired` is its last line if all goes well, `repair_pace` the pace of the repair."""

    name: str
    title: str
    begins: str
    repaired: str
    snapshot: Callable[[], Snapshot]
    policy: bytes
    pace: float
    repair_pace: float
    events: tuple[ScheduledEvent, ...]


def zone_snapshot() -> Snapshot:
    """Three zones of three nodes and three workloads, evenly spread."""
    blueprint = ClusterBuilder(START)
    blueprint.zones(ZONES, nodes=3)
    nodes = [f"{zone}-{number}" for number in (1, 2, 3) for zone in ZONES]
    blueprint.deployment("web", namespace="shop", on=dict.fromkeys(nodes, 2), spread={ZONE: 1, HOSTNAME: 1})
    blueprint.budget("web", namespace="shop", max_unavailable=2)
    blueprint.deployment("cart", namespace="shop", on=dict.fromkeys(nodes, 1), spread={ZONE: 1})
    blueprint.budget("cart", namespace="shop", min_available="75%")
    blueprint.stateful_set("db", namespace="shop", on=dict.fromkeys(nodes[:6], 1), spread={ZONE: 1, HOSTNAME: 1})
    blueprint.budget("db", namespace="shop", max_unavailable=1)
    return blueprint.snapshot()


def shards_snapshot() -> Snapshot:
    """Six nodes in three zones, and three shards of a cache; the last shard has one pod so far."""
    blueprint = ClusterBuilder(START)
    blueprint.zones(ZONES, nodes=2)
    for name, nodes in (("shard-0", ("a-1", "b-1")), ("shard-1", ("b-2", "a-2")), ("shard-2", ("c-2",))):
        blueprint.stateful_set(
            name, namespace="shop", on=dict.fromkeys(nodes, 1), spread={ZONE: 2, HOSTNAME: 1}, cluster="cache"
        )
    return blueprint.snapshot()


ZONE_SCENARIO: Final = Scenario(
    name="zone",
    title="A lost zone",
    begins="Three zones, three workloads, evenly spread",
    repaired="Everything is evenly spread again",
    snapshot=zone_snapshot,
    policy=_ZONE_POLICY,
    pace=2.0,
    repair_pace=1.2,
    events=(
        ScheduledEvent(
            after=timedelta(seconds=10),
            text=f"Zone {LOST} is lost with its nodes",
            do=lambda cluster, _: cluster.nodes.remove_domain(ZONE, LOST),
            pace=3.0,
        ),
        ScheduledEvent(
            after=timedelta(seconds=70),
            text=f"Zone {LOST} is back and empty: Kubernetes does not move running pods there",
            do=lambda cluster, _: cluster.nodes.restore_domain(ZONE, LOST),
            pace=2.0,
        ),
        ScheduledEvent(
            after=timedelta(seconds=22),
            in_repair=True,
            text=f"Kill switch: {PAUSE.by} pauses evictions ({PAUSE.reason})",
            do=lambda _, controller: controller.pause(PAUSE),
            pace=2.0,
        ),
        ScheduledEvent(
            after=timedelta(seconds=40),
            in_repair=True,
            text=f"{PAUSE.by} resumes: the rest of the repair is planned anew",
            do=lambda _, controller: controller.pause(None),
            pace=1.2,
        ),
    ),
)

DEADLOCK_SCENARIO: Final = Scenario(
    name="deadlock",
    title="A placement deadlock",
    begins="Three shards of a cache on six nodes: one pod a node, no shard twice in a zone",
    repaired="Every pod has a node",
    snapshot=shards_snapshot,
    policy=_DEADLOCK_POLICY,
    pace=2.0,
    repair_pace=2.0,
    events=(
        ScheduledEvent(
            after=timedelta(seconds=8),
            text="The last shard gets its second pod; the only free node is in the zone of its first",
            do=lambda cluster, _: cluster.scale("shop", "StatefulSet", "shard-2", 2),
            pace=2.0,
        ),
    ),
)

SCENARIOS: Final = {scenario.name: scenario for scenario in (ZONE_SCENARIO, DEADLOCK_SCENARIO)}
