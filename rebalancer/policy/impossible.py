"""Limits that no placement of any number of pods can satisfy, because of `when`, the bound and the domains.

A limit that some cluster could satisfy is not refused. A limit with `within` is not checked: the policy does not show
the number of pods in each of the larger domains.
"""

from collections.abc import Iterator
from typing import Final

from rebalancer.policy.conditions import Condition, find_greatest
from rebalancer.policy.groups import Limit, PolicyGroup
from rebalancer.policy.shares import Share

_SOME: Final = Condition(">=", 1)

_AT_LEAST_TWO: Final = 'zones: ">=2"'


def explain_impossible(limit: Limit, group: PolicyGroup) -> str:
    """Say why no placement satisfies the limit, and what to change; return "" if a placement may satisfy it."""
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
