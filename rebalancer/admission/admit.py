"""Admission: which evictions of a plan may be sent now.

Planning has settled everything that follows from the snapshot. Here stands what needs memory or the clock: the mode,
a pause, how long a violation has lasted, and the rates. A step is admitted whole, or a prefix of it, or not at all.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

import msgspec

from rebalancer.admission.pause import Pause
from rebalancer.assessment.assess import Assessment
from rebalancer.model.moves import Memory
from rebalancer.model.reasons import Cause, Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.plan import Eviction, Plan, Waiting
from rebalancer.policy import Mode, Policy, format_duration
from rebalancer.tracking.backoff import backoff_message

_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class Admission:
    """What goes now, in order, and what waits, each with its reason."""

    evictions: tuple[Eviction, ...] = ()
    waiting: tuple[Waiting, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AdmissionContext:
    """What bears on every eviction alike. `stale` says why the view cannot be trusted, "" if it can."""

    policy: Policy
    mode: Mode
    now: datetime
    stale: str = ""
    pause: Pause | None = None
    at_once: bool = False
    """Whether `spread.for` is left out of account, as `--once` asks for."""


def remember_plan(memory: Memory, assessment: Assessment, plan: Plan, now: datetime) -> Memory:
    """Return the memory after a plan: since when what is violated has been so, what was sent in the last minute."""
    since = dict(memory.seen)
    names = {group.group.name for group in assessment.violated} | {group.name for group in plan.groups}
    names |= {limit.name for limit in assessment.limits if limit.state is not State.SATISFIED}
    # A time ahead of ours, from another clock, must not hold anything back for ever.
    seen = tuple(sorted((name, min(now, since.get(name, now))) for name in names))
    sent = tuple(moment for moment in memory.sent if timedelta(0) <= now - moment < _MINUTE)
    misses = tuple(miss for miss in memory.failed_predictions if miss.group in names)
    spares = tuple(spare for spare in memory.extra_evictions if spare.group in names)
    return msgspec.structs.replace(memory, seen=seen, sent=sent, failed_predictions=misses, extra_evictions=spares)


def admit(plan: Plan, snapshot: Snapshot, memory: Memory, circumstances: AdmissionContext) -> Admission:
    """Let through what may go now.

    The rates are shared out fairly: of every step first what it needs at the least, then one more of each in turn, so
    that a large repair starves nobody. What goes of a step is a prefix of it.
    """
    rates = _Rates(circumstances.policy, snapshot, memory, circumstances.now)
    since = dict(memory.seen)
    steps = [tuple(grouped) for _, grouped in groupby(plan.evictions, key=lambda eviction: eviction.step)]
    refused: list[tuple[Reason, str] | None] = [
        _refused(step[0], since, circumstances) or _backed_off(step[0], memory, circumstances.now) for step in steps
    ]
    going = [0] * len(steps)
    open_ = [index for index, why in enumerate(refused) if why is None]
    while open_:
        still = []
        for index in open_:
            more = steps[index][going[index] : max(going[index] + 1, steps[index][0].needed)]
            why = rates.taken(more)
            if why is not None:
                refused[index] = why
                continue
            going[index] += len(more)
            if going[index] < len(steps[index]):
                still.append(index)
        open_ = still
    admitted: list[Eviction] = []
    waiting: list[Waiting] = []
    for step, number, why in zip(steps, going, refused, strict=True):
        admitted += step[:number]
        if why is not None:
            reason, message = why
            waiting += [Waiting(eviction=each, reason=reason, message=message) for each in step[number:]]
    return Admission(evictions=tuple(admitted), waiting=tuple(waiting))


def _refused(eviction: Eviction, since: dict[str, datetime], now: AdmissionContext) -> tuple[Reason, str] | None:
    if now.pause is not None and now.pause.holds(now.now):
        return Reason.PAUSED, now.pause.message
    if now.mode is Mode.OBSERVE:
        return Reason.OBSERVE_ONLY, "mode is Observe"
    if now.stale:
        return Reason.STALE_DATA, now.stale
    lasting = eviction.repair.lasting
    violated = now.now - since.get(eviction.group, now.now)
    if violated < lasting and not now.at_once:
        seconds = int(violated.total_seconds())
        which = "the limit's for" if eviction.cause is Cause.SHARE_LIMIT_VIOLATED else "spread.for"
        return Reason.NOT_PERSISTENT, f"violated for {seconds}s, {which} is {format_duration(lasting)}"
    return None


def _backed_off(eviction: Eviction, memory: Memory, now: datetime) -> tuple[Reason, str] | None:
    why = backoff_message(memory, eviction.group, now)
    return (Reason.BACK_OFF, why) if why else None


class _Rates:
    """The rates of the policy, counted down as evictions are admitted."""

    def __init__(self, policy: Policy, snapshot: Snapshot, memory: Memory, now: datetime) -> None:
        self._budgets = policy.budgets
        self._snapshot = snapshot
        self._lately = sum(1 for moment in memory.sent if now - moment < _MINUTE)
        self._cycle = 0
        self._nodes: Counter[str] = Counter()
        self._namespaces: Counter[str] = Counter()

    def _limits(self, eviction: Eviction) -> Iterable[tuple[int, int, str]]:
        """Yield (sent, allowed, which budget)."""
        budgets, snapshot = self._budgets, self._snapshot
        node, namespace = eviction.pod.node or "", eviction.pod.namespace
        everything = len(snapshot.pods)
        yield self._cycle, budgets.per_cycle.resolve(everything), "perCycle"
        yield self._lately, budgets.per_minute.resolve(everything), "perMinute"
        yield self._nodes[node], budgets.per_node.resolve(len(snapshot.pods_on.get(node, ()))), "perNode"
        in_namespace = len(snapshot.pods_in.get(namespace, ()))
        yield self._namespaces[namespace], budgets.per_namespace.resolve(in_namespace), "perNamespace"

    def taken(self, evictions: Sequence[Eviction]) -> tuple[Reason, str] | None:
        """Count evictions against every rate, all of them or none; return what does not let them."""
        for number, eviction in enumerate(evictions):
            for sent, allowed, name in self._limits(eviction):
                if sent >= allowed:
                    for each in evictions[:number]:
                        self._add(each, -1)
                    return Reason.RATE_LIMITED, f"budgets.{name} allows {allowed}"
            self._add(eviction, 1)
        return None

    def _add(self, eviction: Eviction, number: int) -> None:
        self._cycle += number
        self._lately += number
        self._nodes[eviction.pod.node or ""] += number
        self._namespaces[eviction.pod.namespace] += number
