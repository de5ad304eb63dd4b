"""Bounds that could be relaxed, and the requirements after a relaxation.

Workloads with one selector each state the same constraint, and one limit is evaluated for several sets of pods.
Relaxing the bound changes all of these requirements, so they are one `SharedBound`.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from fractions import Fraction

from msgspec import Struct, structs

from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.moves import Reference
from rebalancer.planning.multi_class.classes import PodClasses
from rebalancer.planning.scope.requirements import Requirement
from rebalancer.policy import Share

_MOST_NAMED = 3
"""Up to this many workloads are named; the rest are counted."""


class SharedBound(Struct, frozen=True, gc=False):
    """Requirements that state one bound, by their numbers in the component."""

    requirements: tuple[int, ...]


class RelaxedBound(Struct, frozen=True, gc=False, kw_only=True):
    """The relaxed bound as a user writes it: of a limit, or the maxSkew over `key` of `workloads`.

    One of `max_skew`, `max_pods`, `min_pods` and `max_share` is set.
    """

    limit: str = ""
    key: str = ""
    workloads: tuple[Reference, ...] = ()
    max_skew: int | None = None
    max_pods: int | None = None
    min_pods: int | None = None
    max_share: Fraction | None = None

    def __str__(self) -> str:
        """Say how to write it: object, field and value."""
        if self.max_share is not None:
            value = f"maxShare {Share(strict=False, fraction=self.max_share)}"
        elif self.max_pods is not None:
            value = f"maxPods {self.max_pods}"
        elif self.max_skew is not None:
            value = f"maxSkew {self.max_skew}"
        else:
            value = f"minPods {self.min_pods}"
        if self.limit:
            return f"{value} in limit {self.limit}"
        rest = f" and {len(self.workloads) - _MOST_NAMED} more" if len(self.workloads) > _MOST_NAMED else ""
        return f"{value} over {self.key} in {', '.join(map(str, self.workloads[:_MOST_NAMED]))}{rest}"


def shared_bounds(classes: PodClasses) -> tuple[SharedBound, ...]:
    """Return the bounds that can be relaxed. Shares of the pods in a larger domain (`within`) are left out."""
    numbers_of: dict[Hashable, list[int]] = {}
    for number, requirement in enumerate(classes.requirements):
        source = requirement.source
        if isinstance(source, EvaluatedLimit):
            if source.rule.within is None or source.rule.max_share is None:
                numbers_of.setdefault((source.group, source.limit), []).append(number)
        else:
            counted = frozenset(
                index for index, pod_class in enumerate(classes.classes) if number in pod_class.requirements
            )
            numbers_of.setdefault((requirement.terms, requirement.nodes, counted), []).append(number)
    return tuple(SharedBound(tuple(numbers)) for numbers in numbers_of.values())


def most_slack(classes: PodClasses, shared: SharedBound) -> int:
    """Return by how many pods a bound can be relaxed before it requires nothing."""
    return max(0, min(_most_slack(classes.requirements[number], classes.total) for number in shared.requirements))


def _most_slack(requirement: Requirement, total: int) -> int:
    source, bound = requirement.source, requirement.bound
    if isinstance(source, EvaluatedLimit) and source.rule.max_share is not None:
        total = source.total
    if bound.cap is not None:
        return total - 1 - bound.cap
    return bound.least - 1 if bound.max_skew is None else total - bound.max_skew


def relax(classes: PodClasses, shared: SharedBound, by: int) -> PodClasses:
    """Return the component with a bound relaxed by this many pods."""
    requirements = [
        _relax(requirement, by) if number in shared.requirements else requirement
        for number, requirement in enumerate(classes.requirements)
    ]
    return replace(classes, requirements=tuple(requirements))


def _relax(requirement: Requirement, by: int) -> Requirement:
    bound = requirement.bound
    if bound.cap is not None:
        relaxed = structs.replace(bound, cap=bound.cap + by)
    elif bound.max_skew is not None:
        relaxed = structs.replace(bound, max_skew=bound.max_skew + by)
    else:
        relaxed = structs.replace(bound, least=bound.least - by)
    return structs.replace(requirement, bound=relaxed)


def relaxed_bound(classes: PodClasses, shared: SharedBound, by: int) -> RelaxedBound:
    """Return the relaxed bound as a user writes it: object, field and value."""
    requirements = [_relax(classes.requirements[number], by) for number in shared.requirements]
    first = requirements[0]
    if isinstance(first.source, EvaluatedLimit):
        return _relaxed_limit(f"{first.source.group}/{first.source.limit}", requirements)
    workloads = tuple(_workloads(classes, shared))
    return RelaxedBound(key=first.key, workloads=workloads, max_skew=first.bound.max_skew)


def _relaxed_limit(limit: str, requirements: Sequence[Requirement]) -> RelaxedBound:
    """Return the relaxed bound of a limit. If the limit bounds several sets of pods, take the set that needs most."""
    shares = [share for share in map(_share, requirements) if share is not None]
    if shares:
        return RelaxedBound(limit=limit, max_share=max(shares))
    caps = [requirement.bound.cap for requirement in requirements if requirement.bound.cap is not None]
    if caps:
        return RelaxedBound(limit=limit, max_pods=max(caps))
    skews = [requirement.bound.max_skew for requirement in requirements if requirement.bound.max_skew is not None]
    if skews:
        return RelaxedBound(limit=limit, max_skew=max(skews))
    return RelaxedBound(limit=limit, min_pods=min(requirement.bound.least for requirement in requirements))


def _share(requirement: Requirement) -> Fraction | None:
    """Return a limit's cap as a share of its total; None if the limit is not written as a share."""
    limit = requirement.source
    if not isinstance(limit, EvaluatedLimit) or limit.rule.max_share is None or requirement.bound.cap is None:
        return None
    return Fraction(requirement.bound.cap, limit.total)


def _workloads(classes: PodClasses, shared: SharedBound) -> list[Reference]:
    """Return the workloads that state a constraint."""
    sources = [classes.requirements[number].source for number in shared.requirements]
    return sorted(
        {
            workload
            for evaluated in classes.component.groups
            if any(constraint is source for constraint in (*evaluated.hard, *evaluated.soft) for source in sources)
            for workload in evaluated.spread.workloads
        }
    )
