"""What the pods' own hard constraints rule out, wherever the scheduler places the pods.

A skew bound is no cap: `maxSkew` s over D domains allows more than s pods in one domain once every other domain holds a
pod. With n pods it forces at most s only from n - s + 1 domains on.
"""

from collections.abc import Sequence

from rebalancer.assessment.limit_groups import LimitGroupPart, count_by_owner, desired_pods
from rebalancer.model.labels import Labels
from rebalancer.model.pods import Pod
from rebalancer.policy import Basis
from rebalancer.scheduling.pod_topology_spread import counts
from rebalancer.scheduling.spread_constraints import constraints_of
from rebalancer.scheduling.view import View


def most_under(pods: int, domains: int, max_skew: int) -> int:
    """Return the most that one of the domains can hold if the counts differ by at most `max_skew`."""
    return pods if pods <= max_skew else max_skew + (pods - max_skew) // max(1, domains)


def least_under(pods: int, domains: int, max_skew: int) -> int:
    """Return the least that one of the domains can hold if the counts differ by at most `max_skew`."""
    return max(0, -(-(pods - (domains - 1) * max_skew) // max(1, domains)))


def most_per_domain(parts: Sequence[LimitGroupPart], key: str, pods: int, view: View) -> int:
    """Return the most of `pods` pods that their hard constraints let one domain of a key hold."""
    together = _bound_of_all(parts, key, pods, view)
    if len(parts) == 1:
        return together
    separate = 0
    for part in parts:
        separate += _bound_of_all(
            [part], key, desired_pods([part], Basis.DESIRED, count_by_owner(part.member for part in parts)), view
        )
    return min(together, separate)


def guaranteed_skew(parts: Sequence[LimitGroupPart], key: str, domains: int, view: View) -> int | None:
    """Return the difference between two domains that their hard constraints allow; None if they allow any.

    Every owner must have a constraint that counts exactly these pods over exactly this many domains; the loosest binds.
    """
    bound = sum(1 for part in parts for pod in part.pods if pod.node is not None)
    loosest = 0
    for part in parts:
        sample = part.member.sample
        if sample is None:
            return None
        same = [constraint for constraint in constraints_of(sample, view).hard if constraint.key == key]
        seen = [(constraint.max_skew, counts(constraint, sample, view).by_domain) for constraint in same]
        allowed = [
            skew
            for skew, domain_counts in seen
            if len(domain_counts) == domains and sum(domain_counts.filled.values()) == bound
        ]
        if not allowed:
            return None
        loosest = max(loosest, min(allowed))
    return loosest


def _bound_of_all(parts: Sequence[LimitGroupPart], key: str, pods: int, view: View) -> int:
    """Return the bound by constraints that count all of these pods, which each of their owners must have."""
    labels = {pod.labels for part in parts for pod in part.pods}
    worst = 0
    for part in parts:
        sample = part.member.sample
        if sample is None:
            return pods
        worst = max(worst, _bound_of_one(sample, labels | {sample.labels}, parts, key, pods, view))
    return min(worst, pods)


def _bound_of_one(
    sample: Pod, labels: set[Labels], parts: Sequence[LimitGroupPart], key: str, pods: int, view: View
) -> int:
    if _keeps_apart(sample, labels, key, view):
        return 1
    bound_by_all = pods
    for constraint in constraints_of(sample, view).hard:
        selector = constraint.selector
        if selector is None or not nests(key, constraint.key, view) or not all(map(selector.matches, labels)):
            continue
        seen = counts(constraint, sample, view)
        bound = sum(1 for part in parts for pod in part.pods if pod.node is not None)
        others = max(0, sum(seen.by_domain.filled.values()) - bound)
        there = len(seen.by_domain)
        bound_by_all = min(
            bound_by_all,
            constraint.max_skew if seen.floor_at_zero else most_under(pods + others, there, constraint.max_skew),
        )
    return bound_by_all


def _keeps_apart(sample: Pod, labels: set[Labels], key: str, view: View) -> bool:
    """Return whether a pod's anti-affinity keeps it away from every pod of its namespace with these labels."""
    return any(
        nests(key, term.topology_key, view)
        and ((not term.namespaces and term.namespace_selector is None) or sample.namespace in term.namespaces)
        and term.selector is not None
        and all(map(term.selector.matches, labels))
        for term in sample.spec.pod_affinity.anti_required
    )


def nests(inner: str, outer: str, view: View) -> bool:
    """Return whether every domain of one key lies within one domain of another."""
    if inner == outer:
        return True

    def make() -> bool:
        values = view.nodes.values(outer)
        groups = view.nodes.groups(inner).values()
        return all(len({values.get(name, name) for name in names}) == 1 and names <= values.keys() for names in groups)

    return view.memo(("nests", inner, outer), make)
