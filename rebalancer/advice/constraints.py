"""The constraint to paste: what would make the scheduler do by itself what a limit, or a soft constraint, only wishes.

Where nothing forces a replacement elsewhere, evicting is a gamble. A hard constraint with the right maxSkew is what an
owner can do about it, once and for all.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import yaml

from rebalancer.assessment.assess import EvaluatedConstraint
from rebalancer.assessment.guarantees import least_under, most_under
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.labels import LabelSelector, Operator
from rebalancer.model.reasons import State
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.policy import WORKLOAD

_AS_HARD: Final = "the same constraint, but hard"


@dataclass(frozen=True, kw_only=True)
class SuggestedSpread:
    """A hard constraint, and what it would give in a sentence."""

    topology_key: str
    max_skew: int
    selector: LabelSelector
    gives: str

    @property
    def constraint(self) -> dict[str, Any]:
        """As Kubernetes has it."""
        return {
            "topologyKey": self.topology_key,
            "maxSkew": self.max_skew,
            "whenUnsatisfiable": str(WhenUnsatisfiable.DO_NOT_SCHEDULE),
            "labelSelector": _written(self.selector),
        }


def written(forcings: Iterable[SuggestedSpread]) -> str:
    """Write constraints as they stand in a pod template."""
    constraints = [each.constraint for each in forcings]
    return yaml.safe_dump({"topologySpreadConstraints": constraints}, sort_keys=False).rstrip("\n")


def together(forcings: Iterable[SuggestedSpread]) -> tuple[Sequence[SuggestedSpread], Sequence[SuggestedSpread]]:
    """Return what can stand in one pod template, and what could only stand there instead.

    A template may have one hard constraint for each key. Of several over the same pods the tightest gives what all do.
    """
    found: dict[tuple[str, LabelSelector], list[SuggestedSpread]] = {}
    for each in forcings:
        found.setdefault((each.topology_key, each.selector), []).append(each)
    chosen: dict[str, SuggestedSpread] = {}
    others: list[SuggestedSpread] = []
    for (key, _), several in found.items():
        tightest = _tightest(several)
        if chosen.setdefault(key, tightest) is not tightest:
            others.append(tightest)
    return tuple(chosen.values()), others


def _tightest(several: Sequence[SuggestedSpread]) -> SuggestedSpread:
    least = min(each.max_skew for each in several)
    gives = dict.fromkeys(each.gives for each in several if each.max_skew == least or each.gives != _AS_HARD)
    return replace(several[0], max_skew=least, gives="; ".join(gives))


def of_soft(judged: EvaluatedConstraint) -> SuggestedSpread | None:
    """Return a soft constraint as a hard one; None where it selects nothing."""
    constraint = judged.constraint
    if constraint.selector is None:
        return None
    return SuggestedSpread(
        topology_key=constraint.key,
        max_skew=constraint.max_skew,
        selector=constraint.selector,
        gives=_AS_HARD,
    )


def of_limit(limit: EvaluatedLimit) -> SuggestedSpread | None:
    """Return the loosest constraint that guarantees a limit; None where no single one does."""
    selector = _selector(limit)
    if selector is None or limit.rule.within is not None or limit.state is State.INFEASIBLE:
        return None
    pods, domains = limit.total, limit.existing
    found = next(_enough(limit, pods, domains), None)
    if found is None:
        return None
    gives = {
        "cap": f"no domain of {limit.topology_key} can hold more than {most_under(pods, domains, found)} of {pods}",
        "min": f"each domain of {limit.topology_key} holds {least_under(pods, domains, found)} of {pods} at the least",
        "skew": f"domains of {limit.topology_key} differ by {found} at the most",
    }
    kind = "cap" if limit.cap is not None else "min" if limit.min_pods is not None else "skew"
    return SuggestedSpread(topology_key=limit.topology_key, max_skew=found, selector=selector, gives=gives[kind])


def _enough(limit: EvaluatedLimit, pods: int, domains: int) -> Iterator[int]:
    """Yield the values of maxSkew that guarantee a limit over so many domains, the loosest first."""
    if limit.max_skew is not None:
        yield limit.max_skew
    for skew in range(limit.cap if limit.cap is not None else pods, 0, -1):
        if limit.cap is not None and most_under(pods, domains, skew) <= limit.cap:
            yield skew
        if limit.min_pods is not None and least_under(pods, domains, skew) >= limit.min_pods:
            yield skew


def _selector(limit: EvaluatedLimit) -> LabelSelector | None:
    """Return a selector of just the limit's pods; None where labels of their templates do not tell them."""
    if not limit.enforceable:
        return None
    group, labels = limit.gathered.group, dict(limit.key)
    selectors = [group.selector.compiled]
    if WORKLOAD in (*group.group_by, *(limit.rule.group_by or ())):
        del labels[WORKLOAD.lower()]
        owners = {part.member.top.selector for part in limit.parts if part.member.top is not None}
        selectors += [each for each in owners if each is not None]
    if limit.rule.selector is not None:
        selectors.append(limit.rule.selector.compiled)
    found = {each for selector in (*selectors, LabelSelector.of(labels)) for each in selector.requirements}
    return LabelSelector(tuple(sorted(found))) if found else None


def _written(selector: LabelSelector) -> dict[str, Any]:
    labels, expressions = {}, []
    for each in selector.requirements:
        if each.operator is Operator.IN and len(each.values) == 1:
            labels[each.key] = each.values[0]
        else:
            values = {"values": list(each.values)} if each.values else {}
            expressions.append({"key": each.key, "operator": str(each.operator), **values})
    parts = {"matchLabels": labels, "matchExpressions": expressions}
    return {name: part for name, part in parts.items() if part}
