"""Errors in a policy whose fields are all valid: duplicate names, limits that contradict each other.

Only what follows from the policy alone is refused. Whether a cluster can satisfy a limit is decided by the assessment.

Limits that no placement of any number of pods can satisfy, as follows from `when`, the bound and the domains.

Nothing is refused that some cluster could satisfy. A limit with `within` is not checked: the number of pods in each of
the larger domains is not known from the policy.

What a policy leaves out that its author probably counts on: reported wherever a policy is read; it is no error.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from rebalancer.model.labels import LabelSelector
from rebalancer.policy.conditions import Condition, find_greatest
from rebalancer.policy.document import Policy, default_policy
from rebalancer.policy.groups import Limit, PolicyGroup
from rebalancer.policy.selectors import Selector
from rebalancer.policy.shares import Share
from rebalancer.yaml_tree import Path, Place

_SOME: Final = Condition(">=", 1)
_AT_LEAST_TWO: Final = 'zones: ">=2"'


def explain_impossible(limit: Limit, group: PolicyGroup) -> str:
    """Say why no placement satisfies the limit, and what to change; "" if some placement may satisfy it."""
    zones, total = find_greatest(limit.when.zones), find_greatest(limit.when.total, _SOME)
    if -1 in {zones, total}:
        return f"no number satisfies `when` (with at least 1 pod); expected conditions such as {_AT_LEAST_TWO}"
    if limit.within is not None:
        return ""
    of_zones = limit.topology_key == group.zone_key
    if of_zones and zones == 0:
        return f"with 0 zones there is no domain of {limit.topology_key}; expected {_AT_LEAST_TWO}"
    if limit.min_pods is not None:
        return _check_min_pods(limit.min_pods, limit.domains, total, zones if of_zones else None)
    known = [len(limit.domains)] if limit.domains else []
    known += [zones] if of_zones and zones is not None else []
    places = min(known, default=None)
    what = "zones" if of_zones and places == zones else "domains"
    if limit.max_pods is not None:
        return _check_max_pods(limit.max_pods, limit.when.total, places, what)
    return _check_max_share(limit.max_share, limit.when.total, places, what) if limit.max_share is not None else ""


def _check_min_pods(least: int, domains: tuple[str, ...] | None, total: int | None, zones: int | None) -> str:
    number = len(domains or ("any",))
    if domains and zones is not None and zones < number:
        return (
            f"{number} domains are declared, when.zones allows {zones}; expected when.zones: {number}, or fewer domains"
        )
    if total is None or least * number <= total:
        return ""
    who = f"{number} domains with {least} pods each need" if domains else f"a domain with {least} pods needs"
    few = f"minPods: {total // number}" if total >= number else "fewer domains"
    return f"{who} {least * number}, when.total allows {total}; expected {few}, or a larger when.total"


def _check_max_pods(most: int, total: Condition | None, places: int | None, what: str) -> str:
    least = min(_list_totals(total))
    if places is None or most * places >= least:
        return ""
    enough = -(-least // places)
    return (
        f"{places} {what} with {most} pods each hold {most * places}, when.total requires {least}; "
        f"expected maxPods: {enough}, or a smaller when.total"
    )


# Many branches: one for each way in which a share cannot hold, with singular and plural in the message.
def _check_max_share(share: Share, total: Condition | None, places: int | None, what: str) -> str:
    if places is not None and not share.holds(1, places):
        larger = f'a share such as "<=1/{places}", or ' if places > 1 else ""
        more = f'when.zones: ">{places}"' if what == "zones" else "more domains"
        who = f"{places} {what} cannot each hold" if places > 1 else f"1 {what[:-1]} cannot hold"
        return f"{who} {share} of the pods; expected {larger}{more}"
    # Totals with at least one pod in each domain, and equal numbers in each: they satisfy the share if any total does.
    part, whole = share.fraction.as_integer_ratio()
    totals = set(_list_totals(total, places or 1, whole + 1))
    if any(share.cap(pods) * (pods if places is None else places) >= pods for pods in totals):
        return ""
    pods = max(totals)
    if share.cap(pods):
        even = -(-pods // (places or 1))
        held = f"{places} {what} with {share} of {pods} pods each hold {share.cap(pods) * (places or 1)}"
        return f'{held}; expected a share such as "<={even}/{pods}", or another when.total'
    larger = f'a share such as "<=1/{pods}", or ' if pods > 1 else ""
    enough = whole // part + 1 if share.strict else -(-whole // part)
    return f'{share} of {pods} pod{"s" if pods > 1 else ""} is less than one; expected {larger}when.total: ">={enough}"'


def _list_totals(total: Condition | None, *steps: int) -> Iterator[int]:
    """Yield totals that satisfy a condition: the least, the greatest if there is one, and multiples of the steps."""
    edge = total.number if total is not None else 0
    near = (1, edge - 1, edge, edge + 1, *steps, *(step * (edge + 1) for step in steps))
    return (pods for pods in near if pods >= 1 and (total is None or total.holds(pods)))


_SYSTEM: Final = "kube-system"


def policy_notes(policy: Policy) -> tuple[str, ...]:
    """Return a sentence for each default that the policy drops without naming it, with how to keep it."""
    return (*_dropped_limits(policy), *_dropped_namespace(policy))


def _dropped_limits(policy: Policy) -> Iterator[str]:
    if not policy.groups and "groups" not in policy.model_fields_set:
        names = [limit.name for group in default_policy().groups for limit in group.limits]
        yield (
            f"the policy has no groups, so the limits {' and '.join(names)} of the shipped policy are not in force; "
            "copy groups from `rebalancer policy show`, or write groups: [] if no limits are wanted"
        )


def _dropped_namespace(policy: Policy) -> Iterator[str]:
    namespaces = policy.eligibility.namespaces
    named = _SYSTEM in namespaces.include or not namespaces.exclude
    if namespaces.selects(_SYSTEM) and not named:
        yield (
            f"eligibility.namespaces.exclude replaces its default [{_SYSTEM}]: pods of {_SYSTEM} may be evicted; add "
            f"{_SYSTEM} to it"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _GroupLimit:
    """A limit of a group with its path. Equal `pods` are the same pods, divided into the same sets."""

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
    """Say whether some domain certainly is in both limits; they have the same topology key."""
    return one.domains == two.domains or bool(set(one.domains or ()) & set(two.domains or ()))


def _covers(wide: _GroupLimit, narrow: _GroupLimit) -> bool:
    """Say whether `wide` counts every pod that `narrow` counts, in a group that is not smaller."""
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
