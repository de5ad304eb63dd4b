"""What a search reports: which method found a step for a component, and why other methods did not.

The idea is resolvelib's: a search calls a reporter at each candidate instead of logging, and the result is a value that
reporting puts into words.
"""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from rebalancer.planning.search.driver import Flaw


class Method(StrEnum):
    """How a step was found. The Plan document shows these values."""

    CERTIFICATE = "certificate"
    """Arithmetic on the counts shows that any minimal set of victims is a step (`single_class.certificate`)."""
    CONTINGENT = "contingent"
    """The whole repair is forced if each eviction is chosen after the last placement (`steps.contingent`)."""
    FORCED = "forced"
    """The step is safe by itself in every interleaving (`steps.forced`)."""
    LOOKAHEAD = "lookahead"
    """The search followed the scheduler's choices on the real nodes (`steps.lookahead`)."""
    PARTIAL = "partial"
    """A step of a partial repair, found by FORCED or LOOKAHEAD."""
    ADDITION = "addition"
    """A step that adds pods before it takes others away (`steps.additions`)."""
    PREEMPTION = "preemption"
    """A step whose replacement preempts pods of lower priority (`by_preemption`)."""


class Attempt(Struct, frozen=True, kw_only=True):
    """One method that was tried: how many candidates it rejected for each flaw, and whether it reached its limit.

    `answered`: the method gave the step.
    """

    method: Method
    answered: bool = False
    rejected: tuple[tuple[Flaw, int], ...] = ()
    limit_reached: bool = False


def merge_attempts(attempts: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """Return one attempt for each method, in the order of first use, since a method may be tried for several goals."""
    merged: dict[Method, Attempt] = {}
    for attempt in attempts:
        before = merged.get(attempt.method)
        merged[attempt.method] = attempt if before is None else _merge(before, attempt)
    return tuple(merged.values())


def _merge(one: Attempt, other: Attempt) -> Attempt:
    return Attempt(
        method=one.method,
        answered=one.answered or other.answered,
        rejected=tuple(sorted((Counter(dict(one.rejected)) + Counter(dict(other.rejected))).items())),
        limit_reached=one.limit_reached or other.limit_reached,
    )


class Tally:
    """A reporter that counts."""

    def __init__(self) -> None:
        self._answered = False
        self._limit_reached = False
        self._rejected: Counter[Flaw] = Counter()

    def taken(self) -> None:
        """Record that a candidate is good."""
        self._answered = True

    def rejected(self, flaw: Flaw) -> None:
        """Count a candidate with this flaw."""
        self._rejected[flaw] += 1

    def limit_reached(self) -> None:
        """Record that the search was not complete."""
        self._limit_reached = True

    def attempt(self, method: Method, *, answered: bool | None = None) -> Attempt:
        """Return the counts as an attempt; pass `answered` if a good candidate alone does not decide it."""
        return Attempt(
            method=method,
            answered=self._answered if answered is None else answered,
            rejected=tuple(sorted(self._rejected.items())),
            limit_reached=self._limit_reached,
        )
