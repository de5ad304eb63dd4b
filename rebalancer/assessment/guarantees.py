"""What the pods' own hard constraints make impossible, however the scheduler places them.

A skew bound is no cap: `maxSkew` s over D domains allows more than s in one of them once the others hold more than
none. With n pods it forces at most s only from n - s + 1 domains on (docs/semantics.md, 5.1).
"""

from collections.abc import Sequence

from rebalancer.assessment.limit_groups import LimitGroupPart, desired_pods
from rebalancer.model.labels import Labels
from rebalancer.model.pods import Pod
from rebalancer.policy import Basis
from rebalancer.scheduling.pod_topology_spread import counts
from rebalancer.scheduling.spread_constraints import constraints_of
from rebalancer.scheduling.view import View


def most_under(pods: int, domains: int, max_skew: int) -> int:
    """Return the most that one of the domains can hold while greatest and least differ by `max_skew` at most."""
    return pods if pods <= max_skew else max_skew + (pods - max_skew) // max(1, domains)


def least_under(pods: int, domains: int, max_skew: int) -> int:
    """Return the least that one of the domains can hold while greatest and least differ by `max_skew` at most."""
    return max(0, -(-(pods - (domains - 1) * max_skew) // max(1, domains)))


def most_per_domain(parts: Sequence[LimitGroupPart], key: str, pods: int, view: View) -> int:
    """Return the most of `pods` pods that their hard constraints let one domain of a key hold, nothing else given."""
    together = _shared(parts, key, pods, view)
    if len(parts) == 1:
        return together
    each = 0
    for part in parts:
        each += _shared([part], key, desired_pods([part], Basis.DESIRED, _of_top(parts)), view)
    return min(together, each)


def guaranteed_skew(parts: Sequence[LimitGroupPart], key: str, domains: int, view: View) -> int | None:
    """Return the difference between two domains that their hard constraints allow; None where they allow any.

    Every owner must have a constraint that counts exactly these pods over exactly so many domains; the loosest binds.
    """
    bound = sum(1 for part in parts for pod in part.pods if pod.node is not None)
    loosest = 0
    for part in parts:
        sample = part.member.sample
        if sample is None:
            return None
        same = [each for each in constraints_of(sample, view).hard if each.key == key]
        seen = [(each.max_skew, counts(each, sample, view).by_domain) for each in same]
        allowed = [skew for skew, found in seen if len(found) == domains and sum(found.filled.values()) == bound]
        if not allowed:
            return None
        loosest = max(loosest, min(allowed))
    return loosest


def _of_top(parts: Sequence[LimitGroupPart]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        if part.member.top is not None:
            found[part.member.top.uid] = found.get(part.member.top.uid, 0) + len(part.member.pods)
    return found


def _shared(parts: Sequence[LimitGroupPart], key: str, pods: int, view: View) -> int:
    """Return the bound by constraints that count all of these pods, which each of their owners must have."""
    labels = {pod.labels for part in parts for pod in part.pods}
    worst = 0
    for part in parts:
        sample = part.member.sample
        if sample is None:
            return pods
        worst = max(worst, _bound(sample, labels | {sample.labels}, parts, key, pods, view))
    return min(worst, pods)


def _bound(sample: Pod, labels: set[Labels], parts: Sequence[LimitGroupPart], key: str, pods: int, view: View) -> int:
    if _apart(sample, labels, key, view):
        return 1
    found = pods
    for constraint in constraints_of(sample, view).hard:
        selector = constraint.selector
        if selector is None or not nests(key, constraint.key, view) or not all(map(selector.matches, labels)):
            continue
        seen = counts(constraint, sample, view)
        bound = sum(1 for part in parts for pod in part.pods if pod.node is not None)
        others = max(0, sum(seen.by_domain.filled.values()) - bound)
        there = len(seen.by_domain)
        unmet = there < constraint.min_domains
        found = min(found, constraint.max_skew if unmet else most_under(pods + others, there, constraint.max_skew))
    return found


def _apart(sample: Pod, labels: set[Labels], key: str, view: View) -> bool:
    """Say whether its anti-affinity keeps the pod from every pod of its namespace with these labels."""
    return any(
        nests(key, term.topology_key, view)
        and ((not term.namespaces and term.namespace_selector is None) or sample.namespace in term.namespaces)
        and term.selector is not None
        and all(map(term.selector.matches, labels))
        for term in sample.spec.pod_affinity.anti_required
    )


def nests(inner: str, outer: str, view: View) -> bool:
    """Say whether every domain of one key lies within one domain of another."""
    if inner == outer:
        return True

    def make() -> bool:
        values = view.nodes.values(outer)
        groups = view.nodes.groups(inner).values()
        return all(len({values.get(name, name) for name in names}) == 1 and names <= values.keys() for names in groups)

    return view.memo(("nests", inner, outer), make)
