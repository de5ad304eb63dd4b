"""The map is the cluster counted by hand, with the numbers of the report and the plan."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.account.happened import ZoneReturned, find_zones
from rebalancer.controller.cycle import Cycle
from rebalancer.documents.cluster_map import MapSize, map_document
from rebalancer.documents.map import DomainState, MapDocument, MapLane, MoveKind, NodeState
from rebalancer.documents.plan import plan_document
from rebalancer.engine import evaluate
from rebalancer.model.labels import Labels
from rebalancer.model.motion import DomainMotion
from rebalancer.model.moves import (
    NO_MEMORY,
    DomainName,
    Memory,
    Move,
    MoveState,
    ObservedChange,
    Reference,
    Target,
    ZoneSeen,
)
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.pods import PodSpec
from rebalancer.model.reasons import Reason, State, ViolationCause
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.policy import Mode
from rebalancer.policy.sections import Nodes
from rebalancer.simulator import ClusterBuilder
from rebalancer.tracking.track import track
from tests.build import a_cluster, change_specs, with_labels, with_node, with_nodes
from tests.controller.cycles import cycle_of
from tests.drawing import examples
from tests.planning.build import policy
from tests.reporting.test_plan_numbers import states
from tests.reports import cycle_report
from tests.tracking.build import move

WEB = Reference("default", "Deployment", "web")


def drawn(cycle: Cycle, *chosen: Reference, admitted: bool = True, size: MapSize | None = None) -> MapDocument:
    """Draw the map of a cycle, or of chosen workloads."""
    return map_document(
        cycle.evaluation,
        cycle.memory,
        fates=cycle.fates if admitted else None,
        chosen=chosen or None,
        size=size or MapSize(),
    )


@given(states())
@examples(300)
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
    admitted = {eviction.pod.uid for eviction in cycle.fates.going}
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


def evicting(snapshot: Snapshot, mode: Mode = Mode.EVICT, memory: Memory = NO_MEMORY, **rules: Any) -> Cycle:
    return cycle_of(snapshot, policy(**rules), mode=mode, memory=memory)


def one_violated(**fields: Any) -> Snapshot:
    """Six pods of a Deployment in two of three zones, and one that is satisfied."""
    builder = a_cluster("abc", 2, {"a-1": 2, "a-2": 1, "b-1": 2, "b-2": 1}, spread={ZONE: 1}, **fields)
    builder.deployment("calm", on={"a-1": 1, "b-1": 1, "c-1": 1}, spread={ZONE: 1, HOSTNAME: 2})
    return builder.snapshot()


def under_way(snapshot: Snapshot, number: int = 0, **fields: Any) -> Move:
    """Return the move of one of the pods, whose replacement is predicted in zone c."""
    pod = snapshot.pods[number]
    known = {"pod": pod.name, "node": pod.node, "state": MoveState.EVICTED, "targets": (Target(ZONE, ("c",)),)}
    return move(pod.uid, snapshot.taken_at, **{**known, **fields})


def test_a_move_under_way_has_no_step_and_shows_where_its_replacement_is() -> None:
    """Its pod counts no more; the replacement does once it is bound."""
    snapshot = one_violated()
    waiting = drawn(evicting(snapshot, memory=Memory(moves=(under_way(snapshot),)))).lanes[0]
    assert (waiting.moves[0].step, waiting.moves[0].kind, waiting.moves[0].zone) == (None, MoveKind.MOVING, "a")
    assert (waiting.moves[0].landed, waiting.moves[0].to_zones) == (None, ("c",))
    assert waiting.zones == {"a": 2, "b": 3, "c": 0}
    landed = structs.replace(snapshot.pods[1], name="new", uid="new", node="c-2", ready=False)
    bound = replace(snapshot, pods=(*snapshot.pods, landed))
    memory = Memory(moves=(under_way(snapshot, state=MoveState.PENDING, replacement="new"),))
    moved = drawn(evicting(bound, memory=memory)).lanes[0]
    assert moved.moves[0].landed == "c-2"
    assert (moved.zones, moved.nodes["c-2"]) == ({"a": 2, "b": 3, "c": 1}, 1)


def test_an_eviction_that_was_just_sent_keeps_its_step() -> None:
    """Until the next plan, which has it no more; the rest of the step follows it."""
    cycle = evicting(one_violated())
    sent = cycle.plan.fates.going[1]
    number = next(place for place, pod in enumerate(cycle.snapshot.pods) if pod.uid == sent.pod.uid)
    memory = structs.replace(cycle.memory, moves=(under_way(cycle.snapshot, number),))
    moves = map_document(cycle.evaluation, memory, fates=cycle.fates).lanes[0].moves
    assert [(one.pod, one.step) for one in moves] == [(sent.pod.name, 1), (cycle.plan.fates.going[0].pod.name, 1)]


def test_what_does_not_go_now_waits_and_says_why() -> None:
    cycle = evicting(one_violated(), Mode.OBSERVE)
    (lane,) = drawn(cycle).lanes
    assert {(one.kind, one.reason) for one in lane.moves} == {(MoveKind.WAITING, cycle.fates.kept[0].reason)}
    (planned,) = drawn(cycle, admitted=False).lanes
    assert {(one.kind, one.reason) for one in planned.moves} == {(MoveKind.MOVING, None)}


def test_a_workload_that_is_satisfied_has_a_lane_while_a_pod_moves() -> None:
    """After the violated ones, whatever its counts."""
    snapshot = one_violated()
    calm = under_way(snapshot, -1, workload=Reference("default", "Deployment", "calm"))
    document = drawn(evicting(snapshot, memory=Memory(moves=(calm,))))
    assert [lane.workloads[0].name for lane in document.lanes] == ["web", "calm"]
    assert document.lanes[1].state == State.SATISFIED


def test_chosen_workloads_have_all_their_rules() -> None:
    """Satisfied or not; or only what is violated among them."""
    cycle = evicting(one_violated(), text="groups: [{name: g, selector: {}, limits: [" + LIMIT + "]}]")
    calm = Reference("default", "Deployment", "calm")
    (lane,) = drawn(cycle, calm).lanes
    assert [rule.what for rule in (lane, *lane.others)] == [
        "zone, maxSkew 1",
        "node, maxSkew 2",
        "limit g/l (maxPods 9 per zone)",
    ]
    assert (lane.since, lane.others[1].topology_key, lane.others[1].domains["a"].max) == (None, ZONE, 9)
    assert drawn(cycle, WEB, calm).lanes[0].workloads[0].name == "web"
    only = map_document(cycle.evaluation, cycle.memory, chosen=[calm], satisfied=False)
    assert (only.lanes, only.key) == ((), ZONE)
    both = map_document(cycle.evaluation, cycle.memory, chosen=[calm, WEB], satisfied=False)
    assert [(one.workloads[0].name, one.others) for one in both.lanes] == [("web", ())]


LIMIT = "{name: l, topologyKey: topology.kubernetes.io/zone, maxPods: 9}"


def test_a_limit_is_a_lane_of_the_workloads_that_it_counts() -> None:
    """With the pods that it counts by node, and since when it is violated."""
    builder = a_cluster("ab", 1, {"a-1": 2})
    builder.deployment("api", on={"a-1": 1, "b-1": 1})
    rule = LIMIT.replace("9", "1").replace("}", ", groupBy: []}")
    group = f"groups: [{{name: g, selector: {{}}, groupBy: [tier], limits: [{rule}]}}]"
    snapshot = with_labels(builder.snapshot(), tier="x")
    cycle = evicting(snapshot, text=group.replace(", groupBy: []", ""))
    (lane,) = drawn(cycle).lanes
    assert [one.name for one in lane.workloads] == ["api", "web"]
    assert (lane.nodes, lane.what) == ({"a-1": 3, "b-1": 1}, "limit g/l (maxPods 1 per zone)")
    assert {name: (one.pods, one.state) for name, one in lane.domains.items()} == {
        "a": (3, DomainState.ABOVE),
        "b": (1, DomainState.FULL),
    }
    assert lane.since == snapshot.taken_at


def test_each_node_has_its_worst_state_and_each_zone_what_became_of_it() -> None:
    snapshot = one_violated()
    now = snapshot.taken_at
    young = now - timedelta(minutes=1)
    snapshot = with_nodes(
        snapshot,
        {
            "a-1": {"ready": False, "unschedulable": True, "ready_since": None},
            "a-2": {"unschedulable": True},
            "c-1": {"ready_since": young},
        },
    )
    motion = DomainMotion(key=ZONE, value="b", since=young, until=young, moved=young, lasting=False, had=2, lost=1)
    returned = ObservedChange(ViolationCause.DOMAIN_RETURNED, f"{ZONE}=c", young, back_at=young)
    other = ObservedChange(ViolationCause.NODE_LOST, f"{ZONE}=a", young)
    memory = Memory(domains_in_motion=(motion,), changes=(other, returned))
    cycle = cycle_of(snapshot, policy().model_copy(update={"nodes": Nodes(settle=timedelta(minutes=5))}))
    evaluation = evaluate(snapshot, cycle.context.policy, memory=memory)
    a, b, c = map_document(evaluation, memory).zones
    assert [(node.name, node.state, node.until) for node in (*a.nodes, *c.nodes)] == [
        ("a-1", NodeState.NOT_READY, None),
        ("a-2", NodeState.CORDONED, None),
        ("c-1", NodeState.SETTLING, young + timedelta(minutes=5)),
        ("c-2", NodeState.READY, None),
    ]
    assert (a.ready, a.of, a.back, b.back, c.back) == (0, 2, None, None, young)
    assert (a.unsettled_until, b.unsettled_until) == (None, young + timedelta(minutes=5))


@given(
    changes=st.lists(
        st.sampled_from(["lose", "return", "lose all", "return all", "cordon", "cordon all"]), min_size=2, max_size=5
    ),
    apart=st.integers(1, 90),
)
@examples(100)
def test_a_zone_is_said_to_be_back_only_where_it_has_lost_nothing_since(changes: Sequence[str], apart: int) -> None:
    """However it loses nodes and gets them back: "lost 00:14, back 00:13" is said of none, as a whole or in part.

    Nor is "back" of one that was never lost: of two nodes one was, or both were only cordoned.
    """
    snapshot = a_cluster("abc", 2, {"a-1": 3, "b-1": 1, "c-1": 1}, spread={ZONE: 1}).snapshot()
    memory, before, last_loss, returned = NO_MEMORY, snapshot, None, set[datetime]()
    rules = policy().model_copy(update={"nodes": Nodes(settle=timedelta(minutes=5))})
    for change in changes:
        names = ("c-1", "c-2") if change.endswith("all") else ("c-1",)
        state = {"ready": not change.startswith("lose"), "unschedulable": change.startswith("cordon")}
        after = with_nodes(before, dict.fromkeys(names, state))
        after = replace(after, taken_at=before.taken_at + timedelta(seconds=apart))
        if sum(node.takes_pods for node in after.nodes) < sum(node.takes_pods for node in before.nodes):
            last_loss = after.taken_at
        earlier, memory = memory, track(memory, before, after, rules, after.taken_at)
        zone = next(one for one in map_document(evaluate(after, rules, memory=memory), memory).zones if one.name == "c")
        assert zone.back is None or (zone.ready and (last_loss is None or last_loss < zone.back))
        told = find_zones(earlier, memory, [ZONE], {DomainName(ZONE, one) for one in "abc"})
        returned |= {after.taken_at for one in told if isinstance(one, ZoneReturned)}
        assert zone.back is None or zone.back in returned, "the history says so, too"
        before = after


def test_of_many_nodes_those_are_listed_that_a_lane_concerns() -> None:
    """The others are counted by state; where too many concern one, all are."""
    snapshot = a_cluster("abc", 30, {"a-1": 2, "a-2": 1, "b-1": 3}, spread={ZONE: 1}).snapshot()
    cycle = evicting(with_node(snapshot, "a-9", unschedulable=True))
    document = drawn(cycle)
    listed = {zone.name: [node.name for node in zone.nodes] for zone in document.zones}
    assert listed == {"a": ["a-1", "a-2"], "b": ["b-1"], "c": []}
    assert document.zones[0].folded == {NodeState.CORDONED: 1, NodeState.READY: 27}
    assert (document.lanes[0].moves[0].to_nodes, document.lanes[0].moves[0].to_zones) == ((), ("c",))
    few = drawn(cycle, size=MapSize(nodes=2))
    assert [zone.nodes for zone in few.zones] == [(), (), ()]
    assert (few.lanes[0].nodes, few.lanes[0].zones) == ({}, {"a": 3, "b": 3, "c": 0})


def test_the_zones_are_the_domains_that_constraints_are_about() -> None:
    """The zone if a rule has it, else the key with fewest domains; never one of which every node is a domain."""

    def keyed(spread: Mapping[str, int], **labels: str) -> MapDocument:
        snapshot = a_cluster("abc", 2, {"a-1": 3, "b-1": 1}, spread=spread).snapshot()
        nodes = tuple(
            structs.replace(node, labels=Labels({**node.labels, **labels, "rack": node.name[-1], "row": node.name}))
            for node in snapshot.nodes
        )
        if labels:
            nodes = tuple(
                structs.replace(node, labels=Labels({key: value for key, value in node.labels.items() if key != ZONE}))
                for node in nodes
            )
        return drawn(evicting(replace(snapshot, nodes=nodes)))

    assert keyed({ZONE: 1, "rack": 1}).key == ZONE
    by_node = keyed({HOSTNAME: 1})
    assert (by_node.key, by_node.lanes[0].zones) == (ZONE, {"a": 3, "b": 1, "c": 0})
    assert by_node.lanes[0].domains["a-1"].state is DomainState.ABOVE
    racks = keyed({"row": 1, "rack": 1})
    assert (racks.key, [zone.name for zone in racks.zones]) == ("rack", ["1", "2"])
    nowhere = keyed({HOSTNAME: 1}, other="x")
    assert (nowhere.key, [(zone.name, zone.of) for zone in nowhere.zones]) == ("", [("", 6)])


def test_nodes_without_the_key_are_in_a_zone_without_a_name() -> None:
    """The last one; a zone that a rule counts is there without a node, too, and so is one that is known."""
    snapshot = one_violated()
    alone = replace(snapshot, nodes=tuple(node for node in snapshot.nodes if not node.name.startswith("c")))
    stray = structs.replace(alone.nodes[0], name="stray", labels=Labels({HOSTNAME: "stray"}))
    text = "groups: [{name: g, selector: {}, limits: [" + LIMIT.replace("9", "1, domains: [a, b, z]") + "]}]"
    cycle = evicting(replace(alone, nodes=(*alone.nodes, stray)), text=text)
    document = drawn(cycle)
    assert [(zone.name, zone.of) for zone in document.zones] == [("a", 2), ("b", 2), ("z", 0), ("", 1)]
    known = structs.replace(NO_MEMORY, zones=(ZoneSeen(ZONE, "c", snapshot.taken_at - timedelta(minutes=1)),))
    evaluation = evaluate(alone, policy(), memory=known)
    assert [zone.name for zone in map_document(evaluation, known, chosen=[WEB]).zones] == ["a", "b", "c"]


def test_what_is_left_out_is_counted() -> None:
    """Lanes, zones, domains and moves; what says most comes first."""
    builder = a_cluster("abcd", 3, {"a-1": 9, "b-1": 1}, spread={ZONE: 1, HOSTNAME: 1})
    for number in range(3):
        builder.deployment(f"web-{number}", on={"a-1": 3 + number}, spread={ZONE: 1})
    cycle = evicting(builder.snapshot())
    document = drawn(cycle, size=MapSize(lanes=2, zones=2, domains=2, moves=1))
    assert [lane.workloads[0].name for lane in document.lanes] == ["web", "web-1"]
    assert (document.more, [zone.name for zone in document.zones], document.more_zones) == (2, ["a", "b"], 2)
    (first, second) = document.lanes
    assert (set(first.domains), first.more_domains) == ({"a", "c"}, 2)
    assert (len(first.moves), first.more_moves) == (1, len(drawn(cycle).lanes[0].moves) - 1)
    assert second.zones == {"a": 4, "b": 0}


def test_a_stored_map_is_small() -> None:
    """Of a cluster with many violated workloads of many pods on nodes with long names; and none of a calm one."""
    builder = ClusterBuilder()
    names = [f"{zone}-{number}-{'x' * 60}" for zone in "abc" for number in range(10)]
    for name in names:
        builder.node(name, zone=f"{name[0]}-{'z' * 50}")
    for number in range(9):
        builder.deployment(f"web-{number}-{'y' * 40}", on=dict.fromkeys(names[:20], 2), spread={ZONE: 1, HOSTNAME: 1})
    cycle = evicting(builder.snapshot())
    stored = cycle.stored_map
    assert stored is not None
    assert len(stored.lanes) > 1
    assert len(stored.lanes) + stored.more == 9
    assert len(msgspec.json.encode(stored)) <= 8 * 1024
    assert evicting(a_cluster("abc", 1, {"a-1": 1, "b-1": 1, "c-1": 1}, spread={ZONE: 1}).snapshot()).stored_map is None


def test_soft_constraints_are_drawn_where_they_are_acted_on() -> None:
    def soften(_: str, spec: PodSpec) -> PodSpec:
        soft = WhenUnsatisfiable.SCHEDULE_ANYWAY
        return structs.replace(spec, spread=tuple(structs.replace(one, when_unsatisfiable=soft) for one in spec.spread))

    softened = change_specs(one_violated(), soften)
    assert drawn(evicting(softened)).lanes == ()
    (lane,) = drawn(evicting(softened, text="spread: {actOn: [DoNotSchedule, ScheduleAnyway]}")).lanes
    assert lane.what == "zone, maxSkew 1 (soft)"
