"""The Plan document of a proposal: what a person approves, or has approved, whatever holds it back at the moment."""

from hypothesis import given

from rebalancer.controller.cycle import Cycle
from rebalancer.documents.plan import proposal_document
from rebalancer.model.approvals import Proposal
from tests.drawing import examples
from tests.reporting.test_plan_numbers import states


@given(states())
@examples(100)
def test_each_repair_of_a_proposal_has_a_step_of_its_own(cycle: Cycle) -> None:
    """By which its evictions are found: planning numbers only those of which something goes now."""
    plan, now = cycle.plan, cycle.context.now
    uids = tuple(eviction.pod.uid for eviction in plan.fates.evictions)
    proposal = Proposal(hash="0a1b", policy="9f3a", since=now, uids=uids, preempted=())
    document = proposal_document(plan, proposal, now, cycle.snapshot)
    groups = {group.step: group for group in document.groups}
    assert len(groups) == len(document.groups)
    assert [one.uid for one in document.evictions] == list(uids)
    for eviction in document.evictions:
        group = groups[eviction.step]
        assert (group.namespace, eviction.workload in group.workloads) == (eviction.namespace, True)
