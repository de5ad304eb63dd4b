"""Capacity first: a zone without nodes gets nodes before anything is evicted, on the simulated cluster."""

from collections import Counter
from dataclasses import replace

import pytest

from rebalancer.model.cluster import NodePool
from rebalancer.model.labels import Operator, SelectorRequirement
from rebalancer.model.placeholders import placeholder_pods
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Capacity, CapacityMode, Mode
from rebalancer.simulator import HOSTNAME, ZONE, Autoscaling, SimulatedCluster, Span, TraceKind
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager

GENERAL = NodePool(name="general", requirements=(SelectorRequirement(ZONE, Operator.IN, ("a", "b", "c")),))
REQUEST = Capacity(mode=CapacityMode.REQUEST)
QUICK = Autoscaling(zones=("a", "b", "c"), cpu=4_000, creating=Span(5.0, 20.0))
NAMESPACE = "rebalancer-capacity"


def two_zones(spread: dict[str, int], *, kind: str = "Deployment", nodes: int = 2, cpu: int = 800) -> Snapshot:
    """Return twelve pods in zones a and b, six in each; NodePool general names zone c too."""
    builder = a_cluster("ab", nodes)
    on = {f"{zone}-{number}": 6 // nodes for zone in "ab" for number in range(1, nodes + 1)}
    if kind == "Deployment":
        builder.deployment("web", on=on, spread=spread, cpu=cpu)
    else:
        builder.stateful_set("web", on=on, spread=spread, cpu=cpu)
    builder.budget("web", max_unavailable=1)
    return replace(builder.snapshot(), node_pools=(GENERAL,))


def by_zone(cluster: SimulatedCluster) -> dict[str, int]:
    """Count the pods of the workload by zone; "" for those without a node."""
    snapshot = cluster.snapshot(cluster.now)
    nodes = snapshot.node
    return dict(
        Counter(
            nodes[pod.node].labels[ZONE] if pod.node is not None and pod.node in nodes else ""
            for pod in snapshot.pods_in["default"]
            if not pod.terminating
        )
    )


def placeholders(cluster: SimulatedCluster) -> int:
    return len(placeholder_pods(cluster.snapshot(cluster.now), NAMESPACE)) + len(cluster.list_placeholders(NAMESPACE))


def waited(cluster: SimulatedCluster) -> list[str]:
    """Return the pods, other than placeholders, that no node admitted at some time."""
    return [
        entry.object
        for entry in cluster.trace
        if entry.kind is TraceKind.UNSCHEDULABLE and NAMESPACE not in entry.object
    ]


def events(cluster: SimulatedCluster, reason: str) -> list[str]:
    return [entry.detail for entry in cluster.trace if entry.detail.startswith(reason)]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize("spread", [{ZONE: 1}, {ZONE: 1, HOSTNAME: 1}])
def test_a_zone_without_nodes_is_filled_without_a_pod_that_waits(kind: str, spread: dict[str, int]) -> None:
    """Four evictions, the minimum; every replacement finds its node at once; no placeholder is left."""
    cluster = SimulatedCluster(two_zones(spread, kind=kind), autoscaling=QUICK)
    simulation = Simulation(cluster, eager(Mode.EVICT, capacity=REQUEST))
    simulation.cycles(100, apart=5.0)
    assert by_zone(cluster) == {"a": 4, "b": 4, "c": 4}
    assert simulation.evictions == 4
    assert not waited(cluster)
    assert not placeholders(cluster)
    assert len(events(cluster, "CapacityRequested")) == len(events(cluster, "CapacityReady")) == 1
    assert not events(cluster, "CapacityFailed")
