"""Reasons that outlast other waits: a hold on everything, a missing right, and a missing approval.

Several reasons may hold back an eviction at once, and it goes when the last of them ends. So its message names the last
reason. Example: a budget would allow an eviction again in a minute; a pause ends at 14:00, so it waits for 14:00.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from msgspec import structs

from rebalancer.admission.rights import RightMissing, Rights
from rebalancer.model.facts import End, Refusal, outlasts
from rebalancer.model.moves import Memory, make_token
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.fates import Fates
from rebalancer.planning.plan import ComponentPlan, Plan
from rebalancer.policy import Mode


class ThenApproval(Refusal):
    """In mode Approve, a wait whose end is not enough, because nobody has approved the eviction."""

    named: Reason
    """The reason of the wait."""
    message: str
    """The sentence of the wait."""
    event: str
    """The end of the wait."""

    @property
    def reason(self) -> Reason:
        """The reason of the wait."""
        return self.named

    def _end(self) -> End:
        return End(event=f"{self.event}, and somebody approves it")

    def __str__(self) -> str:
        return self.message


class Approved(NamedTuple):
    """What is approved in mode Approve: the components, by name, and the pods, by UID."""

    components: Collection[str]
    uids: Collection[str]

    def covers(self, eviction: Eviction) -> bool:
        """Return whether this eviction goes once its waits are over."""
        return eviction.group in self.components or eviction.pod.uid in self.uids


def find_approved(plan: Plan, memory: Memory, mode: Mode) -> Approved | None:
    """Return what the memory's approvals cover; None in a mode that needs no approval."""
    if mode is not Mode.APPROVE:
        return None
    proposal, standing = memory.proposal, memory.standing
    covered = {repair.component for repair in standing.coverage.repairs} if standing else ()
    whole = {one.name for one in plan.components if make_token(one.name) in covered} if covered else ()
    return Approved(whole, proposal.uids if proposal is not None and proposal.approved else ())


def outlast_waits(
    fates: Fates, common: Refusal | None, rights: Rights, approved: Approved | None, said: datetime
) -> Fates:
    """Return the fates in which evictions wait for a hold on everything, or a missing right, if that ends later.

    An unapproved eviction keeps the name of its wait, which then ends with an approval, too.
    """
    outlasted = fates.outlast(lambda one: find_lasting(common, rights.find_missing(one.pod.namespace), said), said)
    if approved is None:
        return outlasted
    return outlasted.replace(
        lambda wait: None if approved.covers(wait.eviction) else await_approval_then(wait.refusal, said)
    )


def outlast_component(
    component: ComponentPlan, common: Refusal | None, rights: Rights, approved: Collection[str] | None, said: datetime
) -> Refusal | None:
    """Return why a component without decided evictions is not repaired, by what ends last; None if it is repaired.

    `approved` are the names of the components that go by an approval, None if no approval is needed. An event that
    would make evictions possible stays named even during a hold on everything, because it says what to do.
    """
    refusal = component.refusal
    if refusal is None:
        return None
    lasting = find_lasting(common, rights.find_missing(component.component.namespace), said)
    waits = component.state is State.VIOLATED or refusal.end.until(said) is not None
    if waits and lasting is not None and outlasts(lasting, refusal, said):
        refusal = lasting
    if approved is not None and component.name not in approved:
        refusal = await_approval_then(refusal, said)
    return refusal


def find_lasting(common: Refusal | None, missing: RightMissing | None, said: datetime) -> Refusal | None:
    """Return which of a hold on everything and a missing right ends last; the hold if that is not known.

    Nobody knows when a right is granted. It outlasts a pause with an end, which its message mentions, but not a pause
    without one.
    """
    until = common.end.until(said) if common is not None else None
    if missing is None or (common is not None and until is None):
        return common
    return missing if until is None else structs.replace(missing, not_before=until)


def await_approval_then(refusal: Refusal, said: datetime) -> Refusal:
    """Return a wait that ends with an approval, too. A wait that already does, or never ends, is unchanged."""
    until, event = refusal.end.until(said), refusal.end.event
    if until is not None:
        event = f"when it is {until:%Y-%m-%d %H:%M:%SZ}"
    if refusal.reason is Reason.AWAITING_APPROVAL or not event:
        return refusal
    return ThenApproval(refusal.reason, refusal.timeless, event)
