"""The zones of a large cluster are its nodes and pods counted by hand, each once."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given
from msgspec import structs

from rebalancer.account.numbers import plan_numbers
from rebalancer.controller.cycle import Cycle
from rebalancer.documents.cluster_map import MapSize, map_document
from rebalancer.documents.folded_zones import zones_document
from rebalancer.documents.map import MoveKind
from rebalancer.documents.zones import NodeMark, ZoneEntry, ZonesDocument
from rebalancer.engine import evaluate
from rebalancer.model.labels import Labels
from rebalancer.model.moves import NO_MEMORY, Memory, MoveState, Reference, Target, ZoneSeen
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode
from rebalancer.policy.sections import Nodes
from rebalancer.simulator import ClusterBuilder
from tests.build import a_cluster, with_nodes
from tests.controller.cycles import cycle_of
from tests.drawing import examples
from tests.planning.build import policy
from tests.reporting.test_plan_numbers import states
from tests.tracking.build import move

WEB, CALM = Reference("default", "Deployment", "web"), Reference("default", "Deployment", "calm")


def counted(cycle: Cycle, *chosen: Reference, memory: Memory | None = None) -> ZonesDocument:
    return zones_document(cycle.evaluation, memory or cycle.memory, cycle.fates, chosen or None)


def zones_of(document: ZonesDocument) -> Mapping[str, ZoneEntry]:
    return {zone.name: zone for zone in document.zones}


@given(states())
@examples(150)
def test_the_zones_count_as_the_map_does_and_every_node_and_pod_once(cycle: Cycle) -> None:
    """Whatever is violated, blocked, excluded or pending: the moves are those of the map, by zone."""
    document = counted(cycle)
    drawn = map_document(cycle.evaluation, cycle.memory, fates=cycle.fates, size=MapSize(lanes=99, moves=99))
    moves = {move.pod: move for lane in drawn.lanes for move in lane.moves}
    zone_of = {node.name: node.labels[ZONE] for node in cycle.snapshot.nodes}
    assert document.key == drawn.key == ZONE
    assert document.nodes == len(cycle.snapshot.nodes)
    assert [zone.name for zone in document.zones] == [zone.name for zone in drawn.zones]
    owners = {pod.name: cycle.evaluation.view.snapshot.top_owner_of(pod) for pod in cycle.snapshot.pods}
    names = {owner.name for pod in moves if (owner := owners[pod]) is not None}
    names.update(one.name for lane in drawn.lanes if lane.state is not State.SATISFIED for one in lane.workloads)
    pods = Counter(
        zone_of[pod.node]
        for pod in cycle.snapshot.pods
        if pod.node is not None and (owner := owners[pod.name]) is not None and owner.name in names
    )
    assert sum(zone.arriving for zone in document.zones) >= sum(
        bool(move.to_zones) for move in moves.values() if move.kind is not MoveKind.BLOCKED
    )
    for zone in document.zones:
        here = Counter(move.kind for move in moves.values() if move.zone == zone.name)
        assert sum(zone.marks.values()) == Counter(zone_of.values())[zone.name]
        assert zone.pods == pods[zone.name] == zone.staying + zone.moving + zone.waiting + zone.blocked
        assert zone.moving == here[MoveKind.MOVING]
        assert zone.waiting >= here[MoveKind.WAITING]
        assert zone.blocked >= here[MoveKind.BLOCKED]
        assert zone.arriving <= sum(
            zone.name in move.to_zones for move in moves.values() if move.kind is not MoveKind.BLOCKED
        )
        losing = {move.node for move in moves.values() if move.zone == zone.name and move.kind is not MoveKind.BLOCKED}
        assert zone.marks.get(NodeMark.LOSING, 0) == len(losing)


@given(states())
@examples(100)
def test_no_more_is_to_move_than_the_plan_needs(cycle: Cycle) -> None:
    """What moves, what waits and what is decided later are evictions of the plan; so is what is blocked."""
    numbers, zones = plan_numbers(cycle.plan), counted(cycle).zones
    assert sum(zone.moving + zone.waiting for zone in zones) <= numbers.evictions
    never = sum(one.reason is Reason.STEP_EXCEEDS_BUDGET for one in cycle.plan.fates.kept)
    decided = numbers.now + numbers.waiting + never
    assert sum(zone.moving + zone.waiting + zone.blocked for zone in zones) >= decided


@given(states())
@examples(100)
def test_the_goal_leaves_room_for_every_pod(cycle: Cycle) -> None:
    """A zone holds no more than its goal and the pods above it; all zones together may hold all pods."""
    document = counted(cycle)
    if all(zone.goal is not None for zone in document.zones):
        goals = [zone.goal or 0 for zone in document.zones]
        assert all(zone.pods <= goal + zone.above for zone, goal in zip(document.zones, goals, strict=True))
        if all(limit.reason is None for limit in cycle.assessment.limits):  # such pods have no placement within bounds
            assert sum(goals) >= sum(zone.pods for zone in document.zones)


def evicting(snapshot: Snapshot, memory: Memory = NO_MEMORY, **rules: Any) -> Cycle:
    return cycle_of(snapshot, policy(**rules), mode=Mode.EVICT, memory=memory)


def one_violated(**fields: Any) -> Snapshot:
    """Six pods of a Deployment in two of three zones, and three of one that is satisfied."""
    builder = a_cluster("abc", 2, {"a-1": 2, "a-2": 1, "b-1": 2, "b-2": 1}, spread={ZONE: 1}, **fields)
    builder.deployment("calm", on={"a-1": 1, "b-1": 1, "c-1": 1}, spread={ZONE: 1})
    return builder.snapshot()


def test_a_zone_has_its_pods_against_the_most_that_it_may_hold() -> None:
    """Six pods over three zones are two each; the pods of what is satisfied are not among them."""
    a, b, c = counted(evicting(one_violated())).zones
    assert [(zone.name, zone.pods, zone.goal, zone.above) for zone in (a, b, c)] == [
        ("a", 3, 2, 1),
        ("b", 3, 2, 1),
        ("c", 0, 2, 0),
    ]
    assert (a.staying, a.moving + a.waiting, a.blocked, a.arriving) == (2, 1, 0, 0)
    assert (c.staying, c.moving + c.waiting, c.blocked, c.arriving) == (0, 0, 0, 2)
    assert (a.marks, c.marks) == ({NodeMark.LOSING: 1, NodeMark.UNCHANGED: 1}, {NodeMark.UNCHANGED: 2})


def test_a_move_under_way_counts_where_its_pod_was_and_where_its_replacement_is() -> None:
    """Until that is bound it arrives; then it is a pod there. The evicted one is among the pods no more."""
    snapshot = one_violated()
    pod = snapshot.pods[0]
    known: dict[str, Any] = {
        "pod": pod.name,
        "node": pod.node,
        "state": MoveState.EVICTED,
        "targets": (Target(ZONE, ("c",)),),
    }
    memory = Memory(moves=(move(pod.uid, snapshot.taken_at, **known),))
    a, _, c = counted(evicting(snapshot, memory)).zones
    assert (a.pods, a.staying, a.moving) == (2, 2, 1)
    assert (a.marks[NodeMark.LOSING], c.arriving, c.marks) == (1, 2, {NodeMark.UNCHANGED: 2})
    landed = structs.replace(snapshot.pods[1], name="new", uid="new", node="c-2", ready=False)
    memory = Memory(moves=(move(pod.uid, snapshot.taken_at, **known, replacement="new"),))
    _, _, c = counted(evicting(replace(snapshot, pods=(*snapshot.pods, landed)), memory)).zones
    assert (c.pods, c.arriving, c.marks[NodeMark.RECEIVING]) == (1, 1, 1)


def test_every_replacement_under_way_arrives() -> None:
    """Though the bound of the pods that are left is lower than the number of those that are missing."""
    snapshot = one_violated()
    moves = tuple(
        move(
            pod.uid,
            snapshot.taken_at,
            pod=pod.name,
            node=pod.node,
            state=MoveState.EVICTED,
            targets=(Target(ZONE, ("c",)),),
        )
        for pod in snapshot.pods[:3]
    )
    a, _, c = counted(evicting(snapshot, Memory(moves=moves))).zones
    assert (a.pods, a.moving) == (0, 3)
    assert c.arriving >= 3


def test_an_eviction_that_was_sent_since_the_plan_counts_once() -> None:
    cycle = evicting(one_violated())
    sent = cycle.plan.fates.going[0].pod
    memory = Memory(moves=(move(sent.uid, cycle.snapshot.taken_at, pod=sent.name, node=sent.node),))
    before, after = counted(cycle), counted(cycle, memory=memory)
    assert sum(zone.moving + zone.waiting for zone in after.zones) == 2
    assert [zone.staying for zone in after.zones] == [zone.staying for zone in before.zones]


def test_what_cannot_be_repaired_is_blocked() -> None:
    """Pods above the bound of which no eviction is decided, and those for which no budget ever leaves room."""
    for many in (1, 2):
        builder = a_cluster("ab", 1, {"a-1": 4, "b-1": 0}, spread={ZONE: 1})
        for number in range(many):
            builder.budget(f"web-{number}", max_unavailable=0, app="web")
        a, b = counted(evicting(builder.snapshot())).zones
        assert (a.pods, a.staying, a.blocked, a.above, a.goal) == (4, 2, 2, 2, 2)
        assert (b.arriving, b.pods) == (0, 0)
        assert NodeMark.LOSING not in a.marks


def test_what_is_decided_later_waits() -> None:
    """Of six pods above the bound four are decided on; a pod without a node that fills up another zone saves one."""
    cycle = evicting(a_cluster("abc", 2, {"a-1": 9}, spread={ZONE: 1, HOSTNAME: 1}).snapshot())
    assert (plan_numbers(cycle.plan).now, plan_numbers(cycle.plan).later) == (4, 3)
    a = counted(cycle).zones[0]
    assert (a.above, a.moving + a.waiting, a.staying) == (6, 6, 3)
    pending = a_cluster("ab", 1, {"b-1": 4}, spread={ZONE: 1}, replicas=5).snapshot()
    b = counted(evicting(pending)).zones[1]
    assert (b.above, b.moving + b.waiting, b.staying) == (2, 1, 3)


def test_each_node_has_one_mark_the_worst() -> None:
    snapshot = one_violated()
    young = snapshot.taken_at - timedelta(minutes=1)
    snapshot = with_nodes(
        snapshot,
        {
            "a-1": {"ready": False, "unschedulable": True, "ready_since": None},
            "b-1": {"unschedulable": True},
            "c-1": {"ready_since": young},
        },
    )
    cycle = cycle_of(snapshot, policy().model_copy(update={"nodes": Nodes(settle=timedelta(minutes=5))}))
    a, b, c = counted(cycle).zones
    assert a.marks[NodeMark.NOT_READY] == 1
    assert b.marks[NodeMark.CORDONED] == 1
    assert c.marks == {NodeMark.SETTLING: 1, NodeMark.UNCHANGED: 1}
    assert (a.settles_at, c.settles_at) == (None, young + timedelta(minutes=5))
    assert list(a.marks) == sorted(a.marks, key=list(NodeMark).index)


def test_a_node_receives_where_few_may() -> None:
    """Of more nodes in reach none is marked, since the pod goes to one of them."""
    snapshot = a_cluster("ab", 2, {"a-1": 3, "a-2": 1, "b-1": 2, "b-2": 2}, spread={HOSTNAME: 1}).snapshot()
    a, b = counted(evicting(snapshot)).zones
    assert (a.marks, b.marks) == ({NodeMark.LOSING: 1, NodeMark.RECEIVING: 1}, {NodeMark.UNCHANGED: 2})
    assert (a.arriving, b.arriving, a.goal, a.above) == (1, 0, None, 0)


def test_a_pod_of_two_violated_rules_counts_once_and_so_does_its_bound() -> None:
    """Of a constraint and a limit over all workloads the one with more pods above it is the bound."""
    text = (
        "groups: [{name: g, selector: {}, limits: [{name: l, topologyKey: topology.kubernetes.io/zone, maxPods: 2}]}]"
    )
    cycle = evicting(one_violated(), text=text)
    for zone in counted(cycle).zones:
        assert (zone.pods, zone.goal, zone.above) == ((3, 2, 1) if zone.name != "c" else (0, 2, 0))
    both = a_cluster("abc", 1, {"a-1": 4}, spread={ZONE: 1})
    both.deployment("dense", on={"a-1": 3}, spread={HOSTNAME: 1})
    a, b, c = counted(evicting(both.snapshot())).zones
    assert [(zone.pods, zone.goal) for zone in (a, b, c)] == [(7, 2 + 3), (0, 2), (0, 2)]


def test_only_what_is_chosen_counts_and_all_nodes_do() -> None:
    builder = a_cluster("abc", 1, {"a-1": 3}, spread={ZONE: 1})
    builder.deployment("cart", on={"b-1": 3}, spread={ZONE: 1})
    cycle = evicting(builder.snapshot())
    assert [zone.pods for zone in counted(cycle).zones] == [3, 3, 0]
    chosen = counted(cycle, WEB)
    assert [(zone.pods, zone.moving + zone.waiting) for zone in chosen.zones] == [(3, 2), (0, 0), (0, 0)]
    assert chosen.nodes == 3
    assert [zone.pods for zone in counted(cycle, CALM).zones] == [0, 0, 0]


def test_zones_without_nodes_or_a_name_are_there() -> None:
    """A known zone without a node; the nodes without the label, last; without any label all are in one."""
    snapshot = one_violated()
    alone = replace(snapshot, nodes=tuple(node for node in snapshot.nodes if not node.name.startswith("c")))
    stray = structs.replace(alone.nodes[0], name="stray", labels=Labels({HOSTNAME: "stray"}))
    known = structs.replace(NO_MEMORY, zones=(ZoneSeen(ZONE, "c", snapshot.taken_at - timedelta(minutes=1)),))
    some = replace(alone, nodes=(*alone.nodes, stray))
    cycle = evicting(some)
    document = zones_document(evaluate(some, policy(), memory=known), known, cycle.fates)
    assert [(zone.name, sum(zone.marks.values())) for zone in document.zones] == [("a", 2), ("b", 2), ("c", 0), ("", 1)]
    nodes = tuple(
        structs.replace(node, labels=Labels({HOSTNAME: node.name})) for node in a_cluster("ab", 2).snapshot().nodes
    )
    builder = a_cluster("ab", 2, {"a-1": 3, "a-2": 1}, spread={HOSTNAME: 1})
    (whole,) = counted(evicting(replace(builder.snapshot(), nodes=nodes))).zones
    assert (whole.name, whole.pods, whole.moving + whole.waiting) == ("", 4, whole.arriving)


def test_its_size_depends_on_zones_alone() -> None:
    """Ten times the nodes and workloads take a few digits more; of many zones those are listed that hold pods."""

    def size(nodes: int, workloads: int) -> int:
        builder = a_cluster("abc", nodes)
        for number in range(workloads):
            builder.deployment(f"web-{number}", on={f"a-{1 + number % nodes}": 3}, spread={ZONE: 1})
        return len(msgspec.json.encode(counted(evicting(builder.snapshot()))))

    assert size(30, 30) < size(3, 3) + 3 * 60
    builder = ClusterBuilder()
    builder.zones([f"z{number:02}" for number in range(30)], 1)
    builder.deployment("web", on={"z29-1": 40}, spread={ZONE: 1})
    document = counted(evicting(builder.snapshot()))
    assert (len(document.zones), document.more_zones, document.nodes) == (24, 6, 30)
    assert zones_of(document)["z29"].pods == 40
