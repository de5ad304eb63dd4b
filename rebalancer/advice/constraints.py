"""Spread constraints with which the scheduler itself enforces a limit or a soft constraint.

If the scheduler may place a replacement where it does not help, an eviction may be in vain. A hard constraint with the
right maxSkew prevents that.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rebalancer.assessment.assess import EvaluatedConstraint
from rebalancer.assessment.guarantees import least_under, most_under
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.labels import LabelSelector, Operator
from rebalancer.model.reasons import State
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.model.yaml_text import dump_yaml
from rebalancer.policy import WORKLOAD

_HARDENED: Final = "the scheduler enforces what the soft constraint only prefers"


@dataclass(frozen=True, kw_only=True)
class SuggestedSpread:
    """A hard constraint, and its effect as a clause of a sentence."""

    topology_key: str
    max_skew: int
    selector: LabelSelector
    effect: str

    @property
    def constraint(self) -> dict[str, Any]:
        """The constraint as Kubernetes writes it."""
        return {
            "topologyKey": self.topology_key,
            "maxSkew": self.max_skew,
            "whenUnsatisfiable": str(WhenUnsatisfiable.DO_NOT_SCHEDULE),
            "labelSelector": _selector_document(self.selector),
        }


def constraints_yaml(suggestions: Iterable[SuggestedSpread]) -> str:
    """Write constraints as YAML for a pod template."""
    constraints = [suggestion.constraint for suggestion in suggestions]
    return dump_yaml({"topologySpreadConstraints": constraints}).rstrip("\n")


def combine(suggestions: Iterable[SuggestedSpread]) -> tuple[Sequence[SuggestedSpread], Sequence[SuggestedSpread]]:
    """Return the constraints that one pod template can have together, and the alternatives to them.

    A template may have one hard constraint for each key. If several constraints for the same pods are possible, the
    tightest one enforces all of them.
    """
    by_pods: dict[tuple[str, LabelSelector], list[SuggestedSpread]] = {}
    for suggestion in suggestions:
        by_pods.setdefault((suggestion.topology_key, suggestion.selector), []).append(suggestion)
    chosen: dict[str, SuggestedSpread] = {}
    alternatives: list[SuggestedSpread] = []
    for (key, _), same_pods in by_pods.items():
        tightest = _tightest(same_pods)
        if chosen.setdefault(key, tightest) is not tightest:
            alternatives.append(tightest)
    return tuple(chosen.values()), alternatives


def _tightest(suggestions: Sequence[SuggestedSpread]) -> SuggestedSpread:
    least = min(suggestion.max_skew for suggestion in suggestions)
    effects = dict.fromkeys(
        suggestion.effect
        for suggestion in suggestions
        if suggestion.max_skew == least or suggestion.effect != _HARDENED
    )
    return replace(suggestions[0], max_skew=least, effect="; ".join(effects))


def harden(soft: EvaluatedConstraint) -> SuggestedSpread | None:
    """Return a soft constraint as a hard one; None if it selects no pods."""
    constraint = soft.constraint
    if constraint.selector is None:
        return None
    return SuggestedSpread(
        topology_key=constraint.key,
        max_skew=constraint.max_skew,
        selector=constraint.selector,
        effect=_HARDENED,
    )


def constraint_for_limit(limit: EvaluatedLimit) -> SuggestedSpread | None:
    """Return the loosest constraint that guarantees a limit; None if no single constraint does."""
    selector = find_selector(limit)
    if selector is None or limit.rule.within is not None or limit.state is State.INFEASIBLE:
        return None
    pods, domains = limit.total, limit.existing
    max_skew = next(_sufficient_skews(limit, pods, domains), None)
    if max_skew is None:
        return None
    key = limit.topology_key
    if limit.cap is not None:
        effect = f"no domain of {key} can hold more than {most_under(pods, domains, max_skew)} of {pods} pods"
    elif limit.min_pods is not None:
        effect = f"each domain of {key} holds at least {least_under(pods, domains, max_skew)} of {pods} pods"
    else:
        effect = f"domains of {key} differ by at most {max_skew} pod{'' if max_skew == 1 else 's'}"
    return SuggestedSpread(topology_key=key, max_skew=max_skew, selector=selector, effect=effect)


def _sufficient_skews(limit: EvaluatedLimit, pods: int, domains: int) -> Iterator[int]:
    """Yield the values of maxSkew that guarantee a limit over this many domains, largest first."""
    if limit.max_skew is not None:
        yield limit.max_skew
    for skew in range(limit.cap if limit.cap is not None else pods, 0, -1):
        if limit.cap is not None and most_under(pods, domains, skew) <= limit.cap:
            yield skew
        if limit.min_pods is not None and least_under(pods, domains, skew) >= limit.min_pods:
            yield skew


def find_selector(limit: EvaluatedLimit) -> LabelSelector | None:
    """Return a selector of exactly the limit's pods; None if the labels of their templates do not determine them."""
    if not limit.enforceable:
        return None
    group, labels = limit.gathered.policy_group, dict(limit.key)
    selectors = [group.selector.compiled]
    if WORKLOAD in (*group.group_by, *(limit.rule.group_by or ())):
        del labels[WORKLOAD.lower()]
        owner_selectors = {part.member.top.selector for part in limit.parts if part.member.top is not None}
        selectors += [selector for selector in owner_selectors if selector is not None]
    if limit.rule.selector is not None:
        selectors.append(limit.rule.selector.compiled)
    requirements = {
        requirement for selector in (*selectors, LabelSelector.of(labels)) for requirement in selector.requirements
    }
    return LabelSelector(tuple(sorted(requirements))) if requirements else None


def _selector_document(selector: LabelSelector) -> dict[str, Any]:
    labels, expressions = {}, []
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN and len(requirement.values) == 1:
            labels[requirement.key] = requirement.values[0]
        else:
            values = {"values": list(requirement.values)} if requirement.values else {}
            expressions.append({"key": requirement.key, "operator": str(requirement.operator), **values})
    parts = {"matchLabels": labels, "matchExpressions": expressions}
    return {name: part for name, part in parts.items() if part}
