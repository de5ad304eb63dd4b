"""What it costs a service in pods of its own to close a domain of a rule of its own: sums, whatever others do.

Where a service is blocked with fewer pods placed than it lacks, each node for them lacks a resource, or one of its
rules closes it. To close a domain that a constraint spreads over takes so many pods that its count is maxSkew above
the least one; anti-affinity and host ports take one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rebalancer.resilience.competition import Competition
from rebalancer.resilience.rules import Rule


class Closing(NamedTuple):
    """How many pods close a domain of a key: those that differ, and all others, None where none can."""

    key: str
    costs: Mapping[str, int]
    others: int | None

    @property
    def cheapest(self) -> int | None:
        """The fewest pods that close a domain that is open, None where none can."""
        costs = [cost for cost in self.costs.values() if cost]
        if self.others is not None:
            costs.append(self.others)
        return min(costs, default=None)


def count_closing(rule: Rule, value: str, least: int) -> int:
    """Return how many pods close a domain when this is the least count. The rule counts the service's own pods."""
    return max(0, least + rule.max_skew - rule.filled.get(value, 0))


def find_closings(number: int, competition: Competition, enumerated: Rule | None) -> Sequence[Closing]:
    """Return what closes domains of a service's rules, but for one. Its rules count its own replacements alone."""
    found: dict[str, Closing] = {}
    for closing in _find_closings(number, competition, enumerated):
        known = found.get(closing.key)
        found[closing.key] = closing if known is None else _join(known, closing)
    return [*found.values()]


def _join(one: Closing, other: Closing) -> Closing:
    """Return what closes a domain of a key by either of two rules."""
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
