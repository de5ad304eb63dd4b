"""Bounds that could be eased: which there are, what is asked once one is, and how a person would write it.

Workloads of one selector that ask for the same say it each for itself, and a limit is judged for each set of pods
apart. Whoever eases it changes all of them, so they are one rule here.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from fractions import Fraction

from msgspec import Struct, structs

from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.moves import Reference
from rebalancer.planning.multi_class.classes import MultiClassProblem
from rebalancer.planning.scope.requirements import Requirement
from rebalancer.policy import Share

_MOST_NAMED = 3


class SharedBound(Struct, frozen=True, gc=False):
    """Demands, by their numbers, that state one bound."""

    requirements: tuple[int, ...]


def rules(mixed: MultiClassProblem) -> tuple[SharedBound, ...]:
    """Return the bounds that can be eased. The shares of what happens to stand in a larger domain are none."""
    found: dict[Hashable, list[int]] = {}
    for number, demand in enumerate(mixed.requirements):
        source = demand.source
        if isinstance(source, EvaluatedLimit):
            if source.rule.within is None or source.rule.max_share is None:
                found.setdefault((source.group, source.limit), []).append(number)
        else:
            counted = frozenset(kind for kind, each in enumerate(mixed.classes) if number in each.requirements)
            found.setdefault((demand.asked, demand.nodes, counted), []).append(number)
    return tuple(SharedBound(tuple(numbers)) for numbers in found.values())


def farthest(mixed: MultiClassProblem, rule: SharedBound) -> int:
    """Return by how much a rule can be eased before it asks for nothing."""
    total = sum(sum(kind.counts.values()) + kind.pending for kind in mixed.classes)
    return max(0, min(_farthest(mixed.requirements[number], total) for number in rule.requirements))


def _farthest(demand: Requirement, total: int) -> int:
    if isinstance(demand.source, EvaluatedLimit) and demand.source.rule.max_share is not None:
        total = demand.source.total
    if demand.cap is not None:
        return total - 1 - demand.cap
    return demand.least - 1 if demand.max_skew is None else total - demand.max_skew


def eased(mixed: MultiClassProblem, rule: SharedBound, by: int) -> MultiClassProblem:
    """Return what is left to ask where a rule's bound is eased by so many pods."""
    demands = [
        _eased(each, by) if number in rule.requirements else each for number, each in enumerate(mixed.requirements)
    ]
    return replace(mixed, requirements=tuple(demands))


def _eased(demand: Requirement, by: int) -> Requirement:
    if demand.cap is not None:
        return structs.replace(demand, cap=demand.cap + by)
    if demand.max_skew is not None:
        return structs.replace(demand, max_skew=demand.max_skew + by)
    return structs.replace(demand, least=demand.least - by)


def words(mixed: MultiClassProblem, rule: SharedBound, by: int) -> str:
    """Say how the bound is to be written: of which object, which field, what value."""
    demands = [_eased(mixed.requirements[number], by) for number in rule.requirements]
    first = demands[0]
    if isinstance(first.source, EvaluatedLimit):
        return f"{_bound(demands)} in limit {first.source.group}/{first.source.limit}"
    owners = named(_workloads(mixed, rule))
    return f"maxSkew {first.max_skew} over {first.key} in {owners}"


def _bound(demands: Sequence[Requirement]) -> str:
    """Write a limit's bound; of sets of pods that are too many or too large for it, the one that needs most."""
    caps = [each.cap for each in demands if each.cap is not None]
    shares = [share for share in map(_share, demands) if share is not None]
    if shares:
        return f"maxShare {Share(strict=False, fraction=max(shares))}"
    if caps:
        return f"maxPods {max(caps)}"
    skews = [each.max_skew for each in demands if each.max_skew is not None]
    return f"maxSkew {max(skews)}" if skews else f"minPods {min(each.least for each in demands)}"


def _share(demand: Requirement) -> Fraction | None:
    """Return the share that a limit's cap is of its total; None where that is not how it is written."""
    limit = demand.source
    if not isinstance(limit, EvaluatedLimit) or limit.rule.max_share is None or demand.cap is None:
        return None
    return Fraction(demand.cap, limit.total)


def _workloads(mixed: MultiClassProblem, rule: SharedBound) -> list[Reference]:
    """Return the workloads that state a constraint."""
    sources = [mixed.requirements[number].source for number in rule.requirements]
    return sorted(
        {
            workload
            for judged in mixed.component.groups
            if any(each is source for each in (*judged.hard, *judged.soft) for source in sources)
            for workload in judged.group.workloads
        }
    )


def named(references: Sequence[Reference]) -> str:
    """Name some workloads, and count the rest."""
    rest = f" and {len(references) - _MOST_NAMED} more" if len(references) > _MOST_NAMED else ""
    return ", ".join(map(str, references[:_MOST_NAMED])) + rest
