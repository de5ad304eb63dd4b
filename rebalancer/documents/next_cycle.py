"""Which evictions of a plan the next cycle of a controller admits, by its own admission, memory and status.

Read-only commands, and the page of a process that does not lead, say by this what moves now.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from msgspec import structs

from rebalancer.admission.admit import (
    AdmissionContext,
    AwaitsApproval,
    InLaterSteps,
    ModeObserves,
    NotProposed,
    NotProposedYet,
    Overload,
    admit,
    find_common_obstacle,
)
from rebalancer.admission.guards import GuardState
from rebalancer.admission.lasting import find_approved, outlast_component, outlast_waits
from rebalancer.admission.pause import Pause
from rebalancer.admission.rates import RateReached
from rebalancer.admission.rights import Rights
from rebalancer.admission.written import NOT_READ, Written
from rebalancer.documents.status import StatusDocument
from rebalancer.documents.waits import WHOLE_CLUSTER, HoldStatus
from rebalancer.engine import Evaluation
from rebalancer.model.breaker import BreakerState
from rebalancer.model.facts import NOT_BY_ITSELF, End, Refusal
from rebalancer.model.reasons import Reason, State
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.fates import Fates, Waits
from rebalancer.planning.plan import ComponentPlan, Plan
from rebalancer.policy import Guards, Mode, Policy


class _AsStored(Written, frozen=True, kw_only=True):
    """The written approval that the leader carries out: as far as is stored, nobody has withdrawn it."""

    known: str

    @property
    def id(self) -> str:
        return self.known


class WouldWait(Refusal):
    """What an eviction or a repair would wait for in another mode; in mode Observe, its end changes nothing."""

    named: Reason
    message: str

    @property
    def reason(self) -> Reason:
        """The reason for the wait."""
        return self.named

    def _end(self) -> End:
        return NOT_BY_ITSELF

    def __str__(self) -> str:
        return f"{self.message}; and mode Observe evicts nothing"


def foretell_plan(evaluation: Evaluation, status: StatusDocument) -> Plan:
    """Return the evaluated plan as the next cycle carries it out.

    In mode Observe, these are the evictions that mode Evict would send now, and waits have no end. A component and its
    evictions name the wait that ends last.
    """
    plan, now = evaluation.plan, evaluation.plan.made_at
    context = find_context(evaluation, status)
    if context.mode is Mode.OBSERVE:
        evicting = replace(context, mode=Mode.EVICT, pause=None)
        admission = admit(plan, evaluation.inputs.snapshot, evaluation.inputs.memory, evicting, evaluation.view)
        lasting = outlast_waits(admission.fates, find_common_obstacle(evicting), evicting.rights, None, now)
        fates = lasting.replace(lambda wait: _would_wait(wait.refusal))
    else:
        fates = foretell(evaluation, status)
    common, approved = find_common_obstacle(context), find_approved(plan, evaluation.inputs.memory, context.mode)
    before, after = (_find_first(known) for known in (plan.fates, fates))

    def find_refusal(component: ComponentPlan) -> Refusal | None:
        if component.refusal is not None and before.get(component.name) == component.refusal:
            return after[component.name]
        if context.mode is Mode.OBSERVE and component.refusal is not None and component.state is State.VIOLATED:
            return _would_wait(component.refusal)
        names = approved.components if approved is not None else None
        return outlast_component(component, common, context.rights, names, now)

    components = [structs.replace(one, refusal=find_refusal(one)) for one in plan.components]
    return structs.replace(plan, fates=fates, components=tuple(components))


def _find_first(fates: Fates) -> Mapping[str, Refusal]:
    """Return what the first waiting eviction of each component waits for, by the name of the component."""
    first: dict[str, Refusal] = {}
    for kept in fates.waiting:
        first.setdefault(kept.eviction.group, kept.refusal)
    return first


def _would_wait(refusal: Refusal) -> Refusal:
    if isinstance(refusal, RateReached):
        refusal = structs.replace(refusal, last_at=None)
    return refusal if refusal.end.is_never else WouldWait(refusal.reason, refusal.timeless)


def foretell(evaluation: Evaluation, status: StatusDocument) -> Fates:
    """Return the fates of the evaluated plan; in mode Observe, those that mode Evict would give."""
    plan = evaluation.plan
    if status.mode == Mode.OBSERVE:
        return outlast_waits(plan.fates, ModeObserves(), Rights(), None, plan.made_at)
    memory, context = evaluation.inputs.memory, find_context(evaluation, status)
    admission = admit(plan, evaluation.inputs.snapshot, memory, context, evaluation.view)
    fates = admission.fates
    known = memory.proposal.hash if memory.proposal is not None else ""
    if admission.proposal is not None and admission.proposal.hash != known:
        fates = _await_proposal(fates)
    # Only the controller knows the answers of the guards.
    guards = next((one.refusal for one in status.waits if one.reason == Reason.AWAITING_GUARDS), None)
    approved = find_approved(plan, memory, context.mode)
    common = find_common_obstacle(context)
    return outlast_waits(fates.hold(lambda _: guards), common, context.rights, approved, plan.made_at)


def find_context(evaluation: Evaluation, status: StatusDocument) -> AdmissionContext:
    """Return the conditions of every eviction, as far as the status has them."""
    paused, memory = status.paused, evaluation.inputs.memory
    pause = (
        Pause(until=paused.until, reason=paused.reason, by=paused.by, unreadable=paused.error)
        if paused is not None
        else None
    )
    now = evaluation.inputs.snapshot.taken_at
    holds = {hold.reason: hold for hold in status.holds if hold.scope == WHOLE_CLUSTER}
    unsaved, busy = holds.get(Reason.MEMORY_NOT_SAVED), holds.get(Reason.RATE_LIMITED)
    return AdmissionContext(
        policy=evaluation.inputs.policy,
        mode=Mode(status.mode),
        now=now,
        stale=status.stale,
        unsaved="its status says so" if unsaved is not None else "",
        overload=Overload((busy.until - now).total_seconds()) if busy is not None and busy.until is not None else None,
        rights=_rights(evaluation.plan.fates.evictions, status.missing_rights, now),
        pause=pause,
        breaker=_breaker(memory.breaker, holds.get(Reason.BREAKER_OPEN), evaluation.inputs.policy, now),
        written=_AsStored(known=memory.standing.id) if memory.standing else NOT_READ,
        guards=_assume_good(evaluation.inputs.policy.guards),
    )


def _rights(evictions: Iterable[Eviction], missing: Iterable[str], now: datetime) -> Rights:
    """Return where the controller may evict: in every namespace, except where its status reports a missing right."""
    lacking = dict.fromkeys(missing, now)
    if not lacking:
        return Rights()
    namespaces = {eviction.pod.namespace for eviction in evictions}
    return Rights(everywhere=False, granted=frozenset(namespaces - lacking.keys()), missing=lacking)


def _breaker(stored: BreakerState, hold: HoldStatus | None, policy: Policy, now: datetime) -> BreakerState:
    """Return the breaker's state with the end from the status; without an end, a bound is still exceeded.

    A bound that the last cycle saw exceeded, some seconds ago, still counts as exceeded.
    """
    if hold is None:
        return stored
    last = now if hold.until is None else min(now, hold.until - policy.breaker.clear_after)
    newest = max((known.last for known in stored.causes), default=last)
    causes = (structs.replace(known, last=last) if known.last == newest else known for known in stored.causes)
    return BreakerState(tuple(causes))


def _await_proposal(fates: Fates) -> Fates:
    """Let evictions that wait for the approval of a plan wait for its proposal, if it has not been proposed."""

    def find_refusal(wait: Waits) -> Refusal | None:
        if isinstance(wait.refusal, InLaterSteps):
            return InLaterSteps("")
        return NotProposedYet() if isinstance(wait.refusal, AwaitsApproval | NotProposed) else None

    return fates.replace(find_refusal)


def _assume_good(guards: Guards) -> GuardState:
    """Return answers that have been good for long: only the controller knows the real answers."""
    since = -timedelta(days=365).total_seconds()
    good = dict.fromkeys((guard.name for guard in guards.queries), since)
    return GuardState(of=guards, asked_at=0.0, good_since=good, quiet_since=since)
