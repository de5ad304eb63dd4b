"""An explanation says what the controller does, and not only what the plan has."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from rebalancer.admission.slow_start import not_created
from rebalancer.documents.explanation import (
    LEAVES,
    STAYS,
    ExplanationDetails,
    ExplanationDocument,
    explain_pod,
    explain_workload,
)
from rebalancer.engine import evaluate
from rebalancer.model.moves import MoveState, Reference
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy
from rebalancer.simulator import ZONE
from tests.admission.test_admit import rules, skewed
from tests.build import a_cluster
from tests.tracking.build import move

QUOTA = "exceeded quota: pods"


def explained(snapshot: Snapshot, policy: Policy, details: ExplanationDetails) -> list[ExplanationDocument]:
    """Explain the workload of namespace `one`, and the first of its pods that the plan evicts."""
    evaluation = evaluate(snapshot, policy)
    view, assessment = evaluation.view, evaluation.assessment
    held = evaluation.plan.fates.hold(lambda one: details.blocked if one.pod.namespace == "one" else None)
    made = structs.replace(evaluation.plan, fates=held)
    pod = next(eviction.pod for eviction in made.fates.evictions if eviction.pod.namespace == "one")
    return [
        explain_workload(Reference("one", "Deployment", "web"), assessment, made, snapshot, details),
        explain_pod(pod, view, assessment, made, details),
    ]


@pytest.mark.parametrize("partition", [0, 2])
def test_a_pod_below_a_partition_comes_back_with_an_older_template(partition: int) -> None:
    snapshot = a_cluster("abc", 1, {"a-1": 3}, name="db", stateful=True, spread={ZONE: 1}).snapshot()
    sets = [
        structs.replace(owner, current_revision=owner.revision, revision="db-2", partition=partition)
        for owner in snapshot.workloads
    ]
    held = replace(snapshot, workloads=tuple(sets))
    evaluation = evaluate(held, rules())
    answers = explain_pod(held.pods[0], evaluation.view, evaluation.assessment, evaluation.plan).path
    shown = next(answer for answer in answers if answer.question == "What would replace it?")
    assert ("revision db-1" in shown.answer) == (partition > 0)


@pytest.mark.parametrize("blocked", [False, True])
def test_where_replacements_are_not_created_the_condition_is_quoted_and_nothing_moves(blocked: bool) -> None:
    snapshot = skewed()
    overdue = move("x", snapshot.taken_at, namespace="one", state=MoveState.EVICTED, uncreated=QUOTA)
    details = ExplanationDetails(blocked=not_created(overdue) if blocked else None)
    for document in explained(snapshot, rules(), details):
        quoted = [answer for answer in document.path if QUOTA in answer.evidence]
        if blocked:
            assert (document.verdict, document.reason) == ("Waits", Reason.CANNOT_CREATE)
            assert {answer.answer for answer in quoted} == {"CannotCreate"}
            assert "Is anything evicted in its namespace?" in {answer.question for answer in quoted}
        else:
            assert (document.verdict, quoted) == ("Moves", [])


INSTEAD = "the repair does not need this eviction: {} evicted instead"


def why_it_stays(snapshot: Snapshot) -> dict[str, str]:
    """Return for each pod that is not evicted why, by its name."""
    evaluation = evaluate(snapshot, rules())
    evicted = {eviction.pod.uid for eviction in evaluation.plan.fates.going}
    assert evicted
    answers = {
        pod.name: explain_pod(pod, evaluation.view, evaluation.assessment, evaluation.plan).path
        for pod in snapshot.pods
        if pod.uid not in evicted
    }
    return {
        name: next(answer.evidence for answer in path if answer.question == "Is it evicted?")
        for name, path in answers.items()
    }


def test_a_pod_that_could_have_gone_instead_is_told_the_first_cost_that_differs() -> None:
    """Of the same zone; of another zone more than its cost decides, and nothing is said of that."""
    snapshot = a_cluster("abc", 2, {"a-1": 2, "a-2": 1, "b-1": 1, "c-1": 1}, spread={ZONE: 1}).snapshot()
    oldest, youngest, older, *_ = snapshot.pods
    ages = {oldest.uid: 10, youngest.uid: 0, older.uid: 3}
    made = tuple(
        structs.replace(pod, created=pod.created - timedelta(hours=ages.get(pod.uid, 0))) for pod in snapshot.pods
    )
    why = why_it_stays(replace(snapshot, pods=made))
    instead = INSTEAD.format(f"{youngest.name} is")
    equal = "budgets, avoid, priority, deletion cost and readiness are equal"
    assert why.pop(oldest.name) == f"{instead}: {oldest.name} is older than {youngest.name} by 10h; {equal}"
    assert why.pop(older.name) == f"{instead}: {older.name} is older than {youngest.name} by 3h; {equal}"
    assert set(why.values()) == {instead}


def test_pods_that_cost_the_same_are_told_that_the_name_decides() -> None:
    snapshot = a_cluster("abc", 1, {"a-1": 3, "b-1": 1, "c-1": 1}, spread={ZONE: 1}).snapshot()
    first, second, *_ = snapshot.pods
    assert why_it_stays(snapshot)[second.name] == (
        f"{INSTEAD.format(f'{first.name} is')}: {second.name} costs as much as {first.name}, and the name decides"
    )


def test_a_pod_whose_node_is_gone_is_said_to_be_deleted_soon() -> None:
    """Where its replacement goes is not foretold: the other pods of the node are created anew, too."""
    whole = a_cluster("ab", 1, {"a-1": 1, "b-1": 1}, namespace="one", spread={ZONE: 1}).snapshot()
    without = replace(whole, nodes=tuple(node for node in whole.nodes if node.name != "b-1"))
    for snapshot, is_gone in ((whole, False), (without, True)):
        evaluation = evaluate(snapshot, rules())
        (pod,) = (one for one in snapshot.pods if one.node == "b-1")
        explained = explain_pod(pod, evaluation.view, evaluation.assessment, evaluation.plan)
        assert (explained.path[0].answer == "no, node b-1 is gone") is is_gone
        assert (explained.verdict == LEAVES) is is_gone
        assert any(one.question == "Where would kube-scheduler place that?" for one in explained.path) is not is_gone


def test_where_no_node_was_read_none_is_said_to_be_gone() -> None:
    snapshot = a_cluster("ab", 1, {"a-1": 1, "b-1": 1}, namespace="one", spread={ZONE: 1}).snapshot()
    unread = replace(snapshot, nodes=(), unknown=frozenset({"Node"}))
    evaluation = evaluate(unread, rules())
    explained = explain_pod(unread.pods[0], evaluation.view, evaluation.assessment, evaluation.plan)
    assert explained.verdict == STAYS
