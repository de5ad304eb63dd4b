"""Events about the plans that are proposed in mode Approve."""

from collections.abc import Iterator

from rebalancer.admission.admit import AdmissionContext
from rebalancer.admission.approval import expires_at
from rebalancer.model.events import Event, EventReason, Regarding
from rebalancer.model.moves import Proposal
from rebalancer.reporting.phrases import plural


def approval_events(
    before: Proposal | None, after: Proposal | None, context: AdmissionContext, regarding: Regarding
) -> Iterator[Event]:
    """Yield what has become of the proposal of the last cycle, and the new one."""
    policy, now = context.policy, context.now
    stays = before is not None and after is not None and before.hash == after.hash
    if before is not None and not stays and before.policy == policy.cluster.hash and now >= expires_at(before, policy):
        what = "was approved and made no progress" if before.approved else "was not approved"
        note = f"plan {before.hash} of {plural(len(before.uids), 'eviction')} {what} in time"
        yield Event(reason=EventReason.PLAN_EXPIRED, note=note, regarding=regarding)
    if after is not None and not stays:
        end = f"{expires_at(after, policy):%Y-%m-%d %H:%M:%SZ}"
        note = f"plan {after.hash} of {plural(len(after.uids), 'eviction')} waits for approval until {end}"
        yield Event(reason=EventReason.PLAN_PROPOSED, note=note, regarding=regarding)
    if before is not None and after is not None and stays and after.approved and not before.approved:
        note = f"plan {after.hash} of {plural(len(after.uids), 'eviction')} is approved and is carried out"
        yield Event(reason=EventReason.PLAN_APPROVED, note=note, regarding=regarding)
