"""A zone that comes back without nodes: satisfied for the scheduler, reported, and repaired once it has nodes."""

from dataclasses import replace
from datetime import timedelta

import pytest

from rebalancer.assessment.domains_without_nodes import DomainWithoutNodes
from rebalancer.assessment.known_domains import DomainSource
from rebalancer.controller.cycle import Cycle
from rebalancer.documents.report import ReportedFinding
from rebalancer.model.cluster import NodePool
from rebalancer.model.labels import Operator, SelectorRequirement
from rebalancer.model.reasons import FindingKind, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode, Topology
from rebalancer.simulator import ZONE, SimulatedCluster
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager
from tests.reports import cycle_report, rows_of

GENERAL = NodePool(name="general", requirements=(SelectorRequirement(ZONE, Operator.IN, ("a", "b", "c")),))
NAMED = "topology.kubernetes.io/zone c has no node"
REST = (
    "with a node there the skew would be 6, maxSkew is 1; the loss of one domain takes 6 of 12 pods (50%). Add a node "
    "in c, or list it in topology.ignore of the policy"
)


def twelve_pods() -> Snapshot:
    """Return twelve pods in three zones of two nodes, four in each."""
    on = {f"{zone}-{number}": 2 for zone in "abc" for number in (1, 2)}
    return a_cluster("abc", 2, on, spread={ZONE: 1}).snapshot()


def last_cycle(simulation: Simulation) -> Cycle:
    cycle = simulation.runner.state.cycle
    assert cycle is not None
    return cycle


def lose_zone(simulation: Simulation) -> None:
    """Run a cycle, remove zone c with its nodes, and wait until its pods have been replaced elsewhere."""
    simulation.cycles(1)
    simulation.cluster.nodes.remove_domain(ZONE, "c")
    simulation.cycles(20, apart=30.0)


def missing(simulation: Simulation) -> list[DomainWithoutNodes]:
    return list(last_cycle(simulation).assessment.domains_without_nodes)


def domain_findings(simulation: Simulation) -> list[ReportedFinding]:
    findings = cycle_report(last_cycle(simulation)).findings
    return [finding for finding in findings if finding.kind == FindingKind.DOMAIN_WITHOUT_NODES]


@pytest.mark.parametrize(
    ("source", "topology", "pools", "how"),
    [
        (DomainSource.REMEMBERED, Topology(), (), "last seen 2"),
        (DomainSource.NODE_POOL, Topology(), (GENERAL,), "NodePool general"),
        (DomainSource.DECLARED, Topology(domains={ZONE: ("a", "b", "c")}), (GENERAL,), "declared in topology.domains"),
    ],
)
def test_a_zone_that_came_back_without_nodes_is_reported_and_then_filled(
    source: DomainSource, topology: Topology, pools: tuple[NodePool, ...], how: str
) -> None:
    """The constraint stays satisfied over two zones; with nodes again, four evictions restore four in each."""
    cluster = SimulatedCluster(replace(twelve_pods(), node_pools=pools))
    simulation = Simulation(cluster, eager(Mode.EVICT, topology=topology))
    simulation.cycles(1)
    assert not missing(simulation)
    lose_zone(simulation)
    (group,) = last_cycle(simulation).assessment.groups
    (zones,) = group.hard
    assert (zones.state, dict(zones.counts.by_domain), zones.counts.skew) == (State.SATISFIED, {"a": 6, "b": 6}, 0)
    (row,) = missing(simulation)
    assert (row.domain.value, row.domain.source, row.skew, row.max_skew) == ("c", source, 6, 1)
    assert (row.lost, row.total) == (6, 12)
    (finding,) = domain_findings(simulation)
    assert finding.object == "default/web (Deployment)"
    assert finding.message.startswith(f"{NAMED} ({how}")
    assert finding.message.endswith(REST)
    exported = rows_of(simulation.runner.state, "rebalancer_domain_without_nodes")
    assert exported == {("default", "Deployment", "web", ZONE, "c"): 1}
    assert simulation.evictions == 0

    simulation.restart()  # what is remembered goes from one process to the next
    simulation.cycles(1)
    assert domain_findings(simulation) == [finding]

    cluster.nodes.restore_domain(ZONE, "c")
    simulation.cycles(60, apart=30.0)
    (group,) = last_cycle(simulation).assessment.groups
    assert dict(group.hard[0].counts.by_domain) == {"a": 4, "b": 4, "c": 4}
    assert simulation.evictions == 4
    assert not missing(simulation)


@pytest.mark.parametrize(
    "topology",
    [
        Topology(ignore={ZONE: ("c",)}, domains={ZONE: ("a", "b", "c")}),
        Topology(remember=timedelta(0)),
        Topology(remember=timedelta(minutes=5)),
    ],
)
def test_a_zone_that_is_ignored_or_gone_for_too_long_is_not_reported(topology: Topology) -> None:
    simulation = Simulation(SimulatedCluster(twelve_pods()), eager(Mode.EVICT, topology=topology))
    lose_zone(simulation)
    assert not missing(simulation)
    assert not domain_findings(simulation)


def test_a_zone_that_would_change_nothing_is_a_series_of_value_0_and_no_finding() -> None:
    """Two pods in two zones satisfy maxSkew 1 with an empty third zone too."""
    cluster = SimulatedCluster(
        replace(a_cluster("ab", 1, {"a-1": 1, "b-1": 1}, spread={ZONE: 1}).snapshot(), node_pools=(GENERAL,))
    )
    simulation = Simulation(cluster, eager())
    simulation.cycles(1)
    assert [row.would_violate for row in missing(simulation)] == [False]
    assert list(rows_of(simulation.runner.state, "rebalancer_domain_without_nodes").values()) == [0]
    assert not domain_findings(simulation)
