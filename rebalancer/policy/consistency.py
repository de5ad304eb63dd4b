"""Errors in a policy whose fields are all valid: duplicate names, and limits that contradict each other.

Only contradictions that follow from the policy itself are refused. Whether a cluster can satisfy a limit is decided by
the assessment.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from rebalancer.model.labels import LabelSelector
from rebalancer.policy.conditions import find_greatest
from rebalancer.policy.groups import Limit, PolicyGroup
from rebalancer.policy.impossible import explain_impossible
from rebalancer.policy.selectors import Selector
from rebalancer.yaml_tree import Path, Place


@dataclass(frozen=True, kw_only=True, slots=True)
class _GroupLimit:
    """A limit of a group, with its path. Equal `pods` mean the same pods, divided into the same sets."""

    path: Path
    group: PolicyGroup
    limit: Limit
    pods: Hashable


def find_inconsistencies(groups: Sequence[PolicyGroup], places: Mapping[Path, Place]) -> Iterator[tuple[Path, str]]:
    """Yield each problem with the path of its field; `places` has the lines for references to other fields."""
    yield from _find_duplicates({("groups", index, "name"): group.name for index, group in enumerate(groups)}, places)
    comparable: defaultdict[Hashable, list[_GroupLimit]] = defaultdict(list)
    for index, group in enumerate(groups):
        above = ("groups", index, "limits")
        yield from _find_duplicates({(*above, at, "name"): limit.name for at, limit in enumerate(group.limits)}, places)
        for at, limit in enumerate(group.limits):
            message = explain_impossible(limit, group)
            if message:
                yield (*above, at), message
            rule = _GroupLimit(path=(*above, at), group=group, limit=limit, pods=_identify_pods(group, limit))
            comparable[limit.topology_key, limit.within].append(rule)
    for rules in comparable.values():
        for one, two in combinations(rules, 2):
            message = _describe_contradiction(one, two) or _describe_contradiction(two, one)
            if message:
                name = one.limit.name if one.group is two.group else f"{one.group.name}/{one.limit.name}"
                yield two.path, f"contradicts {name} on line {places[one.path].line}: {message}"


def _find_duplicates(names: Mapping[Path, str], places: Mapping[Path, Place]) -> Iterator[tuple[Path, str]]:
    first: dict[str, Path] = {}
    for path, name in names.items():
        if name in first:
            line = places[first[name]].line
            yield path, f'found "{name}", which line {line} has already; expected a unique name'
        first.setdefault(name, path)


def _describe_contradiction(least: _GroupLimit, most: _GroupLimit) -> str:
    """Say why one limit requires more pods in a domain than the other allows, "" if both can hold."""
    lower, upper = least.limit, most.limit
    if lower.min_pods is None or not _share_domain(lower, upper) or not _covers(most, least):
        return ""
    # Different sets of pods have different totals: only for equal sets both conditions are on the same total.
    both = lower.of is upper.of and least.pods == most.pods
    total = find_greatest(upper.when.total, lower.when.total if both else None)
    if -1 in {find_greatest(lower.when.zones, upper.when.zones), total}:
        return ""  # they never apply together
    if upper.max_pods is not None and lower.min_pods > upper.max_pods:
        allowed, bound = upper.max_pods, f"maxPods {upper.max_pods}"
    elif upper.max_share is not None and total is not None and lower.min_pods > upper.max_share.cap(total):
        allowed, bound = upper.max_share.cap(total), f"maxShare {upper.max_share} of {total}"
    else:
        return ""
    disjoint = "`when` conditions that never apply together"
    expected = f"minPods: {allowed}, or {disjoint}" if allowed else disjoint
    return f"a domain of {lower.topology_key} cannot satisfy minPods {lower.min_pods} and {bound}; expected {expected}"


def _share_domain(one: Limit, two: Limit) -> bool:
    """Return whether two limits with the same topology key certainly share a domain."""
    return one.domains == two.domains or bool(set(one.domains or ()) & set(two.domains or ()))


def _covers(wide: _GroupLimit, narrow: _GroupLimit) -> bool:
    """Return whether `wide` counts every pod that `narrow` counts, in a group that is not smaller."""
    if wide.group is not narrow.group:
        return wide.pods == narrow.pods
    one, two = wide.limit, narrow.limit
    selects = one.selector is None or _compile(one.selector) == _compile(two.selector)
    return selects and one.group_by in {None, two.group_by}


def _identify_pods(group: PolicyGroup, limit: Limit) -> Hashable:
    selectors = [
        selector.compiled.requirements for selector in (group.selector, limit.selector) if selector is not None
    ]
    meant = LabelSelector.of(None, (requirement for selector in selectors for requirement in selector))
    spaces = frozenset(group.namespaces.include), frozenset(group.namespaces.exclude)
    return meant, spaces, frozenset(group.group_by), frozenset(limit.group_by or ())


def _compile(selector: Selector | None) -> Hashable:
    return selector.compiled if selector is not None else None
