"""Mode Approve: before anybody approves a plan it is said which evictions its approval with later steps covers."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.admission.admit import AwaitsApproval, InLaterSteps, NotProposed
from rebalancer.engine import evaluate
from rebalancer.model.approvals import NO_COVERAGE
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Amount, Mode, Policy
from rebalancer.policy.sections import Nodes
from tests.admission.test_standing import Desk
from tests.drawing import examples
from tests.reporting.test_plan_numbers import clusters

SAID = AwaitsApproval | InLaterSteps | NotProposed


@examples(200)
@given(clusters(), st.sampled_from([1, 1, 2, 9]), st.booleans())
def test_what_is_said_to_go_with_later_steps_is_what_the_approval_of_the_plan_with_them_lets_go(
    drawn: tuple[Snapshot, Policy], per_minute: int, covers_all: bool
) -> None:
    """The others are proposed when that plan has ended. The oracle is the next cycle, once the plan is approved."""
    snapshot, policy = drawn
    policy = policy.model_copy(update={"mode": Mode.APPROVE, "nodes": Nodes(settle=timedelta())})
    budgets = policy.budgets.model_copy(update={"per_minute": Amount(value=per_minute)})
    policy = policy.model_copy(update={"budgets": budgets})
    evaluation = evaluate(snapshot, policy)
    desk = Desk(policy, snapshot, evaluation.plan)
    desk.now = snapshot.taken_at
    desk.cycle(assessment=evaluation.assessment)
    if desk.memory.proposal is None:
        return
    coverage = desk.memory.proposal.coverage or NO_COVERAGE
    if not covers_all:
        coverage = structs.replace(coverage, repairs=coverage.repairs[:1])
        desk.memory = structs.replace(desk.memory, proposal=structs.replace(desk.memory.proposal, coverage=coverage))
        desk.cycle(assessment=evaluation.assessment)
    said = {one.eviction.pod.uid: type(one.refusal) for one in desk.admission.fates.waiting}
    said = {uid: kind for uid, kind in said.items() if issubclass(kind, SAID)}
    desk.approve(99)
    admission = desk.cycle(assessment=evaluation.assessment)
    covered = set(admission.approved_by)
    assert {uid for uid, kind in said.items() if kind is InLaterSteps} <= covered
    assert {uid for uid, kind in said.items() if kind is NotProposed}.isdisjoint(covered)
