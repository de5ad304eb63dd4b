"""Admission: which evictions of a plan may be sent now.

Planning decides everything that follows from the snapshot. Admission decides what needs memory or the clock: the mode,
a pause, windows, the breaker, how long a violation has lasted, back-off, the rates, and what a person has approved in
mode Approve. A step is admitted whole, as a prefix, or not at all.

Whether a window is open, and when the next one opens.

A window is open if its schedule occurred within the last `duration`. So one question answers both: its first occurrence
after `now - duration` either lies not after now, then the window is open, or it is the moment at which it opens next.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
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
    not_created,
)
from rebalancer.admission.memory import MOST_IN_FLIGHT, RATE_WINDOW
from rebalancer.admission.pause import Pause
from rebalancer.model.breaker import CLOSED, BreakerState
from rebalancer.model.moves import Memory, Move, Proposal, make_token
from rebalancer.model.reasons import Cause, Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.causes import OF_TEAM, Fact, Refusal
from rebalancer.planning.plan import Eviction, Plan, Waiting
from rebalancer.policy import Mode, Policy, Window
from rebalancer.tracking.backoff import find_backoff, find_refusals
from rebalancer.tracking.moves import is_deferred
from rebalancer.tracking.uncreated import find_uncreated


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
    """The evictions admitted now, in order, and those that wait, each with its reason; `proposal` in mode Approve."""

    evictions: tuple[Eviction, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    proposal: Proposal | None = None


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


def admit(plan: Plan, snapshot: Snapshot, memory: Memory, context: AdmissionContext) -> Admission:
    """Admit what may be sent now.

    The rates are shared fairly: every step first gets as many evictions as it needs, then one more in turn, so that a
    large repair does not delay the others. Another step is first in each cycle. The admitted evictions of a step are a
    prefix of the step.
    """
    since = dict(memory.seen)
    steps = split_steps(plan.evictions)
    first = context.turn % len(steps) if steps else 0
    steps = steps[first:] + steps[:first]
    common = find_common_obstacle(context)
    uncreated = find_uncreated(memory.moves)
    obstacles = [
        _find_uncreated(step, uncreated, common) or _find_obstacle(step[0], common, since, memory, context)
        for step in steps
    ]
    rates = _Rates(context.policy, snapshot, memory, context.now)
    if context.mode is Mode.APPROVE:
        proposal = find_proposal(plan, memory, context.policy, context.approved, context.now)
        possible = [step for step, obstacle in _pairs(steps, obstacles) if obstacle is None]
        if proposal is not None and holds_back_others(proposal, plan, memory, possible, context.now):
            proposal = None
        return _admit_approved(steps, obstacles, rates, proposal, context)
    return _admit_steps(steps, obstacles, rates)


def _admit_steps(steps: Sequence[tuple[Eviction, ...]], obstacles: list[Refusal | None], rates: "_Rates") -> Admission:
    """Admit as many evictions of the steps without an obstacle as the rates allow."""
    numbers = _share_rates(steps, obstacles, rates)
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
    rates: "_Rates",
    proposal: Proposal | None,
    context: AdmissionContext,
) -> Admission:
    """Admit what is approved. Where nothing is, propose what would be admitted, unless a proposal is in force."""
    if proposal is None or not proposal.approved:
        would = _admit_steps(steps, obstacles, rates)
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
    made = _admit_steps([part for part, _ in chosen], [obstacle for _, obstacle in chosen], rates)
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


def _share_rates(steps: Sequence[tuple[Eviction, ...]], obstacles: list[Refusal | None], rates: "_Rates") -> list[int]:
    """Return how many evictions of each step are admitted; note the rate that limits a step in `obstacles`."""
    numbers = [0] * len(steps)
    open_steps = [index for index, obstacle in enumerate(obstacles) if obstacle is None]
    while open_steps:
        still_open = []
        for index in open_steps:
            more = steps[index][numbers[index] : max(numbers[index] + 1, steps[index][0].needed)]
            obstacle = rates.take(more)
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


def _find_uncreated(step: Sequence[Eviction], uncreated: Mapping[str, Move], common: Refusal | None) -> Refusal | None:
    """Return why a step has to wait if a replacement is overdue in the namespace of one of its pods."""
    overdue = next((uncreated[one.pod.namespace] for one in step if one.pod.namespace in uncreated), None)
    # That no pod can be created is why moves fail, for which the breaker opens, too; that it is open would hide why.
    if overdue is None or (common is not None and common.reason is not Reason.BREAKER_OPEN):
        return None
    return not_created(overdue)


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
    """The rates of the policy, counted down as evictions are admitted."""

    def __init__(self, policy: Policy, snapshot: Snapshot, memory: Memory, now: datetime) -> None:
        self._budgets = policy.budgets
        self._rules_of_team = policy.rules_of
        self._snapshot = snapshot
        self._last_minute = sum(1 for moment in memory.sent if now - moment < RATE_WINDOW)
        # What admission control has deferred may be in flight the next moment, without a request.
        self._in_flight = len(memory.in_flight) + sum(map(is_deferred, memory.moves))
        self._cycle = 0
        self._nodes: Counter[str] = Counter()
        self._namespaces: Counter[str] = Counter()

    def _rates_of(self, eviction: Eviction) -> Iterable[tuple[int, int, str]]:
        """Yield (evictions sent, evictions allowed, field of `budgets`) for each rate that counts an eviction."""
        budgets, snapshot = self._budgets, self._snapshot
        node, namespace = eviction.pod.node or "", eviction.pod.namespace
        everything = len(snapshot.covered_pods)
        yield self._cycle, budgets.per_cycle.resolve(everything), "perCycle"
        yield self._last_minute, budgets.per_minute.resolve(everything), "perMinute"
        yield self._nodes[node], budgets.per_node.resolve(len(snapshot.pods_on.get(node, ()))), "perNode"
        in_namespace = len(snapshot.pods_in.get(namespace, ()))
        yield self._namespaces[namespace], budgets.per_namespace.resolve(in_namespace), "perNamespace"
        of_team = self._rules_of_team(namespace).budgets.per_namespace
        if of_team is not None:
            yield self._namespaces[namespace], of_team.resolve(in_namespace), f"perNamespace{OF_TEAM}"

    def take(self, evictions: Sequence[Eviction]) -> Refusal | None:
        """Count evictions against every rate, all of them or none; return the rate that does not allow them."""
        for number, eviction in enumerate(evictions):
            limit = self._reached(eviction)
            if limit is not None:
                for counted in evictions[:number]:
                    self._count(counted, -1)
                return Refusal(Reason.RATE_LIMITED, limit)
            self._count(eviction, 1)
        return None

    def _reached(self, eviction: Eviction) -> RateReached | TooManyInFlight | None:
        for sent, allowed, budget in self._rates_of(eviction):
            if sent >= allowed:
                return RateReached(budget, allowed)
        return TooManyInFlight(MOST_IN_FLIGHT) if self._in_flight + self._cycle >= MOST_IN_FLIGHT else None

    def _count(self, eviction: Eviction, number: int) -> None:
        self._cycle += number
        self._last_minute += number
        self._nodes[eviction.pod.node or ""] += number
        self._namespaces[eviction.pod.namespace] += number
