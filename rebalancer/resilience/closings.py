"""How many of its own pods a service needs to close a domain of one of its rules, for any pods of others.

A service may be blocked with fewer pods placed than it lacks. Then each node for them lacks a resource, or one of its
rules closes it. Closing a domain of a spread constraint takes enough pods to bring its count maxSkew above the least
count; anti-affinity and host ports take one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rebalancer.resilience.competition import Competition
from rebalancer.resilience.rules import Rule


class Closing(NamedTuple):
    """How many pods close a domain of a key: the domains that differ, and all others; None where no number does."""

    key: str
    costs: Mapping[str, int]
    others: int | None

    @property
    def cheapest(self) -> int | None:
        """The fewest pods that close any open domain; None if no number of pods does."""
        costs = [cost for cost in self.costs.values() if cost]
        if self.others is not None:
            costs.append(self.others)
        return min(costs, default=None)


def count_closing(rule: Rule, value: str, least: int) -> int:
    """Return how many pods close a domain at this least count; the rule counts the service's own pods."""
    return max(0, least + rule.max_skew - rule.filled.get(value, 0))


def find_closings(number: int, competition: Competition, enumerated: Rule | None) -> Sequence[Closing]:
    """Return what closes domains of a service, by all its rules except one.

    Its rules count only its own replacements.
    """
    found: dict[str, Closing] = {}
    for closing in _find_closings(number, competition, enumerated):
        known = found.get(closing.key)
        found[closing.key] = closing if known is None else _join(known, closing)
    return [*found.values()]


def _join(one: Closing, other: Closing) -> Closing:
    """Return what closes a domain of a key if either of two rules closes it."""
    usual = min([many for many in (one.others, other.others) if many is not None], default=None)
    costs: dict[str, int] = {}
    for value in (*one.costs, *other.costs):
        each = one.costs.get(value, one.others), other.costs.get(value, other.others)
        costs[value] = min(many for many in each if many is not None)
    return Closing(one.key, costs, usual)


def _find_closings(number: int, competition: Competition, enumerated: Rule | None) -> Iterator[Closing]:
    for rule in competition.rules[number]:
        if rule is enumerated:
            continue
        if rule.itself:
            full = rule.least + rule.max_skew
            yield Closing(rule.key, {value: max(0, full - many) for value, many in rule.filled.items()}, full)
        else:
            closed = {value: 0 for value, many in rule.filled.items() if many > rule.max_skew + rule.least}
            yield Closing(rule.key, closed, None)
    for exclusion in competition.exclusions[number]:
        yield Closing(exclusion.key, dict.fromkeys(exclusion.closed, 0), 1 if exclusion.itself else None)
