"""The map is the cluster counted by hand, with the numbers of the report and the plan."""

from collections import Counter
from collections.abc import Mapping

from hypothesis import given, settings

from rebalancer.controller.cycle import Cycle
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import ZONE
from rebalancer.model.reasons import Reason, State
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.reporting.cluster_map import MapSize, map_document
from rebalancer.reporting.documents.map import MapDocument, MapLane, MoveKind
from rebalancer.reporting.documents.plan import plan_document
from tests.reporting.test_plan_numbers import states
from tests.reports import cycle_report

WEB = Reference("default", "Deployment", "web")


def drawn(cycle: Cycle, *chosen: Reference, admitted: bool = True, size: MapSize | None = None) -> MapDocument:
    """Draw the map of a cycle, or of chosen workloads."""
    return map_document(
        cycle.evaluation,
        cycle.memory,
        admission=cycle.admission if admitted else None,
        chosen=chosen or None,
        size=size or MapSize(),
    )


def workloads_of(lane: MapLane) -> frozenset[tuple[str, str]]:
    return frozenset((lane.namespace, one.name) for one in lane.workloads)


@given(states())
@settings(max_examples=300, deadline=None)
def test_the_map_counts_as_the_report_does_and_numbers_as_the_plan_does(cycle: Cycle) -> None:
    """Whatever is violated, blocked, excluded or pending; and as a count of the pods on each node does."""
    document = drawn(cycle)
    check_lanes(cycle, document)
    check_moves(cycle, document)
    check_nodes(cycle, document)


def check_lanes(cycle: Cycle, document: MapDocument) -> None:
    """Check which lanes there are, their order, and each count against the report and the pods."""
    report = cycle_report(cycle)
    rows = {
        (row.namespace, row.workloads, row.topology_key, f"maxSkew {row.max_skew}"): row
        for row in report.constraints
        if row.when_unsatisfiable == WhenUnsatisfiable.DO_NOT_SCHEDULE
    }
    violated = {key[:2] for key, row in rows.items() if row.state != State.SATISFIED}
    shown = {(lane.namespace, lane.workloads) for lane in document.lanes}
    assert violated <= shown
    above = [
        sum(max(0, one.pods - one.max) for one in lane.domains.values() if one.max is not None)
        for lane in document.lanes
        if lane.state != State.SATISFIED
    ]
    assert above == sorted(above, reverse=True)
    zone_of = {node.name: node.labels[ZONE] for node in cycle.snapshot.nodes}
    for lane in document.lanes:
        row = rows.get((lane.namespace, lane.workloads, lane.topology_key, lane.what.rpartition(", ")[2]))
        if row is not None:
            assert {name: domain.pods for name, domain in lane.domains.items()} == row.counts
            assert (lane.state, lane.reason) == (row.state, row.reason)
            assert {name: (one.min, one.max) for name, one in lane.domains.items()} == {
                name: (one.min, one.max) for name, one in row.bounds.items()
            }
            assert lane.nodes == count_by_hand(cycle, lane)
        in_zones = Counter[str]()
        for node, number in lane.nodes.items():
            in_zones[zone_of[node]] += number
        assert {zone: number for zone, number in lane.zones.items() if number} == in_zones
        if lane.topology_key == document.key:
            assert {name: domain.pods for name, domain in lane.domains.items()} == lane.zones


def count_by_hand(cycle: Cycle, lane: MapLane) -> Mapping[str, int]:
    """Count the pods of a lane of a constraint by node; those of the drawn clusters share a label or have their own."""
    labels = {one.name for one in lane.workloads}
    selectors = {
        evaluated.constraint.selector
        for group in cycle.assessment.groups
        if {one.name for one in group.workloads} == labels
        for evaluated in group.hard
    }
    return Counter(
        pod.node
        for pod in cycle.snapshot.pods
        if pod.node is not None
        and pod.namespace == lane.namespace
        and any(selector is not None and selector.matches(pod.labels) for selector in selectors)
    )


def check_moves(cycle: Cycle, document: MapDocument) -> None:
    """Check that every eviction of the plan has its number, its node, and what it waits for."""
    plan = plan_document(cycle.plan, cycle.snapshot)
    admitted = {eviction.pod.uid for eviction in cycle.admission.evictions}
    steps = {one.pod: one.step for one in plan.evictions} | {one.pod: one.step for one in plan.waiting}
    never = {one.pod for one in plan.refusals if one.reason == Reason.STEP_EXCEEDS_BUDGET and one.pod is not None}
    moves = {one.pod: one for lane in document.lanes for one in lane.moves}
    assert {pod: one.step for pod, one in moves.items()} == {**steps, **dict.fromkeys(never)}
    assert {pod for pod, one in moves.items() if one.kind is MoveKind.BLOCKED} == never
    assert {one.pod for one in plan.evictions if one.uid in admitted} == {
        pod for pod, one in moves.items() if one.kind is MoveKind.MOVING
    }
    zone_of = {node.name: node.labels[ZONE] for node in cycle.snapshot.nodes}
    domains = {one.pod: one.predicted.domains for one in plan.evictions}
    for pod, one in moves.items():
        assert (one.reason is None) == (one.kind is MoveKind.MOVING)
        assert zone_of.get(one.node, "") == one.zone
        assert {zone_of[node] for node in one.to_nodes} <= set(one.to_zones)
        if ZONE in domains.get(pod, {}):
            assert one.to_zones == domains[pod][ZONE]


def check_nodes(cycle: Cycle, document: MapDocument) -> None:
    """Check that every node is in its zone, once."""
    assert (document.key, document.more_zones) == (ZONE, 0)
    listed = {node.name: zone.name for zone in document.zones for node in zone.nodes}
    assert listed == {node.name: node.labels[ZONE] for node in cycle.snapshot.nodes}
    assert all(zone.ready == zone.of == len(zone.nodes) and not zone.folded for zone in document.zones)
