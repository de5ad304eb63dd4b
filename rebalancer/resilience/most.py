"""How many pods of a service may be placed in each domain of its own rules at most: sums, without a program.

Example: 4, 4 and 4 pods, maxSkew 1, the third zone is silent. One pod in the first zone needs 4 + 1 <= 1 + what is left
in the third. But it replaces a pod that was deleted there, which leaves 3: none is placed. This also holds for the very
last pod placed.
"""

from collections.abc import Collection, Mapping
from math import inf

from rebalancer.resilience.loss import Service
from rebalancer.resilience.rules import Rule


def find_most(rule: Rule, service: Service, reached: Collection[str]) -> tuple[Mapping[str, int], int]:
    """Return the most of a service's pods in each of the domains with nodes for them, and in all.

    The rule counts no other replacements. When a pod was placed in a domain, the domain held at most maxSkew more than
    any other domain has in the end, with the lost pods that still counted. What is placed in the other domain was not
    placed here.
    """
    most = {
        value: min([service.pending, *[_limit(rule, service, value, other, other in reached) for other in rule.base]])
        for value in reached
    }
    if rule.always_floored:
        most = {value: min(many, _when_floored(rule, service, value)) for value, many in most.items()}
    most = {value: max(0, many) for value, many in most.items()}
    return most, int(min(service.pending, sum(most.values()), _find_last(rule, service, most)))


def _limit(rule: Rule, service: Service, value: str, other: str, shared: bool) -> int:
    """Return how many pods one domain may take before a rule closes it because of another domain."""
    late = rule.late.get(other, 0)
    room = rule.max_skew + rule.base[other] - rule.base.get(value, 0)
    if not rule.itself or value not in rule.base:
        return service.pending if room + late >= 0 else 0
    if other == value:
        return service.pending
    elsewhere = service.pending if shared else 0
    most = (room + late + elsewhere) // (2 if shared else 1)
    if late:
        left = sum(rule.late.values()) + service.waiting + rule.uncounted
        most = min(most, (room + left + elsewhere) // (3 if shared else 2))
    return most


def _when_floored(rule: Rule, service: Service, value: str) -> int:
    room = rule.max_skew - rule.base.get(value, 0)
    return room if rule.itself and value in rule.base else service.pending if room >= 0 else 0


def _find_last(rule: Rule, service: Service, most: Mapping[str, int]) -> float:
    """Return the most pods at the moment when the last one is placed, in any domain.

    Only a domain that receives no pod gives a bound, because the pods placed in other domains are not known.
    """
    left = sum(rule.late.values()) + service.waiting + rule.uncounted
    emptied = [rule.base[value] for value in rule.late if value not in most and value in rule.base]
    if not emptied or not rule.itself:
        return inf
    room = rule.max_skew + min(emptied) - 1
    counted = [rule.base[value] for value, many in most.items() if many and value in rule.base]
    if len(counted) < sum(many > 0 for many in most.values()):
        return inf
    return max([0, *[left + room - base for base in counted]])
