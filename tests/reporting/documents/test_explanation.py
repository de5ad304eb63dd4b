"""An explanation says what the controller does, and not only what the plan has."""

import pytest

from rebalancer.admission.slow_start import not_created
from rebalancer.engine import evaluate
from rebalancer.model.moves import MoveState, Reference
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy
from rebalancer.reporting.documents.explanation import (
    ExplanationDetails,
    ExplanationDocument,
    explain_pod,
    explain_workload,
)
from tests.admission.test_admit import rules, skewed
from tests.tracking.build import move

QUOTA = "exceeded quota: pods"


def explained(snapshot: Snapshot, policy: Policy, details: ExplanationDetails) -> list[ExplanationDocument]:
    """Explain the workload of namespace `one`, and the first of its pods that the plan evicts."""
    evaluation = evaluate(snapshot, policy)
    view, assessment, made = evaluation.view, evaluation.assessment, evaluation.plan
    pod = next(eviction.pod for eviction in made.evictions if eviction.pod.namespace == "one")
    return [
        explain_workload(Reference("one", "Deployment", "web"), assessment, made, snapshot, details),
        explain_pod(pod, view, assessment, made, details),
    ]


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
