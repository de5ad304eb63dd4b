"""What a scale-down of one controller may delete, and the requirements on the remaining pods.

The pods of one ReplicaSet are numbers from 0 on; every other pod that counts is fixed. A rule is a hard constraint or a
limit of the policy, on one topology key. This module does not use Kubernetes objects, so that every small case can be
tried.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from msgspec import Struct

from rebalancer.planning.scope.bounds import Bound

UNCOUNTED = -1
"""The domain of a pod that a rule does not count."""


class Rule(Struct, frozen=True, kw_only=True, gc=False):
    """One requirement on one topology key."""

    topology_key: str
    domains: tuple[int, ...]
    """For each pod, the index of its domain in `fixed`."""
    fixed: tuple[int, ...]
    """The number of other pods in each domain."""
    lowest: int | None = None
    """The least count among the domains without pods of the group; None if there are no such domains."""
    highest: int | None = None
    """The greatest count among the domains without pods of the group; None if there are no such domains."""
    bounds: tuple[Bound | None, ...]
    """The requirement for each number k of remaining pods; None if there is none."""

    def count(self, pods: Iterable[int]) -> list[int]:
        """Return the count of each domain if only these pods of the group remain."""
        held = list(self.fixed)
        for pod in pods:
            domain = self.domains[pod]
            if domain != UNCOUNTED:
                held[domain] += 1
        return held

    def excess(self, remaining: int, low: int | None, high: int | None) -> int:
        """Return by how many pods it is exceeded where domains with pods of the group hold from `low` to `high`."""
        bound = self.bounds[remaining]
        if bound is None:
            return 0
        lows = [count for count in (low, self.lowest) if count is not None]
        highs = [count for count in (high, self.highest) if count is not None]
        return bound.excess(min(lows), max(highs)) if lows else 0


class ScaleDown(Struct, frozen=True, kw_only=True, dict=True):
    """The Ready pods of one controller, by number, and the rules, the largest domains first.

    `avoided` are the pods that are to stay longest.
    """

    size: int
    rules: tuple[Rule, ...]
    avoided: frozenset[int] = frozenset()

    @cached_property
    def kinds(self) -> tuple[int, ...]:
        """The kind of each pod: pods of one kind are in the same domains for every rule, so any of them will do."""
        known: dict[tuple[int, ...], int] = {}
        return tuple(
            known.setdefault(tuple(rule.domains[pod] for rule in self.rules), len(known)) for pod in range(self.size)
        )

    @cached_property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """The domain of each kind, by rule."""
        places: dict[int, tuple[int, ...]] = {}
        for pod, kind in enumerate(self.kinds):
            places.setdefault(kind, tuple(rule.domains[pod] for rule in self.rules))
        return tuple(places[kind] for kind in range(len(places)))

    def excess_of(self, pods: Sequence[int]) -> int:
        """Return by how many pods the rules are exceeded if exactly these pods remain."""
        total = 0
        for rule in self.rules:
            held = rule.count(pods)
            total += rule.excess(len(pods), min(held, default=None), max(held, default=None))
        return total


class ScaleDownTally:
    """The counts of one rule while single pods come or go; the least and the greatest count are always known."""

    __slots__ = ("_numbers", "held", "high", "low", "rule")

    def __init__(self, rule: Rule, pods: Iterable[int]) -> None:
        self.rule = rule
        self.held = rule.count(pods)
        self._numbers = Counter(self.held)
        self.low = min(self.held, default=None)
        self.high = max(self.held, default=None)

    def remove(self, domain: int) -> None:
        """Delete a pod of a domain."""
        if domain == UNCOUNTED:
            return
        before = self.held[domain]
        self.held[domain] = before - 1
        self._numbers[before] -= 1
        self._numbers[before - 1] += 1
        assert self.low is not None
        assert self.high is not None
        self.low = min(self.low, before - 1)
        if before == self.high and not self._numbers[before]:
            self.high = before - 1

    def add(self, domain: int) -> None:
        """Add a pod to a domain."""
        if domain == UNCOUNTED:
            return
        before = self.held[domain]
        self.held[domain] = before + 1
        self._numbers[before] -= 1
        self._numbers[before + 1] += 1
        assert self.low is not None
        assert self.high is not None
        self.high = max(self.high, before + 1)
        if before == self.low and not self._numbers[before]:
            self.low = before + 1

    def excess(self, remaining: int) -> int:
        """Return by how many pods the rule is exceeded now, with `remaining` pods of the group."""
        return self.rule.excess(remaining, self.low, self.high)

    def excess_with(self, domain: int, remaining: int) -> int:
        """Return by how many pods the rule would be exceeded with one more pod in a domain."""
        if domain == UNCOUNTED:
            return self.rule.excess(remaining, self.low, self.high)
        assert self.low is not None
        assert self.high is not None
        before = self.held[domain]
        low = before + 1 if before == self.low and self._numbers[before] == 1 else self.low
        return self.rule.excess(remaining, low, max(self.high, before + 1))

    def excess_without(self, domain: int, remaining: int) -> int:
        """Return by how many pods the rule would be exceeded with one pod fewer in a domain."""
        if domain == UNCOUNTED:
            return self.rule.excess(remaining, self.low, self.high)
        assert self.low is not None
        assert self.high is not None
        before = self.held[domain]
        high = before - 1 if before == self.high and self._numbers[before] == 1 else self.high
        return self.rule.excess(remaining, min(self.low, before - 1), high)
