"""What is decided about one problem: the next step, or why there is none."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.decision import NoNodeAdmits, PredictionUnverified, StepSearchLimit
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.policy import Amount, Policy
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster, with_labels, without_node
from tests.planning.build import cause_of, decided, first_problem, joined, limit, planned, policy
from tests.scheduling.build import NOW


def test_pending_pods_that_satisfy_several_classes_are_waited_for() -> None:
    """Where everything can hold once they are placed, nothing is evicted."""
    blueprint = a_cluster("ab", 2)
    blueprint.deployment("one", on={"a-1": 3, "b-1": 1}, spread={ZONE: 1}, cpu=100)
    blueprint.deployment("two", on={"b-2": 1}, spread={ZONE: 1}, cpu=200)
    snapshot = joined(blueprint)
    pods = tuple(without_node(pod) if pod.labels["app"] == "two" else pod for pod in snapshot.pods)
    (group,) = planned(replace(snapshot, pods=pods)).components
    assert (group.state, group.reason) == (State.VIOLATED, Reason.GROUP_IN_FLIGHT)
    _, problem = first_problem(replace(snapshot, pods=pods))
    assert isinstance(problem, MultiClassProblem)
    assert problem.classes.pending == 1


def team_of_six(most: int) -> tuple[Snapshot, Policy]:
    """Return two classes of pods, 4 and 1,1 over two zones, and a limit of so many on a node for both together."""
    blueprint = a_cluster("ab", 2)
    blueprint.deployment("one", on={"a-1": 4}, cpu=100)
    blueprint.deployment("two", on={"a-1": 1, "b-1": 1}, cpu=200)
    rules = policy(limit(f"maxPods: {most}", group="selector: {}, groupBy: [team]"))
    return with_labels(blueprint.snapshot(), team="x"), rules


@pytest.mark.parametrize(("most", "lookahead"), [(3, 40_000), (2, 0)])
def test_several_classes_wait_for_a_predicted_move(most: int, lookahead: int) -> None:
    """Where nothing is forced, a predicted move is verified before the next is made."""
    view, problem = first_problem(*team_of_six(most))
    assert isinstance(problem, MultiClassProblem)
    moving = decided(problem, view, lookahead=lookahead, moving=True)
    assert moving.step is None
    assert moving.refusal is not None
    assert moving.refusal == PredictionUnverified()


def test_several_classes_are_not_predicted_after_three_failures() -> None:
    """As equal pods are not."""
    view, problem = first_problem(*team_of_six(most=2))
    assert isinstance(problem, MultiClassProblem)
    failed = decided(problem, view, lookahead=0, failed_predictions=3)
    assert failed.refusal is not None
    assert (failed.refusal.reason, failed.state) == (Reason.NOT_FORCED, State.UNFIXABLE)


def test_a_pending_pod_that_no_node_admits_is_a_deadlock() -> None:
    """Equal pods and nothing to evict on paper: that the pending one is stuck is reported, not hidden."""
    snapshot = a_cluster("ab", 1, {"a-1": 1, "b-1": 1}, spread={ZONE: 1}, replicas=3).snapshot()
    pending = without_node(snapshot.pods[0], "w", created=NOW - timedelta(hours=1))
    grown = replace(snapshot, pods=(*snapshot.pods, pending))
    full = tuple(structs.replace(node, pods=1) for node in grown.nodes)
    _, problem = first_problem(grown, stuck=frozenset({"w"}))
    assert isinstance(problem, SingleClassProblem)
    decision = decided(problem, View(replace(grown, nodes=full)))
    assert decision.refusal is not None
    assert decision.refusal == NoNodeAdmits("w")


def two_that_go_together() -> ClusterBuilder:
    """Return 2 | 4,1 with maxSkew 2 and 1, of two sizes."""
    blueprint = a_cluster("a", 1)
    blueprint.zones("b", 2)
    blueprint.deployment("one", on={"a-1": 2, "b-1": 2}, spread={ZONE: 2, HOSTNAME: 1}, cpu=100)
    blueprint.deployment("two", on={"b-1": 2, "b-2": 1}, spread={ZONE: 2, HOSTNAME: 1}, cpu=200)
    return blueprint


def test_two_classes_that_need_concurrent_evictions() -> None:
    """One goes if the budgets allow another to follow while its replacement is stuck, and waits where they never do."""
    plan = planned(joined(two_that_go_together()))
    assert (plan.components[0].evictions, plan.components[0].optimal) == (2, True)
    assert len(plan.fates.going) == 1
    one = policy().model_copy(
        update={"budgets": policy().budgets.model_copy(update={"max_unavailable": Amount(value=1)})}
    )
    narrow = planned(joined(two_that_go_together()), one)
    assert (narrow.fates.going, narrow.components[0].reason) == ((), Reason.STEP_EXCEEDS_BUDGET)


def test_a_step_waits_while_the_budgets_allow_no_second_eviction_just_now() -> None:
    """Two of a workload may be unavailable and one of each is: the step begins once these pods are Ready."""
    two = policy().model_copy(
        update={"budgets": policy().budgets.model_copy(update={"max_unavailable": Amount(value=2)})}
    )
    snapshot = joined(two_that_go_together())
    assert len(planned(snapshot, two).fates.going) == 1
    first = {pod.labels["app"]: pod.uid for pod in reversed(snapshot.pods)}
    unready = tuple(
        structs.replace(pod, ready=False, starting_since=snapshot.taken_at) if pod.uid in first.values() else pod
        for pod in snapshot.pods
    )
    plan = planned(replace(snapshot, pods=unready), two)
    assert plan.fates.going == ()
    assert plan.components[0].reason is Reason.BLOCKED_BY_BUDGET


def test_what_may_have_to_follow_an_unready_pod_may_be_ready() -> None:
    """The first takes nothing, as it is unavailable; the second would, where another pod of each owner is starting."""
    snapshot = joined(two_that_go_together())
    two = policy().model_copy(
        update={"budgets": policy().budgets.model_copy(update={"max_unavailable": Amount(value=2)})}
    )
    (first,) = planned(snapshot, two).fates.going
    unready = structs.replace(first.pod, ready=False)
    alone = tuple(unready if pod.uid == unready.uid else pod for pod in snapshot.pods)
    assert [one.pod.uid for one in planned(replace(snapshot, pods=alone), two).fates.going] == [unready.uid]
    starting = {pod.labels["app"]: pod.uid for pod in alone if pod.ready}.values()
    both = tuple(
        structs.replace(pod, ready=False, starting_since=snapshot.taken_at) if pod.uid in starting else pod
        for pod in alone
    )
    assert planned(replace(snapshot, pods=both), two).fates.going == ()


def test_victims_with_too_many_outcomes_are_reported_as_not_visited() -> None:
    """Where the scheduler has more choices for the replacement than are followed, no step is not claimed as proved."""
    on = {f"a-{number}": 1 for number in range(1, 9)} | {f"b-{number}": 1 for number in range(1, 5)}
    (group,) = planned(
        a_cluster("ab", 45, on, spread={ZONE: 5}).snapshot(), policy(limit("maxPods: 6", key=ZONE))
    ).components
    assert (group.evictions, group.reason) == (2, Reason.NOT_FORCED)
    assert cause_of(group) == StepSearchLimit()


def test_followers_with_too_many_outcomes_are_reported_as_not_visited() -> None:
    """So too where the second of two concurrent evictions has more outcomes than are followed."""
    plan = planned(joined(two_that_go_together()), limits=SearchLimits(multi_class_choices=0))
    assert not plan.fates.going
    assert cause_of(plan.components[0]) == StepSearchLimit()
