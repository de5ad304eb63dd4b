"""Guards: the answers of a Prometheus, and whether they let a step begin.

A step may begin when every guard has been good for its `for`, counted from the end of the last step, because the step's
effect shows only then. Only one step goes at a time, so at most one step precedes a bad answer. A run of good answers
begins anew after a bad answer, a missing answer, a minute without queries, or a restart, since nobody knows what
happened in between.

Queries are sent only while evictions wait for them. While evictions wait for nothing else, the next query is due

* at once, if there is no answer since the last step ended;
* after an interval, if an answer is bad or missing;
* else ten seconds later, or when the last `for` ends, whichever is earlier.

All times are monotonic seconds: a clock that is set forward makes no guard good.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from rebalancer.model.facts import End, Refusal
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import Reason
from rebalancer.model.words import format_duration, format_rest, plural
from rebalancer.planning.eviction import Eviction
from rebalancer.policy import Expect, Guard, Guards

ASKED_EVERY: Final = 10.0
"""Seconds between two queries while the answers are good, but not yet for long enough."""

ANSWERS_SERVE: Final = 30.0
"""Seconds for which an answer is valid for a step, counted from its query; a plan may be equally old."""

LONGEST_GAP: Final = 60.0
"""Seconds without a query after which a run of good answers begins anew."""


class Verdict(StrEnum):
    """What an answer says."""

    GOOD = "good"
    BAD = "bad"
    ERROR = "error"
    """There is no usable answer: Prometheus is unreachable, slow, or does not understand the query."""


class Vector(NamedTuple):
    """The result of a query: how many series it has, and the first as text, "" if there is none."""

    series: int
    first: str = ""

    def __str__(self) -> str:
        """Describe the result for people."""
        if not self.series:
            return "nothing"
        return f"{plural(self.series, 'series', 'series')}, first {self.first}"


class GuardAnswer(NamedTuple):
    """What the queries of a guard returned: the verdict, and a sentence about it; `away`: Prometheus did not answer."""

    name: str
    verdict: Verdict
    message: str
    away: bool = False


def judge(guard: Guard, found: Vector, present: Vector | None) -> GuardAnswer:
    """Return the verdict on the results of a guard's query and of its `present` query, None if it has none."""
    returned = f"the query returned {found}"
    if guard.expect is Expect.NOT_EMPTY:
        return GuardAnswer(guard.name, Verdict.GOOD if found.series else Verdict.BAD, returned)
    if found.series:
        return GuardAnswer(guard.name, Verdict.BAD, returned)
    assert present is not None
    verdict = Verdict.GOOD if present.series else Verdict.BAD
    return GuardAnswer(guard.name, verdict, f"{returned}, and present {present}")


@dataclass(frozen=True, kw_only=True, slots=True)
class GuardState:
    """The answers, and since when they have been good; a new process begins with none."""

    of: Guards | None = None
    """The guards that were asked, None before the first question."""
    asked_at: float | None = None
    """When the guards were last asked."""
    answers: tuple[GuardAnswer, ...] = ()
    good_since: Mapping[str, float] = field(default_factory=dict)
    """Since when the last answers have been good, by guard; only guards whose last answer was good."""
    quiet_since: float | None = None
    """Since when no step has been under way, None while one is."""
    wanted: bool = False
    """Whether evictions wait for the answers, or rely on them."""

    @property
    def not_good(self) -> tuple[GuardAnswer, ...]:
        """The answers that are bad or missing."""
        return tuple(answer for answer in self.answers if answer.verdict is not Verdict.GOOD)


NO_ANSWERS: Final = GuardState()


def take_answers(state: GuardState, guards: Guards, answers: Sequence[GuardAnswer], at: float) -> GuardState:
    """Return the state after queries that were begun `at`."""
    goes_on = state.of == guards and state.asked_at is not None and at - state.asked_at <= LONGEST_GAP
    before = state.good_since if goes_on else {}
    good = {answer.name: before.get(answer.name, at) for answer in answers if answer.verdict is Verdict.GOOD}
    return replace(state, of=guards, asked_at=at, answers=tuple(answers), good_since=good)


def next_question(state: GuardState, guards: Guards, interval: timedelta) -> float | None:
    """Return when the guards are to be queried again, None while nothing waits for an answer."""
    if not state.wanted or state.quiet_since is None:
        return None
    if state.of != guards or state.asked_at is None or state.asked_at < state.quiet_since:
        return state.quiet_since
    if state.not_good:
        return state.asked_at + interval.total_seconds()
    ends = max(_begins(state, guard) + guard.for_.total_seconds() for guard in guards.queries)
    later = state.asked_at + ASKED_EVERY
    return min(ends, later) if ends > state.asked_at else later


def calls_for_decision(before: GuardState, after: GuardState) -> bool:
    """Return whether new answers call for a decision: good for long enough, no longer good, or good again."""
    if bool(before.not_good) != bool(after.not_good) or after.of is None or after.asked_at is None:
        return True
    if after.not_good or after.quiet_since is None:
        return False
    asked_at = after.asked_at
    return all(asked_at - _begins(after, guard) >= guard.for_.total_seconds() for guard in after.of.queries)


def _begins(state: GuardState, guard: Guard) -> float:
    """Return the start of the time for which a guard has to be good."""
    assert state.quiet_since is not None
    return max(state.good_since[guard.name], state.quiet_since)


class GuardNotGood(Refusal):
    """The last answer for a guard is bad or missing; `found` says what came back."""

    reason = Reason.AWAITING_GUARDS
    ends = "when guard {self.guard} is good again"
    guard: str
    found: str

    def __str__(self) -> str:
        return f"guard {self.guard} is not good: {self.found}"


class GuardsUnanswered(Refusal):
    """There is no recent answer from the Prometheus of the guards."""

    reason = Reason.AWAITING_GUARDS
    ends = "when Prometheus has answered"

    def __str__(self) -> str:
        return "waiting for Prometheus to answer the queries of guards"


class GuardNotLasting(Refusal):
    """A guard is good, but not yet for as long as its `for` requires."""

    reason = Reason.AWAITING_GUARDS
    guard: str
    good_for: timedelta
    required: timedelta

    def _end(self) -> End:
        return End(after=self.required - self.good_for)

    def __str__(self) -> str:
        return (
            f"guard {self.guard} has been good for {format_duration(self.good_for)} since the last step; its for is "
            f"{format_duration(self.required)}: {format_rest(self.required - self.good_for)} left"
        )

    @property
    def timeless(self) -> str:
        return f"guard {self.guard} has not been good for {format_duration(self.required)} since the last step"


class StepUnderWay(Refusal):
    """Replacements of the last step have not arrived; the guards are queried afterwards."""

    reason = Reason.AWAITING_GUARDS
    ends = "when the evictions under way have ended"

    def __str__(self) -> str:
        return "waiting for the replacements of the last evictions; the guards are queried again after them"


class StepFirst(Refusal):
    """Another step goes first, because the guards are queried after each step."""

    reason = Reason.AWAITING_GUARDS
    ends = "when the evictions that go first have ended"
    workload: Reference

    def __str__(self) -> str:
        return f"evictions of {self.workload} go first; the guards are queried again after them"


class GuardLimit:
    """Admits one step if the guards allow it; without guards it refuses nothing.

    `state` becomes the state after this cycle, which begins `at`. `is_quiet`: no step is under way. Replacements of the
    groups `unplaced` do not count, because no node admits them before their next step.
    """

    def __init__(
        self, guards: Guards, state: GuardState, at: float, *, is_quiet: bool, unplaced: frozenset[str] = frozenset()
    ) -> None:
        self._guards, self._unplaced = guards, unplaced
        since = state.quiet_since if state.quiet_since is not None else at
        self.state = replace(state, quiet_since=since if is_quiet else None, wanted=False)
        self._at = at
        self._first: Eviction | None = None

    def take(self, step: Sequence[Eviction]) -> Refusal | None:
        """Let a step go that nothing else holds back, or return why it has to wait."""
        if not self._guards.queries:
            return None
        self.state = replace(self.state, wanted=True)
        if self._first is not None:
            return StepFirst(self._first.workload)
        refusal = self._find_obstacle(step[0].group)
        if refusal is None:
            self._first = step[0]
        return refusal

    def _find_obstacle(self, group: str) -> Refusal | None:
        state = self.state
        asked_at = state.asked_at if state.of == self._guards else None
        if asked_at is not None and state.not_good:
            return GuardNotGood(state.not_good[0].name, state.not_good[0].message)
        if state.quiet_since is None or self._unplaced - {group}:
            return StepUnderWay()
        if asked_at is None or asked_at < state.quiet_since or self._at - asked_at > ANSWERS_SERVE:
            return GuardsUnanswered()
        for guard in self._guards.queries:
            good_for = timedelta(seconds=asked_at - _begins(state, guard))
            if good_for < guard.for_:
                return GuardNotLasting(guard.name, good_for, guard.for_)
        return None
