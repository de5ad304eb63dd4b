"""Corners of planning that whole plans seldom reach: each says what it is for."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from benchmarks.planning_states import zone_returned
from rebalancer.adapters.simulator import HOSTNAME, ZONE, ClusterBuilder
from rebalancer.assessment.assess import assess
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, PodPhase, PodSpec, Resources
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import SpreadConstraint, WhenUnsatisfiable
from rebalancer.planning import decision
from rebalancer.planning.answers import forget
from rebalancer.planning.decision import ComponentContext, decide_multi_class, decide_single_class
from rebalancer.planning.diagnosis.obstacles import diagnose_multi_class
from rebalancer.planning.formulation import ProblemBuilder, SingleClassProblem, _set_aside
from rebalancer.planning.multi_class import milp
from rebalancer.planning.multi_class.classes import MultiClassProblem
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.planner import _Planner
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.scope.capacity import CapacityIndex, NodeCapacity, ReservedCapacity
from rebalancer.planning.scope.components import find_components
from rebalancer.planning.scope.topology import Topologies
from rebalancer.planning.single_class.outlook import expected_counts
from rebalancer.planning.steps import reachability
from rebalancer.planning.steps.boards import SingleClassBoard
from rebalancer.planning.steps.contingent import contingent_step
from rebalancer.planning.steps.forced import WIDEST, SearchBudget, SearchLimitReached, StepGoal
from rebalancer.planning.steps.forced import SearchState as Standing
from rebalancer.planning.steps.lookahead import lookahead_step
from rebalancer.planning.steps.reachability import is_unreachable
from rebalancer.policy import Amount, Policy
from rebalancer.scheduling.node_usage import add_usage
from rebalancer.scheduling.view import View
from tests.planning.multi_class.test_classes import changed, limit, planned, policy, softly, together
from tests.planning.states import bounds, state
from tests.scheduling.build import NOW, pod


def problem(snapshot: Snapshot, rules: Policy | None = None) -> tuple[View, Any]:
    """Return the first component's problem."""
    view, rules = View(snapshot), rules or policy()
    assessment = assess(view, rules, NO_MEMORY)
    ledger = BudgetLedger(snapshot, rules.budgets, NO_MEMORY)
    component = find_components(assessment, frozenset(), rules.spread.act_on)[0]
    return view, ProblemBuilder(view, rules, ledger).problem(component)


def labelled(name: str, labels: dict[str, str]) -> Node:
    return Node(name=name, labels=Labels({HOSTNAME: name, **labels}), created=NOW, ready_since=NOW - timedelta(days=1))


def two_kinds(**fields: Any) -> ClusterBuilder:
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("one", on={"a-1": 3}, spread={ZONE: 1}, cpu=100)
    blueprint.deployment("two", on={"a-1": 3}, spread={ZONE: 1}, cpu=200, **fields)
    return blueprint


def joined(blueprint: ClusterBuilder) -> Snapshot:
    return changed(blueprint.snapshot(), together, cluster="r")


def test_amounts_of_named_resources_add_up() -> None:
    """Extended resources are counted by name, both ways."""
    holds = msgspec.structs.replace(pod({"a": "b"}, on="n"), requests=Resources(extended=(("gpu", 2),)))
    used = add_usage([(holds, 1), (holds, 1), (holds, -1)])
    assert used.extended == {"gpu": 2}


def test_a_reception_without_nodes() -> None:
    """Nothing is usual, and nothing is the least, where no node takes a pod."""
    nobody = NodeCapacity({})
    assert (nobody.usual(), nobody.least(1), nobody.slots(1)) == (0, 0, 0)


def test_named_resources_that_are_on_their_way() -> None:
    """A waiting pod takes as many places as it asks for of the scarcest resource."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("web", on={"a-1": 2}, spread={ZONE: 1})
    snapshot = blueprint.snapshot()
    large = Resources(cpu=100, extended=(("gpu", 3),))
    waiting = Pod(
        namespace="default",
        name="waits",
        uid="waits",
        spec=PodSpec(requests=large),
        requests=large,
        created=NOW,
    )
    roomy = tuple(
        msgspec.structs.replace(each, allocatable=msgspec.structs.replace(each.allocatable, extended=(("gpu", 8),)))
        for each in snapshot.nodes
    )
    rooms = CapacityIndex(View(replace(snapshot, nodes=roomy, pods=(*snapshot.pods, waiting))))
    asking = msgspec.structs.replace(waiting, spec=PodSpec(requests=Resources(extended=(("gpu", 1),))))
    assert rooms.taken(rooms.of(asking, []), asking).of("a-1") == 3


def test_waiting_pods_for_some_of_the_nodes() -> None:
    """Room is set aside on the nodes that a waiting pod may land on, and nowhere else."""
    blueprint = ClusterBuilder()
    blueprint.zones("abc", 2)
    blueprint.deployment("web", on={"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}, spread={ZONE: 1, HOSTNAME: 1}, cpu=1000)
    snapshot = blueprint.snapshot()
    waiting = Pod(
        namespace="default",
        name="waits",
        uid="waits",
        spec=PodSpec(
            requests=Resources(cpu=2000),
            node_affinity=msgspec.structs.replace(PodSpec().node_affinity, selector=Labels({HOSTNAME: "c-1"})),
        ),
        requests=Resources(cpu=2000),
        created=NOW - timedelta(hours=1),
    )
    narrow = tuple(
        msgspec.structs.replace(each, allocatable=msgspec.structs.replace(each.allocatable, cpu=3000))
        if each.name == "c-1"
        else each
        for each in snapshot.nodes
    )
    found = planned(replace(snapshot, nodes=narrow, pods=(*snapshot.pods, waiting)))
    assert found.groups
    _, made = problem(replace(snapshot, nodes=narrow, pods=(*snapshot.pods, waiting)))
    assert isinstance(made, SingleClassProblem)
    assert (made.layout.cap("c-1"), made.layout.cap("c-2") > 1) == (1, True)
    there = msgspec.structs.replace(
        waiting,
        spec=msgspec.structs.replace(
            waiting.spec,
            node_affinity=msgspec.structs.replace(PodSpec().node_affinity, selector=Labels({HOSTNAME: "a-1"})),
        ),
    )
    _, beside = problem(replace(snapshot, pods=(*snapshot.pods, there)))
    assert isinstance(beside, SingleClassProblem)
    assert beside.layout.root


def test_an_owner_without_any_pod_takes_no_room_that_can_be_known() -> None:
    """What its first pod will be like is not known from a pod."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("web", on={"a-1": 2}, spread={ZONE: 1})
    snapshot = blueprint.snapshot()
    empty = msgspec.structs.replace(
        next(each for each in snapshot.workloads if each.kind == "ReplicaSet"), uid="empty", name="empty", replicas=1
    )
    assert planned(replace(snapshot, workloads=(*snapshot.workloads, empty))).groups


def test_more_on_the_way_than_a_node_has_room_for() -> None:
    """Then nodes with half the usual room are counted on, less those that the others could fill."""
    snapshot = zone_returned(30, 40, 9)
    tight = tuple(msgspec.structs.replace(each, pods=24) for each in snapshot.nodes)
    found = planned(replace(snapshot, nodes=tight))
    assert found.evictions
    assert {group.reason for group in found.groups} >= {Reason.GROUP_IN_FLIGHT}


def test_a_mixed_component_settles_too() -> None:
    """A node that just became Ready is no target for pods of several kinds either."""
    snapshot = joined(two_kinds())
    fresh = tuple(
        msgspec.structs.replace(each, ready_since=snapshot.taken_at) if each.name == "b-1" else each
        for each in snapshot.nodes
    )
    rules = policy().model_copy(update={"nodes": policy("").nodes.model_copy(update={"settle": timedelta(minutes=5)})})
    (group,) = planned(replace(snapshot, nodes=fresh), rules).groups
    assert group.reason is Reason.NODE_SETTLING


def test_a_waiting_pod_of_a_kind_that_is_held_back() -> None:
    """A gated pod of one kind lets the whole component wait."""
    snapshot = joined(two_kinds())
    first = next(each for each in snapshot.pods if each.labels["app"] == "one")
    held = tuple(
        msgspec.structs.replace(
            each, node=None, ready=False, phase=PodPhase.PENDING, spec=msgspec.structs.replace(each.spec, gated=True)
        )
        if each.uid == first.uid
        else each
        for each in snapshot.pods
    )
    (group,) = planned(replace(snapshot, pods=held)).groups
    assert group.reason is Reason.GROUP_IN_FLIGHT


def test_waiting_pods_that_bring_several_kinds_right() -> None:
    """Where everything can stand once they have landed, they are waited for."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("one", on={"a-1": 3, "b-1": 1}, spread={ZONE: 1}, cpu=100)
    blueprint.deployment("two", on={"b-2": 1}, spread={ZONE: 1}, cpu=200)
    snapshot = joined(blueprint)
    last = next(each for each in snapshot.pods if each.labels["app"] == "two")
    waits = tuple(
        msgspec.structs.replace(each, node=None, ready=False, phase=PodPhase.PENDING) if each.uid == last.uid else each
        for each in snapshot.pods
    )
    (group,) = planned(replace(snapshot, pods=waits)).groups
    assert (group.state, group.reason) == (State.VIOLATED, Reason.GROUP_IN_FLIGHT)
    _, made = problem(replace(snapshot, pods=waits))
    assert made.pending == 1


def test_pods_that_nobody_would_create_anew() -> None:
    """A component of pods without owners that are not alike has nobody to be moved."""
    pods = [
        msgspec.structs.replace(
            pod({"app": "x", "n": str(number)}, on="n1"),
            uid=f"u{number}",
            name=f"p{number}",
            spec=PodSpec(
                requests=Resources(cpu=number),
                spread=(
                    hard(ZONE, "x"),
                    hard("rack", "x"),
                ),
            ),
        )
        for number in range(3)
    ]
    nodes = [
        labelled("n1", {ZONE: "a", "rack": "1"}),
        labelled("n2", {ZONE: "a", "rack": "2"}),
        labelled("n3", {ZONE: "b", "rack": "1"}),
    ]
    found = planned(Snapshot(taken_at=NOW, nodes=nodes, pods=pods))
    assert found.evictions == ()
    assert {group.reason for group in found.groups} == {Reason.UNKNOWN_OWNER}


def hard(key: str, app: str) -> Any:
    return SpreadConstraint(
        topology_key=key,
        max_skew=1,
        when_unsatisfiable=WhenUnsatisfiable.DO_NOT_SCHEDULE,
        selector=LabelSelector.of({"app": app}),
    )


def test_a_solution_that_was_not_found_in_time() -> None:
    """Cut short, the program says so, and nothing is claimed to be impossible."""
    _, made = problem(joined(two_kinds()))
    assert isinstance(made, MultiClassProblem)
    assert diagnose_multi_class(made, Unsolved.GIVEN_UP)[1].reason is Reason.NOT_FORCED
    assert isinstance(solve(made), Solution)


def test_a_proof_that_is_cut_short_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not every state was looked at, nothing is called unreachable."""
    start = Standing(state([[2, 1], [4, 1, 3]]))
    assert is_unreachable(start, bounds(1, 1))
    monkeypatch.setattr(reachability, "_EFFORT", 10)
    forget()
    assert not is_unreachable(start, bounds(1, 1))


def test_keys_of_three_levels_nest_or_cross() -> None:
    """Each key is compared with the next finer one."""
    nodes = [
        labelled("n1", {ZONE: "a", "row": "1", "rack": "x"}),
        labelled("n2", {ZONE: "a", "row": "1", "rack": "y"}),
        labelled("n3", {ZONE: "b", "row": "2", "rack": "x"}),
    ]
    view = View(Snapshot(taken_at=NOW, nodes=nodes))
    grounds = Topologies(view)
    names = view.nodes.names
    assert grounds.crossing(names, (ZONE, "row", HOSTNAME)) is None
    assert grounds.crossing(names, (ZONE, "row", "rack")) == ("row", "rack")
    copy = frozenset(sorted(names))
    assert [grounds.equal(names, each) for each in (names, copy, copy)] == [True, True, True]


def test_a_board_of_equal_pods_tells_every_node_apart() -> None:
    """Scores may differ between nodes that hold as many pods."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("web", on={"a-1": 3}, spread={ZONE: 1})
    _, made = problem(blueprint.snapshot())
    assert list(SingleClassBoard(made, 1).alike({}, ["a-1", "a-2"])) == ["a-1", "a-2"]


def test_strangers_of_a_limit() -> None:
    """A pod that the limit does not mean may wait for whatever it likes; one that it means belongs to the component."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("web", on={"a-1": 3, "a-2": 1})
    snapshot = changed(blueprint.snapshot(), lambda _, spec: spec, team="x")
    rules = policy(
        "groups: [{name: g, selector: {matchLabels: {team: x}}, groupBy: [team], limits: "
        f"[{{name: l, topologyKey: {HOSTNAME}, maxPods: 2, selector: {{matchLabels: {{app: web}}}}, action: Evict}}]}}]"
    )

    def waiting(**labels: str) -> Pod:
        return Pod(namespace="default", name="w", uid="w", labels=Labels(labels), created=snapshot.taken_at)

    for labels in ({"team": "y", "app": "web"}, {"team": "x", "app": "other"}, {"team": "x", "app": "web"}):
        found = planned(replace(snapshot, pods=(*snapshot.pods, waiting(**labels))), rules)
        assert Reason.GROUP_IN_FLIGHT not in {group.reason for group in found.groups}, labels


def test_an_owner_that_has_pods_to_create_which_count() -> None:
    """Its pods would change the counts of everybody under the selector."""
    snapshot = joined(two_kinds())
    short = tuple(
        msgspec.structs.replace(each, replicas=4, current=3) if each.kind == "ReplicaSet" else each
        for each in snapshot.workloads
    )
    alone = tuple(each for each in snapshot.pods if each.labels["app"] == "one")
    others = tuple(each for each in short if each.template is not None and each.template.labels["app"] == "one")
    extra = next(
        each
        for each in short
        if each.kind == "ReplicaSet" and each.template is not None and each.template.labels["app"] == "two"
    )
    exact = tuple(msgspec.structs.replace(each, replicas=3, current=3, updated=3) for each in others)
    found = planned(replace(snapshot, pods=alone, workloads=(*exact, extra)))
    assert {group.reason for group in found.groups} == {Reason.GROUP_IN_FLIGHT}
    assert "pods to create" in found.groups[0].message


def test_many_nodes_to_land_on() -> None:
    """A key with more than a hundred open domains is not named, and many like nodes cannot be told apart."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 110)
    blueprint.deployment("web", on={"a-1": 3, "a-2": 3}, spread={ZONE: 1, HOSTNAME: 4})
    found = planned(blueprint.snapshot())
    assert found.evictions
    assert [each.topology_key for each in found.evictions[0].targets] == [ZONE]
    rules = policy(limit("maxPods: 2"))
    (group,) = planned(softly(blueprint.snapshot()), rules).groups
    assert group.evictions


def test_the_next_pod_of_a_victim_may_be_unknown() -> None:
    """An ephemeral volume leaves it open where a replacement can be, so nothing is foreseen of it."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("web", on={"a-1": 3, "b-1": 1}, spread={HOSTNAME: 3})
    snapshot = softly(blueprint.snapshot())
    _, made = problem(snapshot, policy(limit("maxPods: 2")))
    board = SingleClassBoard(made, 1)
    gone = replace(snapshot, workloads=())
    assert lookahead_step(View(gone), board, StepGoal.EVERY, SearchBudget(1000), forced=False) is None
    with pytest.raises(SearchLimitReached):  # ranking the victims is work too, even where none is followed
        lookahead_step(View(gone), board, StepGoal.EVERY, SearchBudget(999), forced=False)


def test_room_for_what_may_have_to_follow() -> None:
    """One that may have to be followed by another does not go where the budgets have room for one."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("web", on={"a-1": 3, "b-1": 1}, spread={HOSTNAME: 3})
    snapshot = softly(blueprint.snapshot())
    rules = policy(limit("maxPods: 2"))
    view, made = problem(snapshot, rules)
    planner = _Planner(view, assess(view, rules, NO_MEMORY), rules, NO_MEMORY)
    victim = next(iter(made.victims))
    for out in (2, 9):
        planner._take(made, decision.Decision(victims=(victim,), evictions=1, lower_bound=1, out=out))
        assert len(planner.plan().evictions) == 1, "the second time nothing is added"
    assert planner.plan().groups[-1].reason in {Reason.STEP_EXCEEDS_BUDGET, Reason.BLOCKED_BY_BUDGET}


def team_of_six(most: int) -> tuple[Snapshot, Policy]:
    """Return two kinds of pods, 4 and 1,1 over two zones, and a limit of so many on a node for both together."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("one", on={"a-1": 4}, cpu=100)
    blueprint.deployment("two", on={"a-1": 1, "b-1": 1}, cpu=200)
    rule = f"{{name: l, topologyKey: {HOSTNAME}, maxPods: {most}, action: Evict}}"
    rules = policy(f"groups: [{{name: g, selector: {{}}, groupBy: [team], limits: [{rule}]}}]")
    return changed(blueprint.snapshot(), lambda _, spec: spec, team="x"), rules


def test_moves_that_are_under_way() -> None:
    """A mixed component that nothing forces waits until a predicted move has been verified."""
    view, made = problem(*team_of_six(most=3))
    found = decide_multi_class(made, view, ComponentContext(moving=True))
    assert found.refusal is not None
    assert (found.refusal.reason, found.victims) == (Reason.GROUP_IN_FLIGHT, ())


def test_a_stuck_pod_for_which_there_is_a_place() -> None:
    """Equal pods, nothing to evict on paper, and no node admits the one that waits: said, not hidden."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("web", on={"a-1": 1, "b-1": 1}, spread={ZONE: 1}, replicas=3)
    snapshot = blueprint.snapshot()
    first = snapshot.pods[0]
    waits = msgspec.structs.replace(
        first, uid="w", name="w", node=None, ready=False, phase=PodPhase.PENDING, created=NOW - timedelta(hours=1)
    )
    settled = tuple(
        msgspec.structs.replace(each, current=each.replicas, updated=each.replicas) for each in snapshot.workloads
    )
    grown = replace(snapshot, pods=(*snapshot.pods, waits), workloads=settled)
    full = tuple(msgspec.structs.replace(each, pods=1) for each in grown.nodes)
    rules = policy()
    view, made = View(grown), None
    assessment = assess(view, rules, NO_MEMORY)
    component = find_components(assessment, frozenset({"w"}), rules.spread.act_on)[0]
    made = ProblemBuilder(view, rules, BudgetLedger(grown, rules.budgets, NO_MEMORY)).problem(component)
    assert isinstance(made, SingleClassProblem)
    found = decide_single_class(made, View(replace(grown, nodes=full)), ComponentContext(), lambda: WIDEST)
    assert found.refusal is not None
    assert found.refusal.reason is Reason.PLACEMENT_DEADLOCK


def test_two_kinds_that_must_be_out_at_once() -> None:
    """2 | 4,1 with maxSkew 2 and 1, of two sizes: one goes, if another may follow while its replacement is stuck."""
    blueprint = ClusterBuilder()
    blueprint.zones("a", 1)
    blueprint.zones("b", 2)
    blueprint.deployment("one", on={"a-1": 2, "b-1": 2}, spread={ZONE: 2, HOSTNAME: 1}, cpu=100)
    blueprint.deployment("two", on={"b-1": 2, "b-2": 1}, spread={ZONE: 2, HOSTNAME: 1}, cpu=200)
    found = planned(joined(blueprint))
    assert (found.groups[0].evictions, found.groups[0].optimal) == (2, True)
    assert len(found.evictions) == 1
    one = policy().model_copy(
        update={"budgets": policy().budgets.model_copy(update={"max_unavailable": Amount(value=1)})}
    )
    narrow = planned(joined(blueprint), one)
    assert (narrow.evictions, narrow.groups[0].reason) == ((), Reason.STEP_EXCEEDS_BUDGET)


def test_the_game_where_there_is_nothing_to_win() -> None:
    """No arrangement at all, and a first step for which there is no room."""
    assert contingent_step(Standing(state([[0], [2, 4]])), bounds(1, 1), 3) is None
    assert contingent_step(Standing(state([[1], [5, 1]])), bounds(2, 1), 1) is None


def test_an_answer_that_does_not_hold_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver is not taken at its word."""
    _, made = problem(joined(two_kinds()))
    monkeypatch.setattr(milp.Model, "holds", lambda *_: False)
    assert solve(made) is Unsolved.GIVEN_UP


def test_affinity_towards_others_is_asked_of_each_group() -> None:
    """Pods with affinity of their own, or in a namespace that others mean, have a reception of their own."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("web", on={"a-1": 3}, spread={ZONE: 1})

    def shy(app: str, spec: PodSpec) -> PodSpec:
        term = PodAffinityTerm(topology_key=HOSTNAME, selector=LabelSelector.of({"app": "other"}))
        return msgspec.structs.replace(spec, pod_affinity=PodAffinity(anti_required=(term,)))

    found = planned(changed(blueprint.snapshot(), shy))
    assert found.groups[0].evictions == 1
    kinds = planned(changed(joined(two_kinds()), shy))
    assert kinds.groups[0].evictions == 3


def test_a_kind_of_which_nothing_is_known() -> None:
    """Among several known kinds one whose next pod is not known is not planned around."""
    blueprint = two_kinds()
    blueprint.deployment("three", on={"b-1": 1}, spread={ZONE: 1}, cpu=300)

    def claiming(app: str, spec: PodSpec) -> PodSpec:
        spec = together(app, spec)
        return msgspec.structs.replace(spec, unpredictable=("spec.resourceClaims",)) if app == "three" else spec

    (group,) = planned(changed(blueprint.snapshot(), claiming, cluster="r")).groups
    assert group.reason is Reason.NOT_PREDICTABLE


def test_limits_over_pods_of_nobody_and_pods_that_wait() -> None:
    """With a bare pod among them nothing is evicted; a pod that waits is part of the problem."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 2)
    blueprint.deployment("web", on={"a-1": 6, "b-1": 2})
    snapshot = changed(blueprint.snapshot(), lambda _, spec: spec, team="x")
    waits = msgspec.structs.replace(
        snapshot.pods[1], node=None, ready=False, phase=PodPhase.PENDING, created=snapshot.taken_at
    )
    rules = policy(
        "groups: [{name: g, selector: {}, groupBy: [team], limits: "
        f"[{{name: l, topologyKey: {HOSTNAME}, maxPods: 2, action: Evict}}]}}]"
    )
    pods = (snapshot.pods[0], waits, *snapshot.pods[2:])
    assert planned(replace(snapshot, pods=pods), rules).groups
    bare = msgspec.structs.replace(snapshot.pods[0], uid="bare", name="bare", owner=None)
    assert planned(replace(snapshot, pods=(*pods, bare)), rules).groups == ()


def test_what_may_be_shown_where_nothing_more_fits() -> None:
    """The outlook ends where no node takes another pod."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("web", on={"a-1": 3}, spread={ZONE: 1})
    _, made = problem(blueprint.snapshot())
    assert isinstance(made, SingleClassProblem)
    after = expected_counts(made.layout, {}, 10_000)
    assert sum(after[ZONE].values()) < 10_000


def test_too_little_room_everywhere_for_what_is_on_its_way() -> None:
    """Where the usual room is as little as a group needs, what is on its way counts on every node."""
    snapshot = zone_returned(30, 40, 9)
    tight = tuple(msgspec.structs.replace(each, pods=14) for each in snapshot.nodes)
    assert planned(replace(snapshot, nodes=tight)).groups


def test_a_mixed_component_waits_for_a_predicted_move() -> None:
    """As equal pods do."""
    view, made = problem(*team_of_six(most=2))
    moving = decide_multi_class(made, view, ComponentContext(moving=True, effort=SearchBudget(0)))
    assert moving.refusal is not None
    assert moving.refusal.reason is Reason.GROUP_IN_FLIGHT
    assert "only predicted" in moving.refusal.message, "the reason has other causes too"
    missed = decide_multi_class(made, view, ComponentContext(failed_predictions=3, effort=SearchBudget(0)))
    assert missed.refusal is not None
    assert (missed.refusal.reason, missed.state) == (Reason.NOT_FORCED, State.UNFIXABLE)


def test_too_many_nodes_to_follow() -> None:
    """Where a replacement may go to more than 64 nodes of which none is like another, nothing is foreseen."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 60)
    blueprint.deployment("web", on={"a-1": 3, "b-1": 1}, spread={HOSTNAME: 3})
    snapshot = blueprint.snapshot()
    view, made = problem(snapshot, policy(limit("maxPods: 2")))
    effort = SearchBudget(100_000)
    assert lookahead_step(view, SingleClassBoard(made, 1), StepGoal.EVERY, effort, forced=False) is None
    assert effort.cut


def test_a_vanished_node_stops_several_kinds_too() -> None:
    """A pod of a node that is gone is to be replaced first."""
    snapshot = joined(two_kinds())
    first = snapshot.pods[0]
    lost = tuple(
        msgspec.structs.replace(each, node="gone") if each.uid == first.uid else each for each in snapshot.pods
    )
    (group,) = planned(replace(snapshot, pods=lost)).groups
    assert group.reason is Reason.GROUP_IN_FLIGHT
    assert "gone" in group.message


def test_usual_room_that_is_no_more_than_needed() -> None:
    """Nothing is set aside in halves where half the usual room is as little as the group needs."""
    reception = NodeCapacity({"n1": 4, "n2": 5, "n3": 6})
    taken = ReservedCapacity(5, {})
    assert _set_aside(reception, taken, 3) == (taken, 0)


def test_affinity_that_reaches_nobody_else() -> None:
    """A pod that was moved in another namespace, with affinity to its own kind there, means nobody here."""
    term = PodAffinityTerm(topology_key=HOSTNAME, selector=LabelSelector.of({"a": "b"}))
    stranger = msgspec.structs.replace(
        pod({"a": "b"}, on="n1", namespace="there"), spec=PodSpec(pod_affinity=PodAffinity(anti_required=(term,)))
    )
    view = View(Snapshot(taken_at=NOW, nodes=[labelled("n1", {}), labelled("n2", {})], pods=[stranger]))
    moved = view.with_placed(stranger, "n2")
    assert list(moved.affine_towards("here")) == []
    assert len(list(moved.affine_towards("there"))) == 1


def test_one_that_is_followed_where_it_gets_stuck() -> None:
    """2 | 4,1 with maxSkew 2 and 1: the replacement of the first finds no node until a second has gone."""
    blueprint = ClusterBuilder()
    blueprint.zones("a", 1)
    blueprint.zones("b", 2)
    blueprint.deployment("web", on={"a-1": 2, "b-1": 4, "b-2": 1}, spread={ZONE: 2, HOSTNAME: 1})
    view, made = problem(blueprint.snapshot())
    found = lookahead_step(view, SingleClassBoard(made, 2), StepGoal.EVERY, SearchBudget(100_000), forced=True)
    assert found is not None
    assert (found.victim.pod.node, found.out) == ("b-1", 2)
