"""Admission: which evictions of a plan may be sent now.

Planning has settled everything that follows from the snapshot. Here stands what needs memory or the clock: the mode,
how long a violation has lasted, and the rates. A step is admitted whole, or a prefix of it, or not at all.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

import msgspec

from rebalancer.assessment.judgement import Assessment
from rebalancer.guard.backoff import held_back
from rebalancer.model.moves import Memory
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.verdicts import Reason
from rebalancer.planning.plans import Eviction, Plan, Waiting
from rebalancer.policy import Mode, Policy, format_duration

_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class Admission:
    """What goes now, in order, and what waits, each with its reason."""

    evictions: tuple[Eviction, ...] = ()
    waiting: tuple[Waiting, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What bears on every eviction alike. `stale` says why the view cannot be trusted, "" if it can."""

    policy: Policy
    mode: Mode
    now: datetime
    stale: str = ""
    at_once: bool = False
    """Whether `spread.for` is left out of account, as `--once` asks for."""


def remembered(memory: Memory, assessment: Assessment, now: datetime) -> Memory:
    """Return the memory after an assessment: since when each group is violated, what was sent in the last minute."""
    since = dict(memory.seen)
    # A time ahead of ours, from another clock, must not hold anything back for ever.
    seen = tuple(
        sorted((group.group.name, min(now, since.get(group.group.name, now))) for group in assessment.violated)
    )
    sent = tuple(moment for moment in memory.sent if timedelta(0) <= now - moment < _MINUTE)
    violated = {name for name, _ in seen}
    misses = tuple(miss for miss in memory.misses if miss.group in violated)
    return msgspec.structs.replace(memory, seen=seen, sent=sent, misses=misses)


def admit(plan: Plan, snapshot: Snapshot, memory: Memory, circumstances: Circumstances) -> Admission:
    """Let through what may go now."""
    rates = _Rates(circumstances.policy, snapshot, memory, circumstances.now)
    since = dict(memory.seen)
    admitted: list[Eviction] = []
    waiting: list[Waiting] = []
    for _, grouped in groupby(plan.evictions, key=lambda eviction: eviction.step):
        step = tuple(grouped)
        refused = _refused(step[0], since, circumstances) or _backed_off(step[0], memory, circumstances.now)
        going = 0
        while refused is None and going < len(step):
            refused = rates.refused(step[going])
            if refused is None:
                rates.take(step[going])
                going += 1
        if going < step[0].needed:
            rates.give_back(step[:going])
            going = 0
        admitted += step[:going]
        if refused is not None:
            reason, message = refused
            waiting += [Waiting(eviction=each, reason=reason, message=message) for each in step[going:]]
    return Admission(evictions=tuple(admitted), waiting=tuple(waiting))


def _refused(eviction: Eviction, since: dict[str, datetime], now: Circumstances) -> tuple[Reason, str] | None:
    if now.mode is Mode.OBSERVE:
        return Reason.OBSERVE_ONLY, "mode is Observe"
    if now.stale:
        return Reason.STALE_DATA, now.stale
    lasting = now.policy.spread.for_
    violated = now.now - since.get(eviction.group, now.now)
    if violated < lasting and not now.at_once:
        seconds = int(violated.total_seconds())
        return Reason.NOT_PERSISTENT, f"violated for {seconds}s, spread.for is {format_duration(lasting)}"
    return None


def _backed_off(eviction: Eviction, memory: Memory, now: datetime) -> tuple[Reason, str] | None:
    why = held_back(memory, eviction.group, now)
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

    def refused(self, eviction: Eviction) -> tuple[Reason, str] | None:
        for sent, allowed, name in self._limits(eviction):
            if sent >= allowed:
                return Reason.RATE_LIMITED, f"budgets.{name} allows {allowed}"
        return None

    def take(self, eviction: Eviction) -> None:
        self._add(eviction, 1)

    def give_back(self, evictions: Iterable[Eviction]) -> None:
        for eviction in evictions:
            self._add(eviction, -1)

    def _add(self, eviction: Eviction, number: int) -> None:
        self._cycle += number
        self._lately += number
        self._nodes[eviction.pod.node or ""] += number
        self._namespaces[eviction.pod.namespace] += number
