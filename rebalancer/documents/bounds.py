"""The fewest and the most pods that a domain holds in any placement that satisfies a constraint or a limit.

12 pods in 3 zones, maxSkew 1: each zone holds 4 once the constraint is satisfied. 13 pods: 4 or 5. The bounds of a
constraint are exact for the present number of counted pods: some placement of these pods over these domains reaches
each bound. The bounds of a limit are exact, apart from its own cap or minPods. Other obstacles to pods in a domain are
not considered.

With D domains, n pods and maxSkew s, a domain holds the most, m, if all others hold m - s, and the least, l, if all l +
s: m = s + floor((n - s) / D) and l = ceil((n - (D - 1) s) / D) (`assessment.guarantees`). With at most c pods in a
domain, as a cap says, or maxSkew where the minimum is 0, the least is what D - 1 full ones leave.
"""

from collections.abc import Iterable

from rebalancer.assessment.guarantees import least_under, most_under
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.documents.document import CamelCaseStruct, Number
from rebalancer.scheduling.pod_topology_spread import Counts


class DomainBounds(CamelCaseStruct, frozen=True, kw_only=True):
    """The fewest and the most pods that a domain may hold once repaired; `max` is null where nothing bounds it.

    If no placement of the pods satisfies the constraint or limit: the bounds that it states for each domain alone.
    """

    min: Number
    max: Number | None


def count_above(held: Iterable[int], bounds: DomainBounds) -> int:
    """Return how many pods are beyond the bounds, if the domains hold these numbers of pods."""
    most = bounds.max
    return sum(pods - most for pods in held if pods > most) if most is not None else 0


def find_room(held: Iterable[int], bounds: DomainBounds) -> int | None:
    """Return how many more pods the fullest domain may hold, None if nothing bounds it or it is empty."""
    fullest = max(held, default=0)
    return bounds.max - fullest if bounds.max is not None and fullest else None


def constraint_bounds(counts: Counts) -> DomainBounds:
    """Return the bounds of each domain of a constraint."""
    pods, domains = sum(counts.by_domain.filled.values()), len(counts.by_domain)
    if counts.floor_at_zero:
        bounds = _capped(pods, domains, counts.constraint.max_skew)
        return DomainBounds(min=bounds.min, max=min(pods, counts.constraint.max_skew))
    return _even(pods, domains, counts.constraint.max_skew)


def limit_bounds(limit: EvaluatedLimit) -> DomainBounds:
    """Return the bounds of each domain of a limit; a domain without nodes and pods stays empty."""
    pods, empty = sum(limit.counts.filled.values()), len(limit.deserted)
    domains = len(limit.counts) - empty
    if limit.cap is not None:
        return _capped(pods, domains, limit.cap)
    if limit.max_skew is not None:
        return _capped(pods, domains, limit.max_skew) if empty else _even(pods, domains, limit.max_skew)
    least = limit.min_pods or 0
    is_feasible = not empty and least * domains <= pods
    return DomainBounds(min=least, max=pods - least * (domains - 1) if is_feasible else None)


def _even(pods: int, domains: int, max_skew: int) -> DomainBounds:
    return DomainBounds(min=least_under(pods, domains, max_skew), max=most_under(pods, domains, max_skew))


def _capped(pods: int, domains: int, cap: int) -> DomainBounds:
    is_feasible = pods <= cap * domains
    return DomainBounds(min=max(0, pods - cap * (domains - 1)) if is_feasible else 0, max=cap)
