"""What is wrong with a policy whose every field is fine: names given twice, limits that cannot hold together.

Only what follows from the policy alone is refused. Whether a limit can hold in a cluster is for the assessment to say.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from rebalancer.model.labels import LabelSelector
from rebalancer.policy.conditions import find_greatest
from rebalancer.policy.document import Policy
from rebalancer.policy.groups import Limit, PolicyGroup
from rebalancer.policy.impossible import explain_impossible
from rebalancer.policy.selectors import Selector
from rebalancer.policy.tree import Path, Place


@dataclass(frozen=True, kw_only=True, slots=True)
class _GroupLimit:
    """A limit of a group, and where it stands. Equal `pods` are the same pods, divided into the same sets."""

    path: Path
    group: PolicyGroup
    limit: Limit
    pods: Hashable


def find_inconsistencies(policy: Policy, places: Mapping[Path, Place]) -> Iterator[tuple[Path, str]]:
    """Yield each problem with the path of the field that it is about; `places` has the lines that it refers to."""
    yield from _find_duplicates(
        {("groups", index, "name"): group.name for index, group in enumerate(policy.groups)}, places
    )
    comparable: defaultdict[Hashable, list[_GroupLimit]] = defaultdict(list)
    for index, group in enumerate(policy.groups):
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
            yield path, f'found "{name}" a second time; it is on line {line} too; expected a name of its own'
        first.setdefault(name, path)


def _describe_contradiction(least: _GroupLimit, most: _GroupLimit) -> str:
    """Say why one limit asks for more pods in a domain than the other allows, "" where both may hold."""
    lower, upper = least.limit, most.limit
    if lower.min_pods is None or not _share_domain(lower, upper) or not _covers(most, least):
        return ""
    # A part of the pods has a total of its own: only equal parts are in force by one total.
    both = lower.of is upper.of and least.pods == most.pods
    total = find_greatest(upper.when.total, lower.when.total if both else None)
    if -1 in {find_greatest(lower.when.zones, upper.when.zones), total}:
        return ""  # they are never in force together
    if upper.max_pods is not None and lower.min_pods > upper.max_pods:
        allowed, bound = upper.max_pods, f"maxPods {upper.max_pods}"
    elif upper.max_share is not None and total is not None and lower.min_pods > upper.max_share.cap(total):
        allowed, bound = upper.max_share.cap(total), f"maxShare {upper.max_share} of {total}"
    else:
        return ""
    ways = f"minPods: {allowed}, or `when` that never hold together" if allowed else "`when` that never hold together"
    return f"a domain of {lower.topology_key} cannot hold minPods {lower.min_pods} and {bound}; expected {ways}"


def _share_domain(one: Limit, two: Limit) -> bool:
    """Say whether some domain is surely meant by both, their keys being the same."""
    return one.domains == two.domains or bool(set(one.domains or ()) & set(two.domains or ()))


def _covers(wide: _GroupLimit, narrow: _GroupLimit) -> bool:
    """Say whether every pod that `narrow` counts is counted by `wide`, in a group that is no smaller."""
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
