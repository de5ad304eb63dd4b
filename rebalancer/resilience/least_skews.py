"""The least maxSkew at which the counts alone do not rule out a whole service: where the search for maxSkew begins.

Example: 4, 4 and 4 pods, the third zone is silent. In the end it holds none, so that with maxSkew 4 neither of the
other zones admits another pod. These sums do not rule out 5, which is tried first; 6 is the first that holds.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from msgspec import structs

from rebalancer.model.moves import Reference
from rebalancer.resilience.changed import ChangedConstraint
from rebalancer.resilience.loss import Loss
from rebalancer.resilience.most import find_most
from rebalancer.resilience.rules import Rule, find_rules

_DOMAINS: Final = 8
"""If a key has more domains, the search begins with the current maxSkew."""


def find_least_skew(constraint: ChangedConstraint, current: int, losses: Iterable[Loss], workload: Reference) -> int:
    """Return the smallest maxSkew, at least `current`, at which the counts do not rule out that a workload is whole."""
    least = current
    for loss in losses:
        services = [number for number, one in enumerate(loss.services) if one.workload == workload]
        if len(services) == 1 and loss.services[services[0]].pending:
            least = _find_for(constraint, least, loss, services[0])
    return least


def _find_for(constraint: ChangedConstraint, least: int, loss: Loss, number: int) -> int:
    service = loss.services[number]
    needed = service.wanted - service.bound
    alone = replace(loss, services=(service,))
    rules = [rule for rule in find_rules(service, alone) if rule.key == constraint.key]
    if len(rules) != 1 or len(rules[0].base) > _DOMAINS or not _counts_alone(rules[0], loss, number):
        return least
    reached = [value for value in rules[0].base if _has_node(rules[0], value, loss)]
    highest = max(least, max(rules[0].base.values(), default=0) + needed)
    for skew in range(least, highest):
        _, total = find_most(structs.replace(rules[0], max_skew=skew), service, reached)
        if total >= needed:
            return skew
    return highest


def _counts_alone(rule: Rule, loss: Loss, number: int) -> bool:
    """Return whether a rule counts only pods of the service; other pods may be preempted, or placed meanwhile."""
    return sum(rule.filled.values()) <= loss.services[number].bound and not any(
        other.pending and at != number and rule.counts(other.sample) for at, other in enumerate(loss.services)
    )


def _has_node(rule: Rule, value: str, loss: Loss) -> bool:
    return any(where == value and node not in loss.nodes for node, where in rule.domain.items())
