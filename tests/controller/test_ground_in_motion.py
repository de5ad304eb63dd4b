"""Nodes that change while the loop runs: leader, follower and the next leader know, and tell it once."""

from dataclasses import replace
from datetime import timedelta

from msgspec import structs

from rebalancer.assessment.findings import find_findings
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.state import Leading
from rebalancer.documents.memory import parse_memory
from rebalancer.model.events import Event, Regarding
from rebalancer.model.labels import Labels
from rebalancer.model.motion import NodeEvent
from rebalancer.model.reasons import FindingKind, Reason
from rebalancer.policy import Mode
from rebalancer.policy.sections import Nodes
from rebalancer.ports import MEMORY_KEY
from rebalancer.simulator import ZONE, SimulatedCluster
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager

POLICY = Regarding(kind="ConfigMap", namespace="rebalancer", name="rebalancer-policy")


class Telling(SimulatedCluster):
    """A cluster that keeps the events about the policy, and whose view may be stale."""

    stale = ""

    def __init__(self, *, zones: int = 4, on: dict[str, int] | None = None) -> None:
        super().__init__(a_cluster("abc", zones, on or {"a-1": 2, "b-1": 2, "c-1": 2}, spread={ZONE: 1}).snapshot())
        self.recorded: list[Event] = []

    def record(self, event: Event) -> None:
        """Keep an event."""
        if event.regarding == POLICY:
            self.recorded.append(event)

    def staleness(self) -> str:
        """Say that the view is stale."""
        return self.stale


def running(cluster: SimulatedCluster) -> Simulation:
    simulation = Simulation(cluster, eager(Mode.EVICT, nodes=Nodes(settle=timedelta(minutes=1))))
    simulation.runner.state = replace(
        simulation.runner.state, process=replace(simulation.runner.state.process, policy_object=POLICY)
    )
    simulation.cycles(1, apart=5.0)
    return simulation


def relabel(cluster: SimulatedCluster, name: str, zone: str) -> None:
    node = cluster.snapshot(cluster.now).node[name]
    cluster.state.store.nodes.put(structs.replace(node, labels=Labels({**node.labels, ZONE: zone})))


def cycle_of(simulation: Simulation) -> Cycle:
    cycle = simulation.runner.state.cycle
    assert cycle is not None
    return cycle


def changes_of(simulation: Simulation) -> list[tuple[str, NodeEvent]]:
    return [(change.node, change.event) for change in simulation.runner.state.memory.node_changes]


def test_a_label_that_is_wrong_for_14_seconds_moves_nothing() -> None:
    cluster = Telling()
    simulation = running(cluster)
    relabel(cluster, "c-1", "a")
    simulation.cycles(3, apart=5.0)
    assert [group.refusal.reason for group in cycle_of(simulation).plan.components if group.refusal] == [
        Reason.NODE_SETTLING
    ]
    relabel(cluster, "c-1", "c")
    simulation.cycles(30, apart=5.0)
    assert simulation.evictions == 0
    assert simulation.runner.state.memory.node_changes == ()


def test_a_label_that_is_wrong_for_good_is_repaired_after_it_has_lasted() -> None:
    cluster = Telling()
    simulation = running(cluster)
    relabel(cluster, "c-1", "a")
    simulation.cycles(11, apart=5.0)
    assert simulation.evictions == 0
    simulation.cycles(5, apart=5.0)
    assert simulation.evictions > 0


def test_a_zone_that_a_wrong_label_names_is_not_remembered() -> None:
    """It would count as a zone for an hour."""
    cluster = Telling()
    simulation = running(cluster)
    relabel(cluster, "c-2", "z9")
    simulation.cycles(2, apart=5.0)
    assert {zone.zone for zone in simulation.runner.state.memory.zones} == {"a", "b", "c"}
    simulation.cycles(15, apart=5.0)
    assert {zone.zone for zone in simulation.runner.state.memory.zones} == {"a", "b", "c", "z9"}


def test_a_process_that_does_not_lead_follows_what_becomes_of_nodes() -> None:
    """An uncordon leaves no time on the object: the next leader knows it from its own eyes, or from the memory."""
    cluster = Telling(zones=1, on={"a-1": 3, "b-1": 3})
    cluster.nodes.cordon("c-1")
    follower = running(cluster)
    follower.runner.tell(Leading(leads=False))
    follower.cycles(1, apart=5.0)
    cluster.nodes.uncordon("c-1")
    cluster.stale = "Node: the watch has failed"
    follower.cycles(1, apart=5.0)
    assert changes_of(follower) == []
    cluster.stale = ""
    follower.cycles(1, apart=5.0)
    assert changes_of(follower) == [("c-1", NodeEvent.UNCORDONED)]
    follower.runner.tell(Leading(leads=True, memory=parse_memory(""), term=2))
    follower.cycles(1, apart=5.0)
    assert changes_of(follower) == [("c-1", NodeEvent.UNCORDONED)]
    assert follower.evictions == 0
    follower.restart()
    follower.cycles(1, apart=5.0)
    assert changes_of(follower) == [("c-1", NodeEvent.UNCORDONED)]


def test_what_happens_while_nobody_leads_is_seen_by_who_leads_next() -> None:
    """Between the last look of a follower and its first cycle as the leader."""
    cluster = Telling()
    follower = running(cluster)
    follower.runner.tell(Leading(leads=False))
    follower.cycles(1, apart=5.0)
    relabel(cluster, "c-1", "a")
    follower.runner.tell(Leading(leads=True, memory=parse_memory(cluster.load(MEMORY_KEY)), term=2))
    follower.cycles(3, apart=5.0)
    assert follower.evictions == 0
    assert changes_of(follower) == [("c-1", NodeEvent.RELABELLED)]


def test_a_zonal_shift_is_one_finding_and_one_event_at_its_beginning_and_its_end() -> None:
    """A restart in between repeats neither."""
    cluster = Telling(on={"a-1": 4, "b-1": 4})
    simulation = running(cluster)
    for number in range(1, 5):
        cluster.nodes.cordon(f"c-{number}")
        simulation.cycles(2, apart=5.0)
    cycle = cycle_of(simulation)
    (finding,) = [
        one for one in find_findings(cycle.view, cycle.assessment, ()) if one.kind is FindingKind.DOMAIN_UNSETTLED
    ]
    assert finding.object == "node label topology.kubernetes.io/zone=c"
    assert finding.message.startswith("4 of 4 nodes of topology.kubernetes.io/zone=c were cordoned within 30s: ")
    assert [str(event.reason) for event in cluster.recorded] == ["DomainUnsettled"]
    assert "2 of 4 nodes" in cluster.recorded[0].note
    simulation.restart()
    simulation.runner.state = replace(
        simulation.runner.state, process=replace(simulation.runner.state.process, policy_object=POLICY)
    )
    for number in range(1, 5):
        cluster.nodes.uncordon(f"c-{number}")
        simulation.cycles(2, apart=5.0)
    assert simulation.evictions == 1, "that of the cycle before"
    simulation.cycles(30, apart=5.0)
    assert [str(event.reason) for event in cluster.recorded] == ["DomainUnsettled", "DomainSettled"]
    assert cluster.recorded[1].note == (
        "4 of 4 nodes of topology.kubernetes.io/zone=c were cordoned within 30s; "
        "that keeps no replacement away any more"
    )
    assert dict(cycle_of(simulation).assessment.groups[0].hard[0].counts.by_domain) == {"a": 3, "b": 3, "c": 2}
    assert simulation.evictions == 2
