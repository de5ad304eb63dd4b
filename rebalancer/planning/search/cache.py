"""Cached results about states, which a plan needs many times because workloads of one shape share them.

A plan makes one cache and passes it down, so that planning stays a pure function: concurrent plans share nothing, and
nothing outlives a plan except the outcomes of hard integer programs (`multi_class.outcomes`), which change no plan.
"""

from collections.abc import Hashable
from copy import copy
from typing import Any, Generic, Self, TypeVar

from rebalancer.planning.search.limits import SearchLimits

_LARGEST = 1 << 16
"""Up to this many answers of one kind are stored. Beyond that all are dropped: large searches seldom revisit states."""

Answer = TypeVar("Answer")


class Answers(Generic[Answer]):
    """Stored answers of one kind. `known` is for reading in inner loops; `store` bounds it."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[Hashable, Answer] = {}

    def store(self, key: Hashable, answer: Answer) -> Answer:
        """Store an answer and return it."""
        if len(self.known) >= _LARGEST:
            self.known.clear()
        self.known[key] = answer
        return answer


class SearchCache:
    """The answers of one plan, found within `limits`. Each attribute is named after what it answers."""

    def __init__(self, limits: SearchLimits | None = None) -> None:
        """Start empty; `limits` are by default the usual ones."""
        self.limits = limits or SearchLimits()
        self.trees = Answers[Any]()
        self.pod_counts = Answers[int]()
        self.count_ranges = Answers[tuple[int, int]]()
        self.summaries = Answers[tuple[int, int, int, int] | None]()
        self.minimum_repairs = Answers[Any]()
        self.sums_of_minima = Answers[int]()
        self.certificates = Answers[Any]()
        self.steps = Answers[Any]()
        self.unreachable = Answers[bool]()
        self.unobstructed = Answers[Any]()
        self.successors = Answers[Any]()
        self.states = Answers[Any]()
        self._numbers: dict[Hashable, int] = {}
        self.contingent_steps: dict[Hashable, Any] = {}
        """These answers are never dropped, because computing them again would spend the plan's budget again."""

    def within(self, limits: SearchLimits) -> Self:
        """Return a cache that shares the answers, for searches within other limits."""
        other = copy(self)
        other.limits = limits
        return other

    def number(self, bounds: Hashable) -> int:
        """Return a number that stands for the bounds in the keys of answers."""
        return self._numbers.setdefault(bounds, len(self._numbers))
