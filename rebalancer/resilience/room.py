"""Bounds without a program: what must be full before a service is blocked, against what its competitors can fill.

A service that is blocked with x pods placed is blocked on each of its nodes. Its rules close some of them, which takes
pods of its own. Each other node lacks a resource: the service's x pods and its competitors' pods fill it. If all these
pods request less than that, x is not the fewest, but more.

A constraint on few domains is enumerated by the domain with the least count, which it never closes, and by which other
domains it closes. Example: 10 pods lost of 30 in three zones, and neither of the other zones is full even if all lost
pods went there. In the zone with the least count nothing blocks a node, so that all 10 are placed.

All is sound for any state; a program decides what it leaves open. Cost: kinds of services by nodes, and for each
service its own pods and domains.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, combinations
from math import ceil
from typing import Final

from rebalancer.resilience.closings import Closing, count_closing, find_closings
from rebalancer.resilience.competition import Competition
from rebalancer.resilience.kinds import Kind, Region
from rebalancer.resilience.rules import Rule
from rebalancer.resilience.takers import Takers

_CLOSE: Final = 1e-6

_COMBINED: Final = 4
"""If a constraint has at most this many domains, the closed domains are enumerated, too."""


def find_least(number: int, competition: Competition, takers: Takers) -> int:
    """Return the fewest pods of a service that are placed, if its rules count only its own replacements."""
    blocked = _Blocked(number, competition, takers)
    rule = blocked.rule
    if rule is None:
        return blocked.find_fewest(None)
    if rule.floored:
        return blocked.enumerate_closed(rule)
    return blocked.enumerate_least(rule)


def _choose_rule(number: int, competition: Competition, takers: Takers) -> Rule | None:
    """Return the constraint to enumerate: of those with few domains, the first with the fewest domains.

    The domains of all other rules lie within its domains, so pods in one domain close none of the others.
    """
    most, rules = takers.sizes.domains, competition.rules[number]
    few = [
        rule for rule in rules if rule.itself and 0 < len(rule.base) <= (min(most, _COMBINED) if rule.floored else most)
    ]
    keys = {rule.key for rule in rules} | {one.key for one in competition.exclusions[number]}
    few = [rule for rule in few if all(takers.nodes.are_within(key, rule.key) for key in keys)]
    return min(few, key=lambda rule: len(rule.base), default=None)


class _Blocked:
    """Finds the fewest pods with which a service is blocked on all of its nodes in a region."""

    def __init__(self, number: int, competition: Competition, takers: Takers) -> None:
        self._number, self._takers = number, takers
        self._pending = competition.services[number].pending
        self._kind: Kind = takers.kind(number)
        self.rule: Final = _choose_rule(number, competition, takers)
        self._closings: Sequence[Closing] = find_closings(number, competition, self.rule)

    def find_fewest(self, region: Region) -> int:
        """Return the fewest pods with which a service is blocked in a region; if it never is, all pending pods."""
        fewest = 0
        for way in self._takers.find_ways(self._number):
            if fewest < self._pending:
                fewest = max(fewest, self._find_fewest(region, way))
        return min(fewest, self._pending)

    def _find_fewest(self, region: Region, way: int) -> int:
        all_, paid = self._kind.total(way, region), self._takers.pay(self._number, way, region)
        left = all_ - paid - _CLOSE * (1 + all_ + paid)
        steps: list[tuple[int, Sequence[float]]] = []
        for closing in self._closings if left > 0 else ():
            worth, dearest = self._kind.by_domain(way, region, closing.key)
            left -= sum(worth.get(value, 0) for value, cost in closing.costs.items() if not cost)
            cheapest = closing.cheapest
            if cheapest is not None:
                steps.append((cheapest, dearest))
        if left <= 0:
            return 0
        if not steps:
            return min(self._pending, ceil(left))
        few, many = 0, self._pending  # it is not blocked with `few`; most are not blocked at all
        tried = many - 1
        while many - few > 1:
            closed = sum([dearest[min(tried // cost, len(dearest) - 1)] for cost, dearest in steps])
            few, many = (tried, many) if left > tried + closed else (few, tried)
            tried = (few + many) // 2
        return many

    def enumerate_closed(self, rule: Rule) -> int:
        """Return the fewest pods over all choices of closed domains, for a constraint whose least count is 0."""
        reached = self._find_reached(rule)
        fewest = self._pending
        for open_ in _subsets(reached):
            closed = sum(count_closing(rule, value, 0) for value in reached if value not in open_)
            if closed < fewest:
                fewest = min(fewest, closed + self._find_open(rule, open_))
        return fewest

    def enumerate_least(self, rule: Rule) -> int:
        """Return the fewest pods over all choices of the domain with the least count in the end."""
        reached = self._find_reached(rule)
        return min(self._with_least(rule, value, reached) for value in rule.base)

    def _with_least(self, rule: Rule, least: str, reached: Sequence[str]) -> int:
        """Return the fewest pods if one domain has the least count in the end: it is open, and none has fewer."""
        here = self._find_open(rule, (least,)) if least in reached else 0
        count = rule.filled.get(least, 0) + here
        more = {value: max(0, count - rule.filled.get(value, 0)) for value in rule.base}
        if here >= self._pending or any(many and value not in reached for value, many in more.items()):
            return self._pending
        others = [value for value in reached if value != least]
        fewest = self._pending
        for open_ in _subsets(others) if len(rule.base) <= _COMBINED else ():
            closed = sum(count_closing(rule, value, count) for value in others if value not in open_)
            if closed + here < fewest:
                apart = here + sum(more[value] for value in open_)
                fewest = min(fewest, closed + max(apart, self._find_open(rule, (*open_, least))))
        return fewest if len(rule.base) <= _COMBINED else min(fewest, sum(more.values()))

    def _find_open(self, rule: Rule, open_: Iterable[str]) -> int:
        values = frozenset(open_)
        return self.find_fewest((rule.key, values)) if values else 0

    def _find_reached(self, rule: Rule) -> Sequence[str]:
        """Return the constraint's domains that contain nodes for the service."""
        named, _ = self._kind.fit_by(rule.key)
        return [value for value in named if self._kind.reaches(rule.key, value)]


def _subsets(values: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return chain.from_iterable(combinations(values, many) for many in range(len(values) + 1))
