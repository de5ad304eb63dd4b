"""Budgets: how much of a step goes now, and what the rest waits for."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from rebalancer.model.affinity import Taint, TaintEffect
from rebalancer.model.moves import Memory
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.scope.budgets import BudgetExhausted, GroupUnavailable
from rebalancer.policy import Amount, Budgets
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster, with_labels
from tests.planning.build import DEADLOCK, on_one_node, shards
from tests.planning.build import planned as plan_small
from tests.planning.build import policy as small_policy
from tests.planning.clusters import GENEROUS, budgeted, laid_out, nodes, planned, pods, policy, returned
from tests.tracking.build import move


@pytest.mark.parametrize(
    ("budgets", "now"),
    [
        (GENEROUS, 4),
        (Budgets(), 1),
        (Budgets(max_unavailable=Amount(value=3), per_workload=Amount(value=2)), 2),
        (Budgets(max_unavailable=Amount(value=0)), 0),
        (Budgets(max_unavailable=Amount(value=25, percent=True), per_workload=Amount(value=100)), 3),
    ],
)
def test_own_budgets_cut_the_step(budgets: Budgets, now: int) -> None:
    """MaxUnavailable and perWorkload let a prefix of the step go; the rest waits and says for what."""
    plan = planned(returned(), policy(budgets=budgets))
    assert len(plan.fates.going) == now
    assert len(plan.fates.kept) == 4 - now
    if 0 < now < 4:
        assert {waiting.reason for waiting in plan.fates.kept} == {Reason.BLOCKED_BY_BUDGET}
    if not now:
        assert {waiting.reason for waiting in plan.fates.kept} == {Reason.STEP_EXCEEDS_BUDGET}, (
            "it will never be allowed"
        )


def test_unavailable_pods_count_whatever_the_cause() -> None:
    """A pod that is starting, and may not be evicted itself, counts as one eviction."""
    snapshot = returned()
    assert planned(snapshot, policy(budgets=Budgets())).fates.going
    unready = snapshot.pods[0].uid
    changed = pods(snapshot, lambda pod: starting(pod, snapshot) if pod.uid == unready else pod)
    assert planned(changed, policy(budgets=Budgets())).fates.going == ()


def starting(pod: Pod, snapshot: Snapshot) -> Pod:
    """Return a pod that has just come to its node."""
    return structs.replace(pod, ready=False, ready_since=None, starting_since=snapshot.taken_at)


def test_a_disruption_budget_cuts_the_step() -> None:
    """Never more than disruptionsAllowed."""
    plan = planned(budgeted(max_unavailable=2))
    assert len(plan.fates.going) == 2
    assert [waiting.reason for waiting in plan.fates.kept] == [Reason.BLOCKED_BY_BUDGET] * 2
    assert plan.fates.kept[0].refusal == BudgetExhausted("default/web", healthy=12, expected=12, desired=10, planned=2)


def test_a_budget_is_counted_afresh() -> None:
    """A status that still allows two is not believed when a pod has become unready since."""
    snapshot = budgeted(max_unavailable=2)
    unready = snapshot.pods[0].uid
    changed = pods(snapshot, lambda pod: starting(pod, snapshot) if pod.uid == unready else pod)
    assert len(planned(changed).fates.going) == 1


@pytest.mark.parametrize("change", [{"generation": 2}, {"synced": False}, {"allowed": 0}])
def test_a_budget_that_is_not_worked_out_allows_nothing(change: dict[str, Any]) -> None:
    """A stale generation, a failed sync, none allowed: nothing goes."""
    snapshot = budgeted(max_unavailable=2)
    budgets = tuple(structs.replace(budget, **change) for budget in snapshot.budgets)
    assert planned(replace(snapshot, budgets=budgets)).fates.going == ()


def test_evictions_granted_elsewhere_count() -> None:
    """What the API server granted somebody else within two minutes is not healthy, whatever the pod says."""
    snapshot = budgeted(max_unavailable=2)
    when = snapshot.taken_at - timedelta(seconds=30)
    budgets = tuple(structs.replace(budget, disrupted=((snapshot.pods[0].name, when),)) for budget in snapshot.budgets)
    assert len(planned(replace(snapshot, budgets=budgets)).fates.going) == 1


def test_two_budgets_on_a_pod() -> None:
    """The API refuses to evict a pod that two budgets select, so it is not planned."""
    snapshot = budgeted(max_unavailable=2)
    again = structs.replace(snapshot.budgets[0], name="again")
    plan = planned(replace(snapshot, budgets=(*snapshot.budgets, again)))
    assert plan.fates.going == ()
    assert {refused.reason for refused in plan.refusals} == {Reason.SEVERAL_BUDGETS}


def test_moves_in_flight_take_capacity() -> None:
    """PerWorkload counts what is under way."""
    snapshot = returned()
    other = move("other", snapshot.taken_at, namespace="shop")
    rules = policy(budgets=Budgets(max_unavailable=Amount(value=9), per_workload=Amount(value=3)))
    assert len(planned(snapshot, rules, Memory(moves=(other,))).fates.going) == 2


def test_pods_of_an_unready_node_are_unavailable() -> None:
    """Pods on a node that is not Ready do not count as healthy, whatever they said last."""

    def failing(node: Node) -> Node:
        taint = Taint("node.kubernetes.io/not-ready", TaintEffect.NO_SCHEDULE)
        return structs.replace(node, ready=False, taints=(taint,)) if node.name == "b-2" else node

    for snapshot in (nodes(returned(), failing), nodes(budgeted(max_unavailable=2), failing)):
        assert planned(snapshot, policy(budgets=Budgets(max_unavailable=Amount(value=3)))).fates.going == ()


def test_two_that_must_go_together() -> None:
    """A step that needs two at once waits whole where the budget allows one, and goes where it allows two."""
    counts = {"a": [2], "b": [4, 1]}
    snapshot = laid_out(counts, 0, 2, 1)
    both = planned(snapshot)
    assert [eviction.needed for eviction in both.fates.going] == [2, 2]
    one = planned(snapshot, policy(budgets=Budgets(max_unavailable=Amount(value=1), per_workload=Amount(value=9))))
    assert one.fates.going == ()
    assert {waiting.reason for waiting in one.fates.kept} == {Reason.STEP_EXCEEDS_BUDGET}
    unready = snapshot.pods[0].uid
    busy = pods(snapshot, lambda pod: structs.replace(pod, ready=pod.uid != unready))
    now = planned(busy, policy(budgets=Budgets(max_unavailable=Amount(value=2), per_workload=Amount(value=9))))
    assert now.fates.going == ()
    assert {waiting.reason for waiting in now.fates.kept} == {Reason.BLOCKED_BY_BUDGET}


def test_a_disruption_budget_with_capacity_for_one_of_two() -> None:
    """What a budget granted to a step that cannot go whole is given back."""
    blueprint = a_cluster("a", 1)
    blueprint.zones("b", 2)
    blueprint.deployment("web", on={"a-1": 2, "b-1": 4, "b-2": 1}, spread={ZONE: 2, HOSTNAME: 1})
    blueprint.budget("web", max_unavailable=1)
    plan = planned(blueprint.snapshot())
    assert plan.fates.going == ()
    assert {waiting.reason for waiting in plan.fates.kept} == {Reason.STEP_EXCEEDS_BUDGET}


def test_a_forced_step_of_one_is_made_where_budgets_allow_no_more() -> None:
    """0 | 0,4 with maxSkew 1 and 1 takes three, two of them at once in the end; the first goes under any budget."""
    for allowed in (1, 2):
        blueprint = ClusterBuilder()
        blueprint.node("a-1", zone="a")
        blueprint.node("b-1", zone="b")
        blueprint.node("b-2", zone="b")
        blueprint.deployment("web", on={"b-2": 4}, spread={ZONE: 1, HOSTNAME: 1})
        blueprint.budget("web", max_unavailable=allowed)
        plan = plan_small(blueprint.snapshot())
        assert [eviction.pod.node for eviction in plan.fates.going] == ["b-2"]


def test_pods_that_have_not_been_ready_long_enough_count_as_missing() -> None:
    """With minReadySeconds, one that became Ready just now allows no other to go."""
    snapshot = on_one_node(min_ready_seconds=60)
    young = snapshot.taken_at - timedelta(seconds=30)
    fresh = (structs.replace(snapshot.pods[0], ready_since=young), *snapshot.pods[1:])
    budgets = small_policy().budgets.model_copy(update={"max_unavailable": Amount(value=1)})
    one = small_policy().model_copy(update={"budgets": budgets})
    assert plan_small(snapshot, one).fates.going
    assert plan_small(replace(snapshot, pods=fresh), one).components[0].reason is Reason.BLOCKED_BY_BUDGET


def test_a_deadlocked_pod_that_uses_up_the_group_is_named() -> None:
    """It counts as in flight like any other; what waits for it says so."""
    group = "groups: [{name: g, selector: {}, groupBy: [cluster], disruption: {maxInFlight: 1}, limits: []}]"
    plan = plan_small(shards(DEADLOCK), small_policy(group))
    (waiting,) = plan.fates.kept
    assert (plan.fates.going, waiting.reason) == ((), Reason.GROUP_IN_FLIGHT)
    assert waiting.refusal == GroupUnavailable("group g default cluster=r", unavailable=1, most=1, pending_is_one=True)
    assert (
        len(plan_small(shards(DEADLOCK), small_policy(group.replace("maxInFlight: 1", "maxInFlight: 2"))).fates.going)
        == 1
    )


def test_an_eviction_that_may_still_be_carried_out_uses_up_the_group() -> None:
    """For the pods of other workloads; the same pod may go."""
    blueprint = a_cluster("abc", 1)
    for name in ("one", "two"):
        blueprint.deployment(name, on={"a-1": 3, "b-1": 1, "c-1": 1}, spread={ZONE: 1})
    snapshot = with_labels(blueprint.snapshot(), cluster="r")
    rules = small_policy(
        "groups: [{name: g, selector: {}, groupBy: [cluster], disruption: {maxInFlight: 1}, limits: []}]"
    )
    plan = plan_small(snapshot, rules)
    (first,), (second,) = plan.fates.going, plan.fates.kept
    other = second.eviction
    unexecuted = move(other.pod.uid, snapshot.taken_at, workload=other.workload, group=other.group, unexecuted=True)
    again = plan_small(snapshot, rules, Memory(moves=(unexecuted,)))
    assert [eviction.pod.uid for eviction in again.fates.going] == [other.pod.uid]
    assert [(waits.eviction.pod.uid, waits.reason) for waits in again.fates.kept] == [
        (first.pod.uid, Reason.GROUP_IN_FLIGHT)
    ]
