"""Admission: which evictions of a plan may be sent now.

Planning decides everything that follows from the snapshot. Admission decides what needs memory or the clock: the mode,
a pause, windows, the breaker, how long a violation has lasted, back-off, the rates, and what a person has approved in
mode Approve. A step is admitted whole, as a prefix, or not at all.

Whether a window is open, and when the next one opens.

A window is open if its schedule occurred within the last `duration`. So one question answers both: its first occurrence
after `now - duration` either lies not after now, then the window is open, or it is the moment at which it opens next.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import NamedTuple

from msgspec import Struct, structs

from rebalancer.admission.approval import (
    approved_part,
    expires_at,
    find_proposal,
    holds_back_others,
    propose,
    split_steps,
)
from rebalancer.admission.breaker import NO_REQUESTS, RequestCounts
from rebalancer.admission.causes import (
    AwaitsApproval,
    BackingOff,
    BreakerOpen,
    EvictionUndecided,
    MemoryUnsaved,
    ModeObserves,
    NotAllowed,
    NotLasting,
    NotProposed,
    OutsideWindow,
    Paused,
    RateReached,
    RefusedByAdmission,
    RequestsRefused,
    ServerOverloaded,
    Stale,
    TooManyInFlight,
    overdue_replacement,
)
from rebalancer.admission.memory import MOST_IN_FLIGHT, RATE_WINDOW
from rebalancer.admission.pause import Pause
from rebalancer.admission.slow_start import Windows, find_unplaceable
from rebalancer.model.breaker import CLOSED, BreakerCause, BreakerState
from rebalancer.model.moves import Memory, Move, Proposal, SentRequest, StartWindow, make_place, make_token
from rebalancer.model.reasons import Cause, Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.causes import OF_TEAM, Fact, Refusal
from rebalancer.planning.plan import Eviction, Plan, Waiting
from rebalancer.policy import Mode, Policy, Window
from rebalancer.scheduling.view import View
from rebalancer.tracking.arrivals import UNANSWERED, find_next_change
from rebalancer.tracking.backoff import find_backoff, find_refusals
from rebalancer.tracking.holds import Holds, find_holds, find_next_probe
from rebalancer.tracking.moves import ANSWER_TIMEOUT, find_undecided, is_deferred
from rebalancer.tracking.windows import store_windows


class Opening(Struct, frozen=True, kw_only=True):
    """A window that is closed now, and when it opens."""

    window: Window
    at: datetime


def find_opening(windows: Sequence[Window], now: datetime) -> Opening | None:
    """Return the window that opens next and when; None while a window is open, or if there are no windows."""
    following: Opening | None = None
    for window in windows:
        at = window.first_opening(now - window.duration)
        if at <= now:
            return None
        if following is None or at < following.at:
            following = Opening(window=window, at=at)
    return following


@dataclass(frozen=True, kw_only=True)
class Admission:
    """The evictions admitted now, in order, and those that wait, each with its reason; `proposal` in mode Approve.

    `windows` and `queued` are the parts of the memory that are slow start's, after this admission.
    """

    evictions: tuple[Eviction, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    proposal: Proposal | None = None
    next_try: datetime | None = None
    """When time alone admits more, as far as that is known: no change in the cluster starts a cycle then."""
    windows: tuple[StartWindow, ...] = ()
    queued: tuple[tuple[str, datetime], ...] = ()


class Overload(NamedTuple):
    """An overloaded API server asked at `since` to send nothing for `wait`."""

    since: datetime
    wait: timedelta

    def left(self, now: datetime) -> timedelta:
        """Return how long nothing is to be sent; nothing is left before `since`: the clock was set back."""
        passed = now - self.since
        return max(timedelta(0), self.wait - passed) if passed >= timedelta(0) else timedelta(0)


@dataclass(frozen=True, kw_only=True)
class AdmissionContext:
    """What applies to every eviction alike.

    `stale` says why the snapshot is out of date, `unsaved` why the memory could not be saved, "" if they are not.
    `overload` says since when and for how long the API server has asked to send nothing. `forbidden` says by namespace
    why this account may not evict there. `turn` counts the cycles:
    another step is first in each.
    """

    policy: Policy
    mode: Mode
    now: datetime
    stale: str = ""
    unsaved: str = ""
    overload: Overload | None = None
    forbidden: Mapping[str, str] = field(default_factory=dict)
    turn: int = 0
    pause: Pause | None = None
    breaker: BreakerState = CLOSED
    requests: RequestCounts = NO_REQUESTS
    approved: str = ""
    """The hash of the plan that a person has approved last, "" if there is none."""
    at_once: bool = False
    """Whether `spread.for` is ignored, as with `--once`."""


def admit(
    plan: Plan, snapshot: Snapshot, memory: Memory, context: AdmissionContext, view: View | None = None
) -> Admission:
    """Admit what may be sent now; `view` is that of the snapshot, None: it is made where it is needed.

    The rates are shared fairly: every step first gets as many evictions as it needs, then one more in turn, so that a
    large repair does not delay the others. Another step is first in each cycle. The admitted evictions of a step are a
    prefix of the step.
    """
    steps = _order(_split_repeated(split_steps(plan.evictions), memory.unexecuted_pods), context)
    unplaceable = find_unplaceable(memory, snapshot, view)
    holds = find_holds(memory.moves, snapshot, context.now, unplaceable)
    held = context.breaker.find(BreakerCause.REPLACEMENTS)
    obstacles = _find_obstacles(steps, holds, memory, context)
    probe_at = find_next_probe(memory.moves, snapshot, held.since, context.now) if held is not None else None
    if probe_at is not None and context.now >= probe_at:
        _probe(steps, obstacles, holds, memory, context)
    windows = _open_windows(snapshot, memory, holds, unplaceable, context)
    if _carries_out(memory, context):
        steps, obstacles = _put_first(steps, obstacles, windows)
    rates = _Rates(context.policy, snapshot, memory, context.now)
    made = _admit(plan, steps, obstacles, _Limits(rates, windows), memory, context)
    moments = [rates.frees_at, probe_at, *_find_changes(memory, windows, made, context)]
    return replace(
        made,
        next_try=min((one for one in moments if one is not None and one > context.now), default=None),
        windows=store_windows(memory.windows, windows.sizes, windows.limited, context.now),
        queued=windows.queued_since(
            {waits.eviction.group for waits in made.waiting if waits.eviction.needed > 1}
            - {eviction.group for eviction in made.evictions}
        ),
    )


def _open_windows(
    snapshot: Snapshot, memory: Memory, holds: Holds, unplaceable: Collection[str], context: AdmissionContext
) -> Windows:
    """Return the windows of slow start; those of held namespaces begin anew, and all while the cluster holds."""
    is_held = context.breaker.find(BreakerCause.REPLACEMENTS) is not None
    return Windows(
        memory,
        snapshot,
        context.now,
        known=[] if is_held else [one for one in memory.windows if one.namespace not in holds.namespaces],
        enabled=context.policy.budgets.slow_start,
        unplaceable=unplaceable,
    )


def _find_changes(
    memory: Memory, windows: Windows, made: Admission, context: AdmissionContext
) -> Iterable[datetime | None]:
    """Yield when time alone may free a place in a window, or let another pod be evicted than an undecided one."""
    if windows.limited:
        yield find_next_change(memory.moves, context.policy.breaker.pending_for, context.now)
        yield context.now + UNANSWERED if made.evictions else None
    yield from map(_may_be_executed_until, memory.unexecuted)


def _carries_out(memory: Memory, context: AdmissionContext) -> bool:
    """Return whether evictions may go; in mode Approve nothing does before a person has approved it."""
    proposal = memory.proposal
    return context.mode is not Mode.APPROVE or (proposal is not None and proposal.approved)


def _order(steps: Sequence[tuple[Eviction, ...]], context: AdmissionContext) -> list[tuple[Eviction, ...]]:
    """Return the steps as they take turns; a proposal must not depend on how many cycles there were before."""
    first = context.turn % len(steps) if steps and context.mode is not Mode.APPROVE else 0
    return [*steps[first:], *steps[:first]]


def _split_repeated(steps: Iterable[tuple[Eviction, ...]], unexecuted: Collection[str]) -> list[tuple[Eviction, ...]]:
    """Return the steps; one that begins with pods of unexecuted moves, by UID, is two: those alone may go now."""
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
            cause = EvictionUndecided(undecided.pod, _may_be_executed_until(undecided))
            return Refusal(Reason.GROUP_IN_FLIGHT, cause)
    return None


def _put_first(
    steps: Sequence[tuple[Eviction, ...]], obstacles: Sequence[Refusal | None], windows: Windows
) -> tuple[list[tuple[Eviction, ...]], list[Refusal | None]]:
    """Return steps and obstacles, those first that nothing may overtake any more."""
    order = sorted(range(len(steps)), key=lambda index: not windows.waits_long(steps[index]))
    return [steps[index] for index in order], [obstacles[index] for index in order]


def _admit(
    plan: Plan,
    steps: Sequence[tuple[Eviction, ...]],
    obstacles: list[Refusal | None],
    limits: "_Limits",
    memory: Memory,
    context: AdmissionContext,
) -> Admission:
    if context.mode is Mode.APPROVE:
        proposal = find_proposal(plan, memory, context.policy, context.approved, context.now)
        possible = [step for step, obstacle in _pairs(steps, obstacles) if obstacle is None]
        if proposal is not None and holds_back_others(proposal, plan, memory, possible, context.now):
            proposal = None
        return _admit_approved(steps, obstacles, limits, proposal, context)
    return _admit_steps(steps, obstacles, limits)


def _admit_steps(
    steps: Sequence[tuple[Eviction, ...]], obstacles: list[Refusal | None], limits: "_Limits | _Rates"
) -> Admission:
    """Admit as many evictions of the steps without an obstacle as the limits allow."""
    numbers = _share(steps, obstacles, limits)
    admitted: list[Eviction] = []
    waiting: list[Waiting] = []
    for step, number, obstacle in zip(steps, numbers, obstacles, strict=True):
        admitted += step[:number]
        if obstacle is not None:
            waiting += [Waiting(eviction=eviction, refusal=obstacle) for eviction in step[number:]]
    return Admission(evictions=tuple(admitted), waiting=tuple(waiting))


def _admit_approved(
    steps: Sequence[tuple[Eviction, ...]],
    obstacles: list[Refusal | None],
    limits: "_Limits",
    proposal: Proposal | None,
    context: AdmissionContext,
) -> Admission:
    """Admit what is approved. Where nothing is, propose what would be admitted, unless a proposal is in force.

    Slow start limits what is carried out, not what is proposed: a person is not asked for each pair of pods.
    """
    if proposal is None or not proposal.approved:
        would = _admit_steps(steps, obstacles, limits.rates)
        proposal = proposal or propose(would.evictions, context.policy, context.now)
        held = tuple(_await_approval(eviction, proposal, context.policy) for eviction in would.evictions)
        return Admission(waiting=(*held, *would.waiting), proposal=proposal)
    parts = [approved_part(step, proposal) if obstacle is None else step for step, obstacle in _pairs(steps, obstacles)]
    others = [
        _await_approval(eviction, proposal, context.policy)
        for step, part in zip(steps, parts, strict=True)
        for eviction in step[len(part) :]
    ]
    chosen = [(part, obstacle) for part, obstacle in _pairs(parts, obstacles) if part]
    made = _admit_steps([part for part, _ in chosen], [obstacle for _, obstacle in chosen], limits)
    if made.evictions:
        proposal = structs.replace(proposal, since=context.now)
    return replace(made, waiting=(*made.waiting, *others), proposal=proposal)


def _pairs(
    steps: Sequence[tuple[Eviction, ...]], obstacles: Sequence[Refusal | None]
) -> Iterable[tuple[tuple[Eviction, ...], Refusal | None]]:
    return zip(steps, obstacles, strict=True)


def _await_approval(eviction: Eviction, proposal: Proposal | None, policy: Policy) -> Waiting:
    assert proposal is not None
    cause: Fact = NotProposed(proposal.hash)
    if not proposal.approved and eviction.pod.uid in proposal.uids:
        cause = AwaitsApproval(proposal.hash, expires_at(proposal, policy))
    return Waiting(eviction=eviction, refusal=Refusal(Reason.AWAITING_APPROVAL, cause))


def _share(
    steps: Sequence[tuple[Eviction, ...]], obstacles: list[Refusal | None], limits: "_Limits | _Rates"
) -> list[int]:
    """Return how many evictions of each step are admitted; note in `obstacles` what limits a step."""
    numbers = [0] * len(steps)
    open_steps = [index for index, obstacle in enumerate(obstacles) if obstacle is None]
    while open_steps:
        still_open = []
        for index in open_steps:
            more = steps[index][numbers[index] : max(numbers[index] + 1, steps[index][0].needed)]
            obstacle = limits.take(more)
            if obstacle is not None:
                obstacles[index] = obstacle
                continue
            numbers[index] += len(more)
            if numbers[index] < len(steps[index]):
                still_open.append(index)
        open_steps = still_open
    return numbers


def find_common_obstacle(context: AdmissionContext) -> Refusal | None:
    """Return what keeps every eviction from being admitted: what people have decided first, then what will pass."""
    if context.pause is not None and context.pause.holds(context.now):
        return Refusal(Reason.PAUSED, Paused(context.pause.message))
    if context.mode is Mode.OBSERVE:
        return Refusal(Reason.OBSERVE_ONLY, ModeObserves())
    if context.stale:
        return Refusal(Reason.STALE_DATA, Stale(context.stale))
    if context.unsaved:
        return Refusal(Reason.MEMORY_NOT_SAVED, MemoryUnsaved(context.unsaved))
    if context.overload is not None and (left := context.overload.left(context.now)):
        return Refusal(Reason.RATE_LIMITED, ServerOverloaded(left))
    opening = find_opening(context.policy.windows, context.now)
    if opening is not None:
        window = opening.window
        return Refusal(Reason.OUTSIDE_WINDOW, OutsideWindow(opening.at, window.schedule, window.time_zone))
    if context.breaker.is_open:
        clear_after = context.policy.breaker.clear_after
        return Refusal(Reason.BREAKER_OPEN, BreakerOpen(context.breaker.causes, context.now, clear_after))
    return None


def _find_obstacles(
    steps: Sequence[tuple[Eviction, ...]], holds: Holds, memory: Memory, context: AdmissionContext
) -> list[Refusal | None]:
    """Return for each step what other than a limit keeps it from being admitted."""
    since, common = dict(memory.seen), find_common_obstacle(context)
    return [
        _find_overdue(step, holds, common)
        or _find_obstacle(step[0], common, since, memory, context)
        or _find_undecided(step, memory)
        for step in steps
    ]


def _find_overdue(step: Sequence[Eviction], holds: Holds, common: Refusal | None) -> Refusal | None:
    """Return why a step has to wait if a replacement is overdue that holds the namespace or workload of its pods."""
    # That replacements do not arrive is why moves fail, for which the breaker opens, too: it would hide why.
    if common is not None and common.reason is not Reason.BREAKER_OPEN:
        return None
    for eviction in step:
        of_namespace = holds.namespaces.get(eviction.pod.namespace)
        if of_namespace is not None:
            return overdue_replacement(of_namespace, holds_namespace=True)
        of_workload = holds.workloads.get(eviction.workload)
        if of_workload is not None:
            return overdue_replacement(of_workload, holds_namespace=False)
    return None


def _probe(
    steps: list[tuple[Eviction, ...]],
    obstacles: list[Refusal | None],
    holds: Holds,
    memory: Memory,
    context: AdmissionContext,
) -> None:
    """Let one eviction go, to see whether the cluster replaces pods: if possible in a namespace without overdue ones.

    Where every step needs several concurrent evictions, as many go as the first of them needs. The rest of the step,
    and all other steps, wait as before.
    """
    causes = tuple(known for known in context.breaker.causes if known.cause is not BreakerCause.REPLACEMENTS)
    without = _find_obstacles(steps, holds, memory, replace(context, breaker=BreakerState(causes)))
    avoided = {move.namespace for move in memory.moves if move.overdue}
    approved = memory.proposal.uids if memory.proposal is not None and memory.proposal.approved else None
    possible = [
        index
        for index, step in enumerate(steps)
        if without[index] is None and (approved is None or step[0].pod.uid in approved)
    ]
    if possible:
        index = min(possible, key=lambda one: (steps[one][0].needed, steps[one][0].pod.namespace in avoided))
        step, number = steps[index], steps[index][0].needed
        if step[number:]:
            steps.insert(index + 1, step[number:])
            obstacles.insert(index + 1, obstacles[index])
        steps[index], obstacles[index] = step[:number], None


def _find_obstacle(
    eviction: Eviction, common: Refusal | None, since: dict[str, datetime], memory: Memory, context: AdmissionContext
) -> Refusal | None:
    """Return what other than a rate keeps a step from being admitted; `eviction` is its first."""
    refused = find_refusals(memory, eviction.group, context.now)
    message = context.forbidden.get(eviction.pod.namespace)
    if refused is not None and message is not None and (common is None or common.reason is Reason.BREAKER_OPEN):
        # Refused requests count for the breaker, too; that it is open would hide why.
        return Refusal(Reason.FORBIDDEN, NotAllowed(message, refused.left))
    if common is not None:
        return common
    required = eviction.repair.lasting
    violated_for = context.now - since.get(make_token(eviction.group), context.now)
    if violated_for < required and not context.at_once:
        field = "the limit's for" if eviction.cause is Cause.SHARE_LIMIT_VIOLATED else "spread.for"
        return Refusal(Reason.NOT_PERSISTENT, NotLasting(violated_for, field, required))
    backoff = find_backoff(memory, eviction.group, context.now)
    if backoff is not None:
        return Refusal(Reason.BACK_OFF, BackingOff(backoff.times, backoff.left))
    if refused is None:
        return None
    if refused.refuser:
        cause = RefusedByAdmission(refused.refuser, refused.words, context.now + refused.left)
        return Refusal(Reason.REFUSED_BY_ADMISSION, cause)
    return Refusal(Reason.BACK_OFF, RequestsRefused(refused.times, refused.left))


class _Rates:
    """The rates of the policy, counted down as evictions are admitted.

    They hold for time, not for cycles: changes in the cluster start cycles at once. `perCycle`, `perNode` and
    `perNamespace` bound what is sent in any window of `interval`, at most a minute.
    """

    def __init__(self, policy: Policy, snapshot: Snapshot, memory: Memory, now: datetime) -> None:
        self._budgets = policy.budgets
        self._rules_of_team = policy.rules_of
        self._snapshot = snapshot
        self._now = now
        # What admission control has deferred may be in flight the next moment, without a request.
        self._in_flight = len(memory.in_flight) + len(memory.unexecuted) + sum(map(is_deferred, memory.moves))
        self._window = _Sent(now, min(policy.interval, RATE_WINDOW), memory.sent)
        self._minute = _Sent(now, RATE_WINDOW, memory.sent)
        self._unexecuted = {move.uid: move.requested_at for move in memory.unexecuted}
        """When evictions that may be requested again were first admitted: the new request takes that one's place."""
        self.frees_at: datetime | None = None
        """When the first rate that has refused an eviction allows one more, None if none has or none ever does."""

    def _rates_of(self, eviction: Eviction) -> Iterable[tuple[Sequence[datetime], "_Sent", int, str]]:
        """Yield (times of those sent, window, evictions allowed, field of `budgets`) for each rate of an eviction."""
        budgets, snapshot, window, minute = self._budgets, self._snapshot, self._window, self._minute
        node, namespace = eviction.pod.node or "", eviction.pod.namespace
        everything = len(snapshot.covered_pods)
        yield window.all, window, budgets.per_cycle.resolve(everything), "perCycle"
        yield minute.all, minute, budgets.per_minute.resolve(everything), "perMinute"
        on_node = budgets.per_node.resolve(len(snapshot.pods_on.get(node, ())))
        yield window.from_node[make_place(node)], window, on_node, "perNode"
        in_namespace = len(snapshot.pods_in.get(namespace, ()))
        sent_there = window.in_namespace[make_place(namespace)]
        yield sent_there, window, budgets.per_namespace.resolve(in_namespace), "perNamespace"
        of_team = self._rules_of_team(namespace).budgets.per_namespace
        if of_team is not None:
            yield sent_there, window, of_team.resolve(in_namespace), f"perNamespace{OF_TEAM}"

    def take(self, evictions: Sequence[Eviction]) -> Refusal | None:
        """Count evictions against every rate, all of them or none; return the rate that does not allow them."""
        for number, eviction in enumerate(evictions):
            limit = self._reached(eviction)
            if limit is not None:
                self.give_back(evictions[:number])
                return Refusal(Reason.RATE_LIMITED, limit)
            self._window.add(eviction, self._now, self._unexecuted.get(eviction.pod.uid))
            self._minute.add(eviction, self._now, self._unexecuted.get(eviction.pod.uid))
            self._in_flight += eviction.pod.uid not in self._unexecuted
        return None

    def give_back(self, evictions: Sequence[Eviction]) -> None:
        """Take back the last evictions that were counted."""
        for counted in reversed(evictions):
            self._window.drop(counted, self._unexecuted.get(counted.pod.uid))
            self._minute.drop(counted, self._unexecuted.get(counted.pod.uid))
            self._in_flight -= counted.pod.uid not in self._unexecuted

    def _reached(self, eviction: Eviction) -> RateReached | TooManyInFlight | None:
        for sent, window, allowed, budget in self._rates_of(eviction):
            if len(sent) >= allowed and self._unexecuted.get(eviction.pod.uid) not in sent:
                if sent:
                    frees_at = min(sent) + window.span
                    self.frees_at = min(frees_at, self.frees_at or frees_at)
                return RateReached(budget, allowed)
        if eviction.pod.uid in self._unexecuted or self._in_flight < MOST_IN_FLIGHT:
            return None
        return TooManyInFlight(MOST_IN_FLIGHT)


class _Limits(NamedTuple):
    """All that limits how many evictions are admitted: the rates, then slow start, for what the rates allow."""

    rates: _Rates
    windows: Windows

    def take(self, evictions: Sequence[Eviction]) -> Refusal | None:
        """Count evictions of one step, all of them or none; return what does not allow them."""
        refusal = self.rates.take(evictions)
        if refusal is None:
            refusal = self.windows.take(evictions)
            if refusal is not None:
                self.rates.give_back(evictions)
        return refusal


class _Sent:
    """When evictions were sent in the last `span`: all of them, by node and by namespace; the newest are last.

    A request that repeats an earlier one (`before` says when that was) is counted once.
    """

    def __init__(self, now: datetime, span: timedelta, sent: Iterable[SentRequest]) -> None:
        self.span = span
        self.all: list[datetime] = []
        self.from_node: defaultdict[str, list[datetime]] = defaultdict(list)
        self.in_namespace: defaultdict[str, list[datetime]] = defaultdict(list)
        for request in sent:
            if now - request.at < span:
                self._note(request.at, request.node, request.namespace)

    def add(self, eviction: Eviction, now: datetime, before: datetime | None) -> None:
        """Count an eviction as sent now."""
        for times in self._lists_of(*_places_of(eviction)):
            if before not in times:
                times.append(now)

    def drop(self, eviction: Eviction, before: datetime | None) -> None:
        """Take back the last one that was added."""
        for times in self._lists_of(*_places_of(eviction)):
            if before not in times:
                times.pop()

    def _note(self, at: datetime, node: str, namespace: str) -> None:
        for times in self._lists_of(node, namespace):
            times.append(at)

    def _lists_of(self, node: str, namespace: str) -> Iterable[list[datetime]]:
        return self.all, self.from_node[node], self.in_namespace[namespace]


def _places_of(eviction: Eviction) -> tuple[str, str]:
    return make_place(eviction.pod.node or ""), make_place(eviction.pod.namespace)
