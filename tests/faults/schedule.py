"""Which requests go wrong, how, and when: drawn from a seed, printable in one line.

A schedule is data. The proxy (`proxy.py`) carries it out for one controller, and `scenario.py` does what is not about
requests: a pause, pods of other causes that become unready, a second controller.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tests.faults.requests import WRITES, Target

LEASE_SECONDS: Final = 6
"""How long the Lease of the controllers is valid."""


class Fault(StrEnum):
    """What happens to a request, or to the events of a watch."""

    TIMEOUT = "timeout"
    """Nothing is forwarded and nothing answered: a half-open connection."""
    RESET = "reset"
    """Nothing is forwarded, the connection is reset."""
    UNAUTHORIZED = "401"
    FORBIDDEN = "403"
    MISSING = "404"
    CONFLICT = "409"
    GONE = "410"
    INVALID = "422"
    TOO_MANY_REQUESTS = "429"
    """With a Status and a delay: priority and fairness."""
    WEBHOOK = "429-webhook"
    """With a Status and no delay: an admission webhook that denies with this code."""
    PLAIN_RETRY_AFTER = "429-plain-retry-after"
    """Plain text with the header Retry-After: a proxy, a load balancer."""
    PLAIN = "429-plain"
    """Plain text without it."""
    ERROR = "500"
    UNAVAILABLE = "503"
    TRUNCATED = "truncated"
    """Forwarded; the answer is half a document that pretends to be whole."""
    CUT = "cut"
    """Forwarded; the connection ends in the middle of the answer."""
    SLOW = "slow"
    """Forwarded; the answer comes in drops."""
    LOST = "answer-lost"
    """Forwarded; the connection is reset instead of the answer."""
    UNANSWERED = "unanswered"
    """Forwarded; the answer never comes."""
    OLD = "old-answer"
    """A read is answered with what was true before: resourceVersions go back."""
    SILENT = "half-open"
    """A watch delivers nothing any more while its connection lives."""
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    DROPPED = "dropped"
    REWOUND = "rewound"
    """Events that were delivered before come again, older ones after newer ones."""


STATUS_CODES: Final = (
    Fault.UNAUTHORIZED,
    Fault.FORBIDDEN,
    Fault.MISSING,
    Fault.CONFLICT,
    Fault.GONE,
    Fault.INVALID,
    Fault.TOO_MANY_REQUESTS,
    Fault.WEBHOOK,
    Fault.PLAIN_RETRY_AFTER,
    Fault.PLAIN,
    Fault.ERROR,
    Fault.UNAVAILABLE,
)
EVENT_FAULTS: Final = (Fault.SILENT, Fault.DUPLICATED, Fault.REORDERED, Fault.DROPPED, Fault.REWOUND)
"""Faults of a watch that has begun, not of the request for it."""
DAMAGING: Final = frozenset({Fault.REORDERED, Fault.DROPPED, Fault.REWOUND, Fault.TRUNCATED})
"""After these the events of a watch are not what happened: only a new list repairs the client's view."""

_COMMON: Final = (Fault.TIMEOUT, Fault.RESET, *STATUS_CODES, Fault.CUT, Fault.TRUNCATED, Fault.SLOW)
POSSIBLE: Final = {
    "watch": (*_COMMON, *EVENT_FAULTS, *EVENT_FAULTS),
    "list": (*_COMMON, Fault.OLD, Fault.OLD),
    "get": (*_COMMON, Fault.OLD, Fault.OLD),
    "write": (*_COMMON, Fault.LOST, Fault.LOST, Fault.UNANSWERED, Fault.UNANSWERED),
    "any": (Fault.TIMEOUT, Fault.RESET, Fault.TOO_MANY_REQUESTS, Fault.PLAIN, Fault.ERROR, Fault.UNAVAILABLE),
}
"""What can happen to requests of each verb; what stands twice is drawn more often."""

TARGETS: Final = (
    ("create", "pods/eviction", 8),
    ("watch", "pods", 5),
    ("list", "pods", 2),
    ("watch", "poddisruptionbudgets", 2),
    ("watch", "nodes", 2),
    ("watch", "replicasets", 2),
    ("watch", "deployments", 1),
    ("watch", "configmaps", 3),
    ("list", "configmaps", 1),
    ("get", "leases", 3),
    ("patch", "leases", 3),
    ("create", "leases", 1),
    ("get", "configmaps", 1),
    ("patch", "configmaps", 4),
    ("create", "configmaps", 1),
    ("create", "events", 1),
    ("watch", "*", 1),
    ("list", "*", 1),
    ("*", "*", 2),
)
"""Verb, resource, and how often they are drawn: most often what decides about evictions."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A fault for some of the requests to a resource, counted from the beginning of the faults."""

    verb: str
    """`*` for all."""
    resource: str
    fault: Fault
    first: int = 1
    """The first request that it is for."""
    count: int = 1
    """How many requests in a row."""
    probability: float = 0.0
    """Instead of `first` and `count`: how likely for each request. For event faults, how likely for each event."""
    process: int | None = None
    """Only for this one of several controllers."""
    name: str = ""
    """Only for objects whose names begin so."""

    def covers(self, target: Target) -> bool:
        """Whether a request is of this verb and resource, and for such an object."""
        named = target.name.startswith(self.name)
        return self.verb in {"*", target.verb} and self.resource in {"*", target.resource} and named

    def __str__(self) -> str:
        """Show it in a few words: `create pods/eviction #2-3 answer-lost`."""
        last = self.first + self.count - 1
        times = f"p={self.probability:g}" if self.probability else f"#{self.first}" + (f"-{last}" * (self.count > 1))
        who = "" if self.process is None else f" of controller {self.process}"
        what = f"{self.resource}{f' {self.name}…' * bool(self.name)}"
        return f"{self.verb} {what}{who} {times} {self.fault}"


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The clocks of a controller."""

    rate: float = 1.0
    """How fast its monotonic clock runs."""
    ahead: float = 0.0
    """The error of its time in seconds."""


@dataclass(frozen=True, kw_only=True)
class Stop:
    """A process that is stopped for a while by SIGSTOP, as one that gets no processor."""

    process: int
    at: float
    """Seconds from the beginning of the faults."""
    seconds: float


class Start(StrEnum):
    """When the faults begin."""

    PROCESS = "with the process"
    LEADING = "when it leads"
    EVICTION = "with its first eviction"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Everything that goes wrong in one run, and the workload that it happens to."""

    seed: int
    rules: tuple[Rule, ...]
    start: Start = Start.LEADING
    seconds: float = 4.0
    """How long the faults last; then the proxy passes everything."""
    max_unavailable: int = 1
    pause_at: float | None = None
    """Seconds from the beginning of the faults until the controller is paused. It is resumed after they have ended."""
    touched: bool = False
    """Whether the object of the pause exists already and changes, without a pause in it, right before."""
    unready_at: float | None = None
    """Seconds from the beginning of the faults until a pod becomes unready by itself. It recovers after their end."""
    controllers: int = 1
    clocks: tuple[Clock, ...] = ()
    """Of the controllers in turn; right ones where there are fewer."""
    stops: tuple[Stop, ...] = ()
    kill_after: int = 0
    """The controller is killed when the server has carried out so many of its writes; 0 is never."""

    @property
    def patience(self) -> float:
        """How many seconds after the faults the repair may take.

        After a refusal that a retry would not change, a workload is left alone for five minutes. An eviction that never
        arrived may still do so for two, and so may one that a process stored as planned and could not send any more.
        """
        eviction = Target(verb="create", resource="pods/eviction")
        if any(rule.covers(eviction) and rule.fault in _AWAITED for rule in self.rules):
            return 480.0
        renewals = [Target(verb=verb, resource="leases") for verb in ("get", "patch")]
        deposed = any(rule.covers(renewal) for rule in self.rules for renewal in renewals)
        if any(rule.covers(eviction) and rule.fault in _REPEATED for rule in self.rules):
            return 200.0
        deposed |= self.controllers > 1 or bool(self.kill_after or self.stops)
        return 180.0 if deposed else 45.0

    def __str__(self) -> str:
        """Show all of it in one line."""
        extras = [f"maxUnavailable {self.max_unavailable}", f"{self.seconds:g} s {self.start}"]
        if self.controllers > 1:
            extras.append(f"{self.controllers} controllers")
        if self.kill_after:
            extras.append(f"killed after write {self.kill_after}")
        extras += [
            f"clock of controller {number} {clock.rate:g} times as fast, {clock.ahead:+g} s"
            for number, clock in enumerate(self.clocks)
            if clock != Clock()
        ]
        extras += [f"controller {one.process} stopped at {one.at:g} s for {one.seconds:g} s" for one in self.stops]
        if self.pause_at is not None:
            extras.append(f"pause at {self.pause_at:g} s{' after a change' * self.touched}")
        if self.unready_at is not None:
            extras.append(f"a pod unready at {self.unready_at:g} s")
        return f"seed {self.seed}: {', '.join(extras)}; {'; '.join(map(str, self.rules)) or 'no faults'}"


_AWAITED: Final = frozenset(
    {
        Fault.TIMEOUT,
        Fault.RESET,
        Fault.UNAUTHORIZED,
        Fault.FORBIDDEN,
        Fault.GONE,
        Fault.INVALID,
        Fault.WEBHOOK,
        Fault.MISSING,
        Fault.ERROR,
        Fault.UNAVAILABLE,
    }
)
"""Faults of an eviction after which the controller rightly waits for minutes."""
_REPEATED: Final = frozenset({Fault.TOO_MANY_REQUESTS, Fault.PLAIN, Fault.PLAIN_RETRY_AFTER, Fault.CONFLICT})
"""Faults after which it waits for ten seconds, and twice as long after each further one in a row."""


def draw(seed: int) -> Schedule:
    """Draw a schedule: the same one for the same seed, on every machine."""
    dice = random.Random(f"schedule {seed}")
    controllers = 2 if dice.random() < 0.2 else 1
    pause_at = dice.randrange(150) / 100 if dice.random() < 0.25 else None
    unready_at = dice.randrange(100) / 100 if dice.random() < 0.25 else None
    rules = [_draw_rule(dice, controllers) for _ in range(dice.choice((1, 1, 2, 2, 3, 4)))]
    # What happens besides matters most where the controller learns of it late, and has still something to evict.
    if pause_at is not None and dice.random() < 0.6:
        rules.append(_delay(dice, "configmaps"))
    if unready_at is not None and dice.random() < 0.6:
        refusals = Rule(
            verb="create", resource="pods/eviction", fault=Fault.TOO_MANY_REQUESTS, count=dice.randint(2, 4)
        )
        rules += [_delay(dice, "pods"), refusals]
    if controllers > 1:
        rules.append(_depose(dice))
        if dice.random() < 0.4:
            rules.append(Rule(verb="watch", resource="pods", fault=Fault.SILENT, process=1))
    start = dice.choice((Start.PROCESS, Start.LEADING, Start.LEADING, Start.EVICTION, Start.EVICTION))
    seconds = dice.randint(20, 60) / 10 + 1.5 * LEASE_SECONDS * (controllers > 1)
    max_unavailable = dice.choice((1, 2, 3))
    touched = dice.random() < 0.5
    stops: tuple[Stop, ...] = ()
    if controllers > 1 and dice.random() < 0.4:
        stops = (Stop(process=0, at=dice.randrange(100) / 100, seconds=dice.choice((2.0, 1.5 * LEASE_SECONDS))),)
    return Schedule(
        seed=seed,
        rules=tuple(rules),
        start=start,
        seconds=seconds,
        max_unavailable=max_unavailable,
        clocks=tuple(_draw_clock(dice) for _ in range(controllers)),
        stops=stops,
        pause_at=pause_at,
        touched=touched,
        unready_at=unready_at,
        controllers=controllers,
    )


def _draw_clock(dice: random.Random) -> Clock:
    if dice.random() < 0.7:
        return Clock()
    return Clock(rate=dice.choice((1.0, 1.4)), ahead=dice.choice((0.0, 1.0, -1.0, 60.0, -60.0)))


def kill_after(writes: int) -> Schedule:
    """Return the schedule without faults in which the controller is killed after so many writes."""
    return Schedule(seed=0, rules=(), start=Start.PROCESS, seconds=90.0, kill_after=writes)


def draw_quick(number: int, *, first: int = 1) -> Sequence[int]:
    """Return the first seeds from `first` on after whose faults the controller may go on at once."""
    seeds: list[int] = []
    seed = first
    while len(seeds) < number:
        if draw(seed).patience < 100:
            seeds.append(seed)
        seed += 1
    return seeds


def _draw_rule(dice: random.Random, controllers: int) -> Rule:
    verb, resource, _ = dice.choices(TARGETS, weights=[weight for *_, weight in TARGETS])[0]
    kind = "any" if verb == "*" else "write" if verb in WRITES else verb
    fault = dice.choice(POSSIBLE[kind])
    process = dice.randrange(controllers) if controllers > 1 and dice.random() < 0.5 else None
    if fault in EVENT_FAULTS and fault is not Fault.SILENT:
        probability = dice.choice((0.2, 0.5, 1.0)) if fault is not Fault.DROPPED else dice.choice((0.1, 0.3, 0.6))
        return Rule(verb=verb, resource=resource, fault=fault, probability=probability, process=process)
    if dice.random() < 0.4:
        probability = dice.choice((0.2, 0.5, 1.0))
        return Rule(verb=verb, resource=resource, fault=fault, probability=probability, process=process)
    first = 1 if verb in {"watch", "list"} else dice.randint(1, 4)
    return Rule(
        verb=verb, resource=resource, fault=fault, first=first, count=dice.choice((1, 1, 2, 3)), process=process
    )


def _delay(dice: random.Random, resource: str) -> Rule:
    """Return a rule that makes a watch late, or the request that its events have to overtake."""
    if dice.random() < 0.4:
        return Rule(verb="create", resource="pods/eviction", fault=Fault.SLOW, probability=1.0)
    return Rule(verb="watch", resource=resource, fault=dice.choice((Fault.SILENT, Fault.SILENT, Fault.SLOW)))


def _depose(dice: random.Random) -> Rule:
    """Return a rule that makes the first controller lose its lease to the second."""
    verb = dice.choice(("get", "patch"))
    fault = dice.choice((Fault.TIMEOUT, Fault.RESET, Fault.UNAVAILABLE, Fault.CONFLICT, Fault.UNANSWERED))
    if verb == "get" and fault is Fault.UNANSWERED:
        fault = Fault.TIMEOUT
    return Rule(verb=verb, resource="leases", fault=fault, probability=1.0, process=0)
