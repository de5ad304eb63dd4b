"""Made clusters of any size: nodes in three zones, workloads, and the node of each pod. `SCENARIOS` lists them.

A state is a plan of a cluster, not its objects: `objects` makes those. Equal names and sizes give equal states.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

ZONES: Final = 3
REPLICAS: Final = 30
NAMESPACES: Final = 100
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
BOTH: Final = ((ZONE, 1), (HOSTNAME, 1))
"""Hard constraints over zones and nodes, maxSkew 1 each."""

EVICT_FOR_SHARES: Final = """\
apiVersion: rebalancer.dev/v1alpha1
kind: RebalancePolicy
groups:
- name: workloads
  selector: {}
  limits:
  - {name: zone-share, when: {zones: ">=2"}, topologyKey: topology.kubernetes.io/zone, maxShare: "<=2/5", action: Evict}
"""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A workload. `nodes` are the nodes of its pods; `pod` is added to the spec of its pods."""

    name: str
    namespace: str
    nodes: Sequence[int]
    spread: tuple[tuple[str, int], ...] = BOTH
    kind: str = "Deployment"
    cpu: str = "100m"
    pod: dict[str, Any] = field(default_factory=dict)
    claims: bool = False
    """Whether each pod has a volume that is bound to its zone."""


@dataclass(frozen=True, kw_only=True)
class State:
    """A cluster: the zone of each node, the workloads, and a policy other than the shipped one."""

    nodes: int
    workloads: Sequence[Workload]
    policy: str = ""

    @property
    def pods(self) -> int:
        """The number of pods."""
        return sum(len(workload.nodes) for workload in self.workloads)


def zone_of(node: int) -> int:
    """Return the zone of a node."""
    return node % ZONES


def _spread(choice: Random, nodes: int, replicas: int, zones: Sequence[int]) -> list[int]:
    """Draw nodes for pods: the zones in turn, in each zone the nodes in turn, from a drawn one on."""
    of_zone = [range(zone, nodes, ZONES) for zone in zones]
    starts = [choice.randrange(len(held)) for held in of_zone]
    drawn = []
    for replica in range(replicas):
        turn, zone = divmod(replica, len(zones))
        drawn.append(of_zone[zone][(starts[zone] + turn) % len(of_zone[zone])])
    return drawn


def _make(nodes: int, pods: int, zones: Sequence[int]) -> State:
    choice = Random(1)
    workloads = [
        Workload(
            name=f"w{number:05}",
            namespace=f"team-{number % NAMESPACES:02}",
            nodes=_spread(choice, nodes, REPLICAS, zones),
        )
        for number in range(pods // REPLICAS)
    ]
    return State(nodes=nodes, workloads=workloads)


def balanced(nodes: int, pods: int) -> State:
    """Make a cluster whose every constraint is satisfied."""
    return _make(nodes, pods, range(ZONES))


def zone_returned(nodes: int, pods: int) -> State:
    """Make a cluster whose workloads are all in two zones, since the third has come back empty."""
    return _make(nodes, pods, range(ZONES - 1))


def scaled_down(nodes: int, pods: int) -> State:
    """Make a cluster whose workloads had 40 pods each, and have kept any 30 of them."""
    choice, made = Random(2), _make(nodes, pods // REPLICAS * 40, range(ZONES))
    many = [
        Workload(
            name=workload.name,
            namespace=workload.namespace,
            nodes=choice.sample(_spread(choice, nodes, 40, range(ZONES)), REPLICAS),
        )
        for workload in made.workloads[: pods // REPLICAS]
    ]
    return replace(made, workloads=many)


def one_namespace(nodes: int, pods: int) -> State:
    """Make a cluster with all pods in one namespace; a zone has come back."""
    made = zone_returned(nodes, pods)
    return replace(made, workloads=[replace(workload, namespace="team-00") for workload in made.workloads])


def one_large_workload(nodes: int, pods: int) -> State:
    """Make a cluster that is balanced, but for one workload of up to 10,000 pods, for which a zone has come back."""
    size = min(10_000, pods // 3)
    made = balanced(nodes, pods - size)
    large = Workload(name="large", namespace="team-00", nodes=_spread(Random(3), nodes, size, range(ZONES - 1)))
    return replace(made, workloads=[*made.workloads, large])


def full_zone(nodes: int, pods: int) -> State:
    """Make a cluster where a zone has come back, and another workload has taken all of its cores."""
    made = zone_returned(nodes, pods)
    last = range(ZONES - 1, nodes, ZONES)
    filler = Workload(
        name="filler",
        namespace="team-00",
        nodes=last,
        spread=(),
        cpu="63900m",
        pod={"nodeSelector": {ZONE: f"zone-{ZONES - 1}"}},
    )
    return replace(made, workloads=[*made.workloads, filler])


def share_limits(nodes: int, pods: int) -> State:
    """Make a cluster without constraints over zones, with half of each workload in a zone, where two fifths may be."""
    made = zone_returned(nodes, pods)
    plain = [replace(workload, spread=((HOSTNAME, 5),)) for workload in made.workloads]
    return replace(made, workloads=plain, policy=EVICT_FOR_SHARES)


def mixed_affinities(nodes: int, pods: int) -> State:
    """Make a cluster where a zone has come back, with anti-affinity, affinity, volumes and wider constraints."""
    made = zone_returned(nodes, pods)
    return replace(made, workloads=[_mix(number, workload) for number, workload in enumerate(made.workloads)])


def _mix(number: int, workload: Workload) -> Workload:
    own = {"matchLabels": {"app": workload.name}}
    apart = {"labelSelector": own, "topologyKey": HOSTNAME}
    zones = [f"zone-{zone}" for zone in range(ZONES)]
    in_zones = {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": zones}]}]}
    affinity: dict[str, Any]
    match number % 6:
        case 0:
            affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
            return replace(workload, pod={"affinity": affinity}, spread=BOTH[:1])
        case 1:
            affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": in_zones}}
            return replace(workload, pod={"affinity": affinity})
        case 2:
            return replace(workload, kind="StatefulSet", claims=True)
        case 3:
            preferred = [{"weight": 100, "podAffinityTerm": apart}]
            affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
            return replace(workload, pod={"affinity": affinity})
        case 4:
            return replace(workload, spread=((ZONE, 2), (HOSTNAME, 2)))
        case _:
            return workload


SCENARIOS: Final[dict[str, Callable[[int, int], State]]] = {
    "balanced": balanced,
    "zone-returned": zone_returned,
    "scaled-down": scaled_down,
    "one-namespace": one_namespace,
    "one-large-workload": one_large_workload,
    "full-zone": full_zone,
    "share-limits": share_limits,
    "mixed-affinities": mixed_affinities,
}
"""By name; each takes the number of nodes and about how many pods."""

SIZES: Final = {
    "half": (501, 15_000),
    "1k": (1002, 30_000),
    "2k": (2001, 60_000),
    "4k": (4002, 120_000),
    "5k": (5001, 150_000),
    "15k": (15_000, 450_000),
}
"""Nodes and pods by the name of the size."""
