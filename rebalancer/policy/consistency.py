"""What is wrong with a policy whose every field is fine: names given twice, limits that cannot hold together.

Only what follows from the policy alone is refused. Whether a limit can hold in a cluster is for the assessment to say.
"""

from collections.abc import Hashable, Iterator, Mapping
from itertools import combinations

from rebalancer.policy.conditions import greatest
from rebalancer.policy.document import Policy
from rebalancer.policy.groups import Limit, PodGroup
from rebalancer.policy.selectors import Selector
from rebalancer.policy.tree import Path, Place


def inconsistencies(policy: Policy, places: Mapping[Path, Place]) -> Iterator[tuple[Path, str]]:
    """Yield each problem with the path of the field that it is about; `places` has the lines that it refers to."""
    yield from _twice({("groups", index, "name"): group.name for index, group in enumerate(policy.groups)}, places)
    for index, group in enumerate(policy.groups):
        above = ("groups", index, "limits")
        yield from _twice({(*above, at, "name"): limit.name for at, limit in enumerate(group.limits)}, places)
        for at, limit in enumerate(group.limits):
            message = _impossible(limit, group)
            if message:
                yield (*above, at), message
        for (first, one), (second, two) in combinations(enumerate(group.limits), 2):
            message = _contradiction(one, two) or _contradiction(two, one)
            if message:
                yield (*above, second), f"contradicts {one.name} on line {places[*above, first].line}: {message}"


def _twice(names: Mapping[Path, str], places: Mapping[Path, Place]) -> Iterator[tuple[Path, str]]:
    first: dict[str, Path] = {}
    for path, name in names.items():
        if name in first:
            line = places[first[name]].line
            yield path, f'found "{name}" a second time; it is on line {line} too; expected a name of its own'
        first.setdefault(name, path)


def _impossible(limit: Limit, group: PodGroup) -> str:
    """Say why no arrangement of any number of pods satisfies the limit, "" where one may."""
    zones, total = greatest(limit.when.zones), greatest(limit.when.total)
    share, least, domains = limit.max_share, limit.min_pods, limit.domains
    if -1 in {zones, total}:
        return f"no number is as `when` asks; expected a condition that some number meets, such as {_AT_LEAST_TWO}"
    of_zones = limit.topology_key == group.zone_key and limit.within is None
    if share is not None and domains is None and of_zones and zones and not share.holds(1, zones):
        example = f'"<=1/{zones}", or when.zones: ">{zones}"'
        return f"{zones} zones cannot each hold {share} of the pods; expected a share such as {example}"
    if least is not None and domains and limit.within is None and total is not None and least * len(domains) > total:
        return (
            f"{len(domains)} domains with {least} pods each need {least * len(domains)}, when.total allows {total}; "
            f"expected minPods: {max(1, total // len(domains))}, or a larger when.total"
        )
    return ""


_AT_LEAST_TWO = 'zones: ">=2"'


def _contradiction(lower: Limit, upper: Limit) -> str:
    """Say why one limit asks for more pods in a domain than the other allows, "" where both may hold."""
    if lower.min_pods is None or not _same_domains(lower, upper) or not _covers(upper, lower):
        return ""
    # A part of the pods has a total of its own: only equal parts are in force by one total.
    both = lower.of is upper.of and (_meaning(lower.selector), lower.group_by) == (
        _meaning(upper.selector),
        upper.group_by,
    )
    total = greatest(upper.when.total, lower.when.total if both else None)
    if -1 in {greatest(lower.when.zones, upper.when.zones), total}:
        return ""  # they are never in force together
    if upper.max_pods is not None and lower.min_pods > upper.max_pods:
        allowed, bound = upper.max_pods, f"maxPods {upper.max_pods}"
    elif upper.max_share is not None and total is not None and lower.min_pods > upper.max_share.cap(total):
        allowed, bound = upper.max_share.cap(total), f"maxShare {upper.max_share} of {total}"
    else:
        return ""
    ways = f"minPods: {allowed}, or `when` that never hold together" if allowed else "`when` that never hold together"
    return f"a domain of {lower.topology_key} cannot hold minPods {lower.min_pods} and {bound}; expected {ways}"


def _same_domains(one: Limit, two: Limit) -> bool:
    """Say whether some domain is surely meant by both."""
    if (one.topology_key, one.within) != (two.topology_key, two.within):
        return False
    return one.domains == two.domains or bool(set(one.domains or ()) & set(two.domains or ()))


def _covers(wide: Limit, narrow: Limit) -> bool:
    """Say whether every pod that `narrow` counts is counted by `wide`, in a group that is no smaller."""
    selects = wide.selector is None or _meaning(wide.selector) == _meaning(narrow.selector)
    return selects and wide.group_by in {None, narrow.group_by}


def _meaning(selector: Selector | None) -> Hashable:
    return selector.compiled if selector is not None else None
