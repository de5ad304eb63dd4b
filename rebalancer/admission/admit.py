"""Admission: which evictions of a plan may be sent now.

Planning decides everything that follows from the snapshot. Admission decides what needs memory or the clock: the mode,
a pause, windows, the breaker, how long a violation has lasted, back-off, the rates, canaries, guards, and what a person
has approved in mode Approve. A step is admitted whole, as a prefix, or not at all.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.admission.approval import (
    approved_part,
    expires_at,
    find_proposal,
    holds_back_others,
    propose,
    split_steps,
)
from rebalancer.admission.breaker import NO_REQUESTS, RequestCounts
from rebalancer.admission.canary import Canaries
from rebalancer.admission.guards import NO_ANSWERS, GuardLimit, GuardState
from rebalancer.admission.misplaced import misplaced_replacement
from rebalancer.admission.opening import OutsideWindow, find_opening
from rebalancer.admission.pause import Pause
from rebalancer.admission.rates import RateReached, Rates, count_waiting, queue
from rebalancer.admission.rights import RightMissing, Rights
from rebalancer.admission.slow_start import Windows, find_unplaceable, overdue_replacement
from rebalancer.admission.standing import (
    NO_OUTCOME,
    Allowance,
    Circumstances,
    Covered,
    Outcome,
    advance,
    find_coverage,
)
from rebalancer.admission.written import NOT_READ, Written
from rebalancer.model.approvals import NO_COVERAGE, Proposal, StandingApproval
from rebalancer.model.breaker import CLOSED, BreakerCause, BreakerState, OpenCause
from rebalancer.model.facts import End, Refusal
from rebalancer.model.moves import Memory, Move, StartWindow, make_token
from rebalancer.model.reasons import Cause, Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.words import EVICT_RIGHT, EVICT_RIGHT_THERE, format_duration, format_rest, plural
from rebalancer.planning.adding_first import add_first
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.fates import NO_FATES, Fates, Waits
from rebalancer.planning.plan import Plan
from rebalancer.policy import Mode, Policy
from rebalancer.scheduling.view import View
from rebalancer.tracking.arrivals import UNANSWERED, find_next_change, is_under_way
from rebalancer.tracking.backoff import RefusalWait, find_backoff, find_refusals
from rebalancer.tracking.holds import Holds, find_holds, find_next_probe
from rebalancer.tracking.moves import ANSWER_TIMEOUT, find_undecided
from rebalancer.tracking.windows import store_windows

_FIELDS_OF_LASTING: Final[Mapping[Cause, str]] = {
    Cause.SHARE_LIMIT_VIOLATED: "the limit's for",
    Cause.ANTI_AFFINITY_VIOLATED: "antiAffinity.for",
}
"""The policy's field for how long a violation must last; spread.for for all other causes."""

_EXCESSES: Final[Mapping[BreakerCause, tuple[str, str]]] = {
    BreakerCause.UNREADY_NODES: ("uncordoned nodes not Ready", "unreadyNodes"),
    BreakerCause.UNREADY_ZONE: ("uncordoned nodes of zone {zone} not Ready", "unreadyInZone"),
    BreakerCause.PENDING_PODS: ("pods pending", "pendingPods"),
    BreakerCause.API_ERRORS: ("requests to the API server failed", "apiErrors"),
    BreakerCause.FAILED_MOVES: ("moves failed", "failedMoves"),
}
"""For each cause of the breaker: the counted objects, and the policy's field in `breaker`."""


class Paused(Refusal):
    """The controller is paused until the time `until`, None: indefinitely. The message says who paused it and why."""

    reason = Reason.PAUSED
    is_standing = True
    ends_at = "until"
    message: str
    until: datetime | None = None

    def __str__(self) -> str:
        return self.message


class ModeObserves(Refusal):
    """The mode is Observe."""

    reason = Reason.OBSERVE_ONLY
    is_standing = True

    def __str__(self) -> str:
        return "mode is Observe"


class AwaitsApproval(Refusal):
    """The proposed plan with this hash waits for the approval of a person, until it expires."""

    reason = Reason.AWAITING_APPROVAL
    ends = "when somebody approves it: rebalancer approve {self.plan}"
    plan: str
    expires_at: datetime

    def __str__(self) -> str:
        return f"plan {self.plan} waits for approval until {self.expires_at:%Y-%m-%d %H:%M:%SZ}"


class NotProposedYet(Refusal):
    """In mode Approve nobody can approve the eviction yet: it is proposed only once nothing else holds it back."""

    reason = Reason.AWAITING_APPROVAL
    ends = "when it is proposed and somebody approves it"

    def __str__(self) -> str:
        return "nobody has approved it; it is proposed when nothing else keeps it back"


class NotProposed(Refusal):
    """The eviction is not part of the plan with this hash; that plan is proposed or carried out first."""

    reason = Reason.AWAITING_APPROVAL
    ends = "when plan {self.plan} has ended, and it is proposed and somebody approves it"
    plan: str

    def __str__(self) -> str:
        return f"it is not part of plan {self.plan}; it is proposed when that plan has ended"


class InLaterSteps(Refusal):
    """The plan with this hash waits without the eviction; its approval with later steps covers it.

    `plan` is "" if that plan is not proposed yet.
    """

    reason = Reason.AWAITING_APPROVAL
    plan: str

    def _end(self) -> End:
        return End(event=f"when somebody approves {self._name_plan()} with its later steps")

    def __str__(self) -> str:
        return f"it belongs to the later steps of {self._name_plan()}, and goes if the plan is approved with them"

    def _name_plan(self) -> str:
        return f"plan {self.plan}" if self.plan else "the plan that is proposed next"


class BeyondApproval(Refusal):
    """The standing approval of this plan covers the earlier evictions of the step, but not this one."""

    reason = Reason.AWAITING_APPROVAL
    ends = "when the evictions before it have taken effect, and it is proposed and somebody approves it"
    plan: str
    left: int

    def __str__(self) -> str:
        return (
            f"the approval of plan {self.plan} has {plural(self.left, 'eviction')} left, for earlier evictions of the "
            "same step. This eviction is proposed once those have taken effect"
        )


class ApprovalUnread(Refusal):
    """A new leader has yet to read whether the approval of this plan was withdrawn."""

    reason = Reason.AWAITING_APPROVAL
    ends = "when ConfigMap rebalancer-approval has been read"
    plan: str

    def __str__(self) -> str:
        return f"it is not known yet whether the approval of plan {self.plan} was withdrawn"


class Stale(Refusal):
    """The snapshot is out of date; the message says why."""

    reason = Reason.STALE_DATA
    ends = "when the watches deliver again"
    message: str

    def __str__(self) -> str:
        return self.message


class BreakerOpen(Refusal):
    """The breaker is open for these causes, each last exceeded at its `last`; `at` is when that was evaluated."""

    reason = Reason.BREAKER_OPEN
    causes: tuple[OpenCause, ...]
    at: datetime
    clear_after: timedelta

    def _end(self) -> End:
        if any(known.cause is BreakerCause.REPLACEMENTS for known in self.causes):
            return End(event="when the cluster replaces evicted pods again")
        last = max(known.last for known in self.causes)
        if last < self.at:
            return End(at=last + self.clear_after)
        return End(event=f"when no bound has been exceeded for {format_duration(self.clear_after)}")

    def __str__(self) -> str:
        return self._describe(lambda last: f"{format_duration(self.at - last)} ago")

    def _describe(self, describe_moment: Callable[[datetime], str]) -> str:
        excesses = []
        for known in self.causes:
            if known.cause is BreakerCause.REPLACEMENTS:
                continue
            what, field = _EXCESSES[known.cause]
            share = f"{round(100 * known.part / known.total)}%"
            moment = f", {describe_moment(known.last)}" if self.at > known.last else ""
            counted = f"{known.part} of {known.total} {what.format(zone=known.zone)} ({share}{moment})"
            excesses.append(f"{counted}, breaker.{field} is {known.bound}%")
        sentences = [
            f"the cluster does not replace evicted pods: {plural(known.part, 'replacement')} of {known.total} "
            f"{'is' if known.part == 1 else 'are'} overdue ({known.note}). "
            "Single evictions, the first after a minute, test whether it replaces pods again"
            for known in self.causes
            if known.cause is BreakerCause.REPLACEMENTS
        ]
        if excesses:
            sentences.append(
                f"the breaker is open: {'; '.join(excesses)}. It closes when no bound has been exceeded for "
                f"{format_duration(self.clear_after)}"
            )
        return "; ".join(sentences)

    @property
    def timeless(self) -> str:
        return self._describe(lambda last: f"at {last:%Y-%m-%d %H:%M:%SZ}")


class NotLasting(Refusal):
    """The violation has not lasted as long as `field` requires."""

    reason = Reason.NOT_PERSISTENT
    lasted: timedelta
    field: str
    required: timedelta

    def _end(self) -> End:
        return End(after=self.required - self.lasted)

    def __str__(self) -> str:
        return (
            f"violated for {format_duration(self.lasted)}; {self.field} is {format_duration(self.required)}: "
            f"{format_rest(self.required - self.lasted)} left"
        )

    @property
    def timeless(self) -> str:
        return f"not violated yet for as long as {self.field}, {format_duration(self.required)}"


class BackingOff(Refusal):
    """The last `times` predictions for the component failed; the next attempt is in `left`, None: never."""

    reason = Reason.BACK_OFF
    ends_after = "left"
    times: int
    left: timedelta | None

    def __str__(self) -> str:
        if self.left is None:
            return (
                f"the new pods of {plural(self.times, 'repair step')} in a row were not Ready where predicted; "
                "no further step until the violation is repaired by other means"
            )
        return f"{self.timeless}; next attempt in {format_rest(self.left)}"

    @property
    def timeless(self) -> str:
        last = "the new pods of the last repair step were not Ready where predicted"
        return str(self) if self.left is None else last


class RequestsRefused(Refusal):
    """The last `times` requests for the component were not granted; the next attempt is in `left`."""

    reason = Reason.BACK_OFF
    ends_after = "left"
    times: int
    left: timedelta
    words: str = ""
    """What the plan had counted on, if a budget refused the last request; else ""."""

    def __str__(self) -> str:
        return f"{self.timeless}; next attempt in {format_rest(self.left)}"

    @property
    def timeless(self) -> str:
        return (
            f"the last {plural(self.times, 'eviction request')} for it {'was' if self.times == 1 else 'were'} not "
            f"granted{f': {self.words}' if self.words else ''}"
        )


class RefusedByAdmission(Refusal):
    """Admission control refused the last eviction for the component; `refuser` says who, `words` why."""

    reason = Reason.REFUSED_BY_ADMISSION
    ends_at = "next_try"
    refuser: str
    """Who refused the eviction."""
    words: str
    """The refuser's own message."""
    next_try: datetime
    """When the eviction is tried again."""

    def __str__(self) -> str:
        return f"{self.refuser} refused the eviction: {self.words}; tried again at {self.next_try:%H:%M:%SZ}"


class NotAllowed(Refusal):
    """The account has no right to evict there; the next attempt is in `left`, and fails until the right is granted."""

    reason = Reason.FORBIDDEN
    message: str
    left: timedelta

    def _end(self) -> End:
        return End(event="when the controller's account may evict there", by_people=True)

    def __str__(self) -> str:
        return f"{self.timeless}; next attempt in {format_rest(self.left)}"

    @property
    def timeless(self) -> str:
        return (
            f"the controller's account has no right to evict there: {self.message}. Apply {EVICT_RIGHT}, "
            f"which is that right alone (in the chart policy.mode), or, for single namespaces, {EVICT_RIGHT_THERE}; or "
            "set mode: Observe"
        )


class EvictionUndecided(Refusal):
    """The last leader may have requested another pod's eviction, which may be carried out until the time `until`."""

    reason = Reason.GROUP_IN_FLIGHT
    ends_at = "until"
    pod: str
    until: datetime

    def __str__(self) -> str:
        return (
            f"the last leader may have requested the eviction of pod {self.pod}, and the API server may carry it out "
            f"until {self.until:%H:%M:%SZ}: until then no other pod is evicted for it"
        )


class ServerOverloaded(Refusal):
    """The API server is overloaded: it asked for a pause in requests, whose rest is `left`."""

    reason = Reason.RATE_LIMITED
    ends_after = "left"
    left: timedelta

    def __str__(self) -> str:
        return f"{self.timeless}; next attempt in {format_rest(self.left)}"

    @property
    def timeless(self) -> str:
        return "the API server is overloaded"


class MemoryUnsaved(Refusal):
    """The memory could not be saved; the message says why."""

    reason = Reason.MEMORY_NOT_SAVED
    ends = "when the memory can be saved"
    message: str

    def __str__(self) -> str:
        return f"nothing is evicted while the controller cannot save its memory: {self.message}"


@dataclass(frozen=True, kw_only=True)
class Admission:
    """The fates of a plan's evictions after admission; evictions that go are in the order of sending."""

    fates: Fates = NO_FATES
    proposal: Proposal | None = None
    """In mode Approve, what is proposed or carried out."""
    whole: Outcome = NO_OUTCOME
    """In mode Approve, the state of a whole plan's approval."""
    approved_by: Mapping[str, str] = field(default_factory=dict)
    """In mode Approve, by the pod's UID: the hash of the approved plan by which its eviction goes."""
    next_try: datetime | None = None
    """When passing time alone admits more, as far as known; no change in the cluster would start a cycle then."""
    windows: tuple[StartWindow, ...] = ()
    """Slow start's windows after this admission, for the memory."""
    queued: tuple[tuple[str, datetime], ...] = ()
    """Slow start's queue after this admission, for the memory."""
    guards: GuardState = NO_ANSWERS
    """The state of guards after this admission."""


class Overload(NamedTuple):
    """An overloaded API server asked for no requests until this time, in monotonic seconds."""

    until: float

    def left(self, now: float) -> timedelta:
        """Return how long no request may be sent."""
        return timedelta(seconds=max(0.0, self.until - now))


@dataclass(frozen=True, kw_only=True)
class AdmissionContext:
    """What applies to every eviction alike."""

    policy: Policy
    mode: Mode
    now: datetime
    stale: str = ""
    """Why the snapshot is out of date, "" if it is not."""
    unsaved: str = ""
    """Why the memory could not be saved, "" if it was saved."""
    overload: Overload | None = None
    """Until when the API server has asked for no requests."""
    forbidden: Mapping[str, str] = field(default_factory=dict)
    """By namespace: why this account may not evict there."""
    rights: Rights = field(default_factory=Rights)
    """Where this account may evict."""
    turn: int = 0
    """The number of the cycle: each cycle puts another step first."""
    pause: Pause | None = None
    breaker: BreakerState = CLOSED
    requests: RequestCounts = NO_REQUESTS
    approved: str = ""
    """The hash of the plan that a person approved last, "" if none."""
    written: Written = NOT_READ
    """The approval of a whole plan, as the file states it."""
    at_once: bool = False
    """Whether `spread.for` is ignored, as with `--once`."""
    guards: GuardState = NO_ANSWERS
    """The answers to the queries of the guards."""
    read_at: float = 0.0
    """The time in monotonic seconds."""


class _Step:
    """Evictions of one step, and what keeps back all of them, or those after the admitted evictions."""

    def __init__(self, evictions: tuple[Eviction, ...], obstacle: Refusal | None) -> None:
        self.evictions = evictions
        self.obstacle = obstacle
        self.admitted = 0

    @property
    def first(self) -> Eviction:
        """The first eviction of the step."""
        return self.evictions[0]


def admit(
    plan: Plan, snapshot: Snapshot, memory: Memory, context: AdmissionContext, view: View | None = None
) -> Admission:
    """Admit the evictions that may be sent now; `view` is the snapshot's view, None: it is made when needed.

    The rates are shared fairly, so that a large repair does not delay the others. Every step first gets as many
    evictions as it needs, then one more in turn. Another step is first in each cycle. The admitted evictions of a step
    are a prefix of the step.
    """
    current = _find_current(plan, memory, context)
    whole = advance(plan, memory, snapshot, _around(current, context))
    current = None if whole.begun else current
    allowance = _find_allowance(whole.standing, plan, snapshot, context)
    unplaceable = find_unplaceable(memory, snapshot, view)
    obstacles = _Obstacles(snapshot, memory, context, find_holds(memory.moves, snapshot, context.now, unplaceable))
    parts = _order(_split_repeated(split_steps(plan.fates.going), memory.unexecuted_pods), context)
    steps = [_Step(part, obstacles.find(part)) for part in parts]
    held = context.breaker.find(BreakerCause.REPLACEMENTS)
    probe_at = find_next_probe(memory.moves, snapshot, held.since, context.now) if held is not None else None
    if probe_at is not None and context.now >= probe_at:
        steps = _probe(steps, obstacles, memory.moves, lambda first: _may_go(first, memory, allowance))
    windows = _open_windows(snapshot, memory, obstacles.holds, unplaceable, context)
    if allowance is not None or _carries_out(memory, context):
        steps.sort(key=lambda step: not windows.waits_long(step.evictions))  # nothing may overtake these steps any more
    rates = Rates(context.policy, snapshot, memory, context.now)
    guards = _limit_by_guards(snapshot, memory, unplaceable, context)
    limits = _Limits(rates, windows, Canaries(memory, context.policy.budgets.canary, unplaceable), guards)
    approvals = _Approvals(plan, snapshot, memory, context, limits)
    fates, proposal, approved_by = approvals.decide(steps, current, whole.standing, allowance)
    fates = add_first(_find_last_waits(fates, rates, obstacles, context.now))
    waits = bool(windows.limited) or guards.state.wanted
    moments = [rates.frees_at, probe_at, *_find_changes(memory, fates, context, waits_for_arrivals=waits)]
    return Admission(
        fates=fates,
        proposal=proposal,
        whole=whole,
        approved_by=approved_by,
        next_try=min((one for one in moments if one is not None and one > context.now), default=None),
        windows=store_windows(memory.windows, windows.sizes, windows.limited, context.now),
        queued=windows.queued_since(
            {step.first.group for step in steps if step.first.needed > 1} - {one.group for one in fates.going}
        ),
        guards=guards.state,
    )


def _find_last_waits(fates: Fates, rates: Rates, obstacles: "_Obstacles", said: datetime) -> Fates:
    """Let each waiting eviction wait for that obstacle which ends last."""
    awaited = queue(fates, rates).await_last(
        lambda one: filter(None, (*obstacles.find_own(one), rates.find_turn(one))), said
    )
    return count_waiting(awaited, rates)


def _open_windows(
    snapshot: Snapshot, memory: Memory, holds: Holds, unplaceable: Collection[str], context: AdmissionContext
) -> Windows:
    """Return the windows of slow start; they begin anew in held namespaces, and everywhere if the cluster is held."""
    is_held = context.breaker.find(BreakerCause.REPLACEMENTS) is not None
    held = holds.namespaces.keys() | holds.misplaced.keys()
    return Windows(
        memory,
        snapshot,
        context.now,
        known=[] if is_held else [one for one in memory.windows if one.namespace not in held],
        enabled=context.policy.budgets.slow_start,
        unplaceable=unplaceable,
    )


def _limit_by_guards(
    snapshot: Snapshot, memory: Memory, unplaceable: Collection[str], context: AdmissionContext
) -> GuardLimit:
    """Return the limit of the guards; a step ends when its replacements have arrived, or wait for the next step."""
    under_way = [move for move in memory.moves if is_under_way(move, snapshot, context.now)]
    return GuardLimit(
        context.policy.guards,
        context.guards,
        context.read_at,
        is_quiet=all(move.uid in unplaceable for move in under_way),
        unplaced=frozenset(move.group for move in under_way),
    )


def _find_changes(
    memory: Memory, fates: Fates, context: AdmissionContext, *, waits_for_arrivals: bool
) -> Iterable[datetime | None]:
    """Yield when time alone may free a place in a window, or end the wait for an undecided eviction."""
    if waits_for_arrivals:
        yield find_next_change(memory.moves, context.policy.breaker.pending_for, context.now)
        yield context.now + UNANSWERED if fates.going else None
    yield from map(_may_be_executed_until, memory.unexecuted)


def _carries_out(memory: Memory, context: AdmissionContext) -> bool:
    """Return whether evictions may go; in mode Approve none goes before a person has approved it."""
    proposal = memory.proposal
    return context.mode is not Mode.APPROVE or (proposal is not None and proposal.approved)


def _order(steps: Sequence[tuple[Eviction, ...]], context: AdmissionContext) -> list[tuple[Eviction, ...]]:
    """Return the steps as they take turns; a proposal must not depend on the number of earlier cycles."""
    first = context.turn % len(steps) if steps and context.mode is not Mode.APPROVE else 0
    return [*steps[first:], *steps[:first]]


def _split_repeated(steps: Iterable[tuple[Eviction, ...]], unexecuted: Collection[str]) -> list[tuple[Eviction, ...]]:
    """Return the steps, with leading pods of unexecuted moves (by UID) split off, because only these may go now."""
    parts: list[tuple[Eviction, ...]] = []
    for step in steps:
        repeated = len(tuple(takewhile(lambda eviction: eviction.pod.uid in unexecuted, step)))
        parts += [step[:repeated], step[repeated:]] if step[0].needed <= repeated < len(step) else [step]
    return parts


def _may_be_executed_until(move: Move) -> datetime:
    """Return until when a request of the last leader may still be carried out."""
    return move.requested_at + ANSWER_TIMEOUT


def _find_undecided(step: Iterable[Eviction], memory: Memory) -> Refusal | None:
    """Return why a step waits if the eviction of another pod of its workloads or group may still be carried out."""
    for eviction in step:
        undecided = find_undecided(memory, eviction.pod.uid, eviction.workload, eviction.group)
        if undecided is not None:
            return EvictionUndecided(undecided.pod, _may_be_executed_until(undecided))
    return None


def _find_current(plan: Plan, memory: Memory, context: AdmissionContext) -> Proposal | None:
    """Return the proposal that is in force in mode Approve, None in other modes."""
    if context.mode is not Mode.APPROVE:
        return None
    return find_proposal(plan, memory, context.policy, context.approved, context.now)


def _find_allowance(
    standing: StandingApproval | None, plan: Plan, snapshot: Snapshot, context: AdmissionContext
) -> Allowance | None:
    return None if standing is None else Allowance(standing, plan, snapshot, is_read=context.written.is_read)


def _around(current: Proposal | None, context: AdmissionContext) -> Circumstances:
    return Circumstances(
        written=context.written,
        proposal=current,
        policy=context.policy,
        mode=context.mode,
        now=context.now,
        is_stale=bool(context.stale),
    )


def _in_order(plan: Plan, steps: Iterable[_Step]) -> Fates:
    """Return the fates of a plan, with these steps first."""
    return plan.fates.put_first(eviction for step in steps for eviction in step.evictions)


def _hold_rest(fates: Fates, steps: Iterable[_Step]) -> Fates:
    """Keep back the evictions of steps that the limits do not allow."""
    kept = {one.pod.uid: step.obstacle for step in steps for one in step.evictions[step.admitted :]}
    return fates.hold(lambda eviction: kept.get(eviction.pod.uid))


class _Approvals:
    """Mode Approve: lets approved evictions go, first those of the standing approval, and proposes the rest."""

    def __init__(
        self, plan: Plan, snapshot: Snapshot, memory: Memory, context: AdmissionContext, limits: "_Limits"
    ) -> None:
        self._plan = plan
        self._snapshot = snapshot
        self._memory = memory
        self._context = context
        self._limits = limits

    def decide(
        self,
        steps: Sequence[_Step],
        proposal: Proposal | None,
        standing: StandingApproval | None,
        allowance: Allowance | None,
    ) -> tuple[Fates, Proposal | None, Mapping[str, str]]:
        """Return the fates, the proposal, and by which approval each eviction goes; other modes need no approval."""
        if self._context.mode is not Mode.APPROVE:
            return _hold_rest(_in_order(self._plan, steps), _share(steps, self._limits)), None, {}
        waiting = {step.first.group for step in steps if step.obstacle is not None}
        covered, others = _split_covered(steps, allowance)
        fates = _in_order(self._plan, steps)
        approved_by: dict[str, str] = {}
        if standing is not None and allowance is not None:
            fates = _hold_rest(fates, _share(covered, self._limits))
            listed = {one.pod.uid for step in covered for one in step.evictions}
            whole = {one.pod.uid for step in (*covered, *others) for one in step.evictions}
            beyond = BeyondApproval(standing.plan, standing.left)
            fates = fates.hold(lambda one: beyond if one.pod.uid not in whole else None)
            approved_by = dict.fromkeys(listed, standing.plan)
        possible = [step.evictions for step in others if step.obstacle is None]
        if proposal is not None and (
            holds_back_others(proposal, self._plan, self._memory, possible, self._context.now)
            or _cannot_be_carried_out(proposal, others)
        ):
            proposal = None
        if proposal is not None and proposal.approved:
            fates, proposal = self._carry_out(fates, others, proposal)
            mine = {one.pod.uid for step in others for one in step.evictions}
            return fates, proposal, dict.fromkeys(mine, proposal.hash) | approved_by
        fates, proposal = self._propose(fates, others, proposal, waiting)
        return fates, proposal, approved_by

    def _propose(
        self, fates: Fates, others: Sequence[_Step], proposal: Proposal | None, waiting: Collection[str]
    ) -> tuple[Fates, Proposal | None]:
        """Propose the evictions that would be admitted, unless a proposal already waits."""
        policy, now = self._context.policy, self._context.now
        # Only rates limit a proposal. Slow start limits execution, since nobody wants to approve each pair of pods.
        fates = _hold_rest(fates, _share(others, self._limits.rates))
        uids = {one.pod.uid for step in others for one in step.evictions}
        asked = [eviction for eviction in fates.going if eviction.pod.uid in uids]
        if proposal is None and asked:
            proposal = propose(asked, policy, now, find_coverage(self._plan, self._snapshot, waiting))
        if proposal is None:
            assert not asked, "what would be admitted is proposed"
            return fates, None
        covered = Covered(proposal.coverage or NO_COVERAGE, self._plan, self._snapshot)

        def await_approval(eviction: Eviction) -> Refusal:
            if eviction.pod.uid in proposal.uids:
                return AwaitsApproval(proposal.hash, expires_at(proposal, policy))
            return InLaterSteps(proposal.hash) if covered.covers(eviction) else NotProposed(proposal.hash)

        fates = fates.hold(lambda one: await_approval(one) if one.pod.uid in uids else None)

        def find_refusal(wait: Waits) -> Refusal | None:
            # The proposal itself, which is not sent, takes the places of the rates, so no time frees a place.
            if wait.eviction.pod.uid in uids and isinstance(wait.refusal, RateReached) and wait.refusal.left:
                return await_approval(wait.eviction)
            return None

        return fates.replace(find_refusal), proposal

    def _carry_out(self, fates: Fates, others: Sequence[_Step], proposal: Proposal) -> tuple[Fates, Proposal]:
        """Let go the evictions that are approved without later steps, and no others."""
        approved = []
        for step in others:
            part = step.evictions if step.obstacle is not None else approved_part(step.evictions, proposal)
            if part:
                approved.append(_Step(part, step.obstacle))
        fates = _hold_rest(fates, _share(approved, self._limits))
        listed = {one.pod.uid for step in approved for one in step.evictions}
        rest = {one.pod.uid for step in others for one in step.evictions} - listed
        fates = fates.hold(lambda one: NotProposed(proposal.hash) if one.pod.uid in rest else None)
        goes_on = not listed.isdisjoint(one.pod.uid for one in fates.going)
        return fates, structs.replace(proposal, since=self._context.now) if goes_on else proposal


def _split_covered(steps: Sequence[_Step], allowance: Allowance | None) -> tuple[list[_Step], list[_Step]]:
    """Return the parts of steps that the standing approval lets go, and the steps without such a part.

    Steps that may go at once come first: the rest of the approval must not be reserved for steps that wait.
    """
    if allowance is None:
        return [], list(steps)
    covered: list[_Step] = []
    others: list[_Step] = []
    for step in sorted(steps, key=lambda step: step.obstacle is not None):
        part = allowance.take(step.evictions)
        if part:
            unread = None if allowance.is_read else ApprovalUnread(allowance.plan)
            covered.append(_Step(part, step.obstacle or unread))
        else:
            others.append(step)
    return covered, others


def _cannot_be_carried_out(proposal: Proposal, steps: Iterable[_Step]) -> bool:
    """Return whether a proposal that is not approved yet needs a right that this account lacks."""
    # While rights are still unknown, for example after a start, nothing speaks against the proposal.
    lacking = (step.evictions for step in steps if isinstance(step.obstacle, RightMissing) and step.obstacle.known)
    return not proposal.approved and any(one.pod.uid in proposal.uids for step in lacking for one in step)


def _share(steps: Sequence[_Step], limits: "_Limits | Rates") -> Sequence[_Step]:
    """Admit as many evictions of each step as the limits allow; note what limits a step."""
    open_steps = [step for step in steps if step.obstacle is None]
    while open_steps:
        still_open = []
        for step in open_steps:
            more = step.evictions[step.admitted : max(step.admitted + 1, step.first.needed)]
            step.obstacle = limits.take(more)
            if step.obstacle is not None:
                continue
            step.admitted += len(more)
            if step.admitted < len(step.evictions):
                still_open.append(step)
        open_steps = still_open
    return steps


def find_common_obstacle(context: AdmissionContext) -> Refusal | None:
    """Return what keeps back every eviction: first decisions of people, then obstacles that will pass."""
    return next(find_common_obstacles(context), None)


def find_common_obstacles(context: AdmissionContext) -> Iterator[Refusal]:
    """Yield everything that keeps back every eviction, in this order."""
    if context.pause is not None and context.pause.holds(context.now):
        yield Paused(context.pause.message, context.pause.until)
    if context.mode is Mode.OBSERVE:
        yield ModeObserves()
    if context.stale:
        yield Stale(context.stale)
    if context.unsaved:
        yield MemoryUnsaved(context.unsaved)
    if context.overload is not None and (left := context.overload.left(context.read_at)):
        yield ServerOverloaded(left)
    opening = find_opening(context.policy.windows, context.now)
    if opening is not None:
        window = opening.window
        yield OutsideWindow(opening.at, window.schedule, window.time_zone)
    if context.breaker.is_open:
        clear_after = context.policy.breaker.clear_after
        yield BreakerOpen(context.breaker.causes, context.now, clear_after)


class _Obstacles:
    """Finds obstacles, other than limits, to admitting a step."""

    def __init__(self, snapshot: Snapshot, memory: Memory, context: AdmissionContext, holds: Holds) -> None:
        self._snapshot = snapshot
        self._memory = memory
        self._context = context
        self.holds = holds
        self._since = dict(memory.seen)
        self._common = find_common_obstacle(context)

    def of_probe(self) -> "_Obstacles":
        """Return the obstacles that apply even to a probe, which tests whether the cluster replaces pods."""
        context = self._context
        causes = tuple(known for known in context.breaker.causes if known.cause is not BreakerCause.REPLACEMENTS)
        return _Obstacles(self._snapshot, self._memory, replace(context, breaker=BreakerState(causes)), self.holds)

    def find(self, step: Sequence[Eviction]) -> Refusal | None:
        """Return the obstacle of a step, None if there is none."""
        return next(self._find_all(step), None)

    def find_own(self, eviction: Eviction) -> Iterator[Refusal]:
        """Yield the obstacles of one eviction, without those of all evictions."""
        return (one for one in self._find_all((eviction,)) if one is not self._common)

    def _find_all(self, step: Sequence[Eviction]) -> Iterator[Refusal]:
        """Yield the obstacles of a step, the most informative first."""
        for find in (self._find_hold, self._find_missing_right):
            if (obstacle := find(step)) is not None:
                yield obstacle
        yield from self._find_of_group(step[0])
        if (undecided := _find_undecided(step, self._memory)) is not None:
            yield undecided

    def _find_missing_right(self, step: Sequence[Eviction]) -> Refusal | None:
        """Return the right that a step lacks, unless something else keeps everything back."""
        if self._common is not None and self._common.reason is not Reason.BREAKER_OPEN:
            return None
        return self._context.rights.find_refusal(step)

    def _find_hold(self, step: Sequence[Eviction]) -> Refusal | None:
        """Return why a step has to wait if a replacement is overdue, or elsewhere, that holds namespace or workload."""
        # Missing replacements make moves fail, which opens the breaker, too; the breaker would hide the reason.
        if self._common is not None and self._common.reason is not Reason.BREAKER_OPEN:
            return None
        for eviction in step:
            of_namespace = self.holds.namespaces.get(eviction.pod.namespace)
            if of_namespace is not None:
                return overdue_replacement(of_namespace, holds_namespace=True)
            of_workload = self.holds.workloads.get(eviction.workload)
            if of_workload is not None:
                return overdue_replacement(of_workload, holds_namespace=False)
            elsewhere = self.holds.misplaced.get(eviction.pod.namespace)
            if elsewhere is not None:
                return misplaced_replacement(elsewhere, self._snapshot, self._memory)
        return None

    def _find_of_group(self, eviction: Eviction) -> Iterator[Refusal]:
        """Yield what keeps a group's repair from going on; the eviction is the first of its step."""
        memory, context, common = self._memory, self._context, self._common
        refused = find_refusals(memory, eviction.group, context.now)
        message = context.forbidden.get(eviction.pod.namespace)
        if refused is not None and message is not None and (common is None or common.reason is Reason.BREAKER_OPEN):
            # Refused requests count for the breaker, too; an open breaker would hide the reason.
            yield describe_refused_requests(refused, message, context.now)
        if common is not None:
            yield common
            return
        required = eviction.repair.lasting
        violated_for = context.now - self._since.get(make_token(eviction.group), context.now)
        if violated_for < required and not context.at_once:
            yield NotLasting(violated_for, _FIELDS_OF_LASTING.get(eviction.cause, "spread.for"), required)
        backoff = find_backoff(memory, eviction.group, context.now)
        if backoff is not None:
            yield BackingOff(backoff.times, backoff.left)
        if refused is not None:
            yield describe_refused_requests(refused, None, context.now)


def describe_refused_requests(refused: RefusalWait, forbidden: str | None, said: datetime) -> Refusal:
    """Return why a repair waits after its last requests were not granted.

    `forbidden` says why the account may not evict there, None if that is not the reason. The wait counts from `said`.
    """
    if forbidden is not None:
        return NotAllowed(forbidden, refused.left)
    if refused.refuser:
        return RefusedByAdmission(refused.refuser, refused.words, said + refused.left)
    return RequestsRefused(refused.times, refused.left, refused.words)


def _may_go(first: Eviction, memory: Memory, allowance: Allowance | None) -> bool:
    """Return whether approvals, if needed, let a step go that begins with this eviction."""
    if allowance is not None and allowance.is_read and allowance.covers(first):
        return True
    if memory.proposal is not None and memory.proposal.approved:
        return first.pod.uid in memory.proposal.uids
    return allowance is None


def _probe(
    steps: Sequence[_Step], obstacles: _Obstacles, moves: Iterable[Move], may_go: Callable[[Eviction], bool]
) -> list[_Step]:
    """Let one eviction go to see whether the cluster replaces pods, in the namespace with the fewest failures.

    If every step needs several concurrent evictions, the number that the first step needs goes. The rest of the step,
    and all other steps, wait as before.
    """
    of_probe = obstacles.of_probe()
    failures = Counter(move.namespace for move in moves if move.overdue)
    possible = (step for step in steps if of_probe.find(step.evictions) is None and may_go(step.first))
    chosen = min(possible, key=lambda step: _rank_probe(step.first, failures), default=None)
    if chosen is None:
        return list(steps)
    number = chosen.first.needed
    parts = [_Step(chosen.evictions[:number], None), _Step(chosen.evictions[number:], chosen.obstacle)]
    others = [[part for part in parts if part.evictions] if step is chosen else [step] for step in steps]
    return [step for together in others for step in together]


def _rank_probe(first: Eviction, failures: Mapping[str, int]) -> tuple[int, int, str]:
    """Return the rank of a step, by its first eviction: fewest failures in the namespace, fewest evictions, name."""
    namespace = first.pod.namespace
    return failures.get(namespace, 0), first.needed, namespace


class _Limits(NamedTuple):
    """All limits on the number of admitted evictions; each limit applies to what the limits before it allow.

    The guards come last, because their queries are asked only if nothing else holds evictions back.
    """

    rates: Rates
    windows: Windows
    canaries: Canaries
    guards: GuardLimit

    def take(self, evictions: Sequence[Eviction]) -> Refusal | None:
        """Count evictions of one step, all of them or none; return the limit that does not allow them."""
        refusal = self.canaries.find_obstacle(evictions) or self.rates.take(evictions)
        if refusal is not None:
            return refusal
        refusal = self.windows.take(evictions)
        if refusal is None and (refusal := self.guards.take(evictions)) is not None:
            self.windows.give_back(evictions)
        if refusal is not None:
            self.rates.give_back(evictions)
            return refusal
        self.canaries.count(evictions)
        return None
