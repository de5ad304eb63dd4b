"""Bounds that could be eased: which there are, what is asked once one is, and how a person would write it.

Workloads of one selector that ask for the same say it each for itself, and a limit is judged for each set of pods
apart. Whoever eases it changes all of them, so they are one rule here.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from fractions import Fraction

from msgspec import Struct, structs

from rebalancer.assessment.limits import JudgedLimit
from rebalancer.model.moves import Reference
from rebalancer.planning.demands import Demand
from rebalancer.planning.mixture import Mixed
from rebalancer.policy import Share

_MOST_NAMED = 3


class Rule(Struct, frozen=True, gc=False):
    """Demands, by their numbers, that state one bound."""

    demands: tuple[int, ...]


def rules(mixed: Mixed) -> tuple[Rule, ...]:
    """Return the bounds that can be eased. The shares of what happens to stand in a larger domain are none."""
    found: dict[Hashable, list[int]] = {}
    for number, demand in enumerate(mixed.demands):
        source = demand.source
        if isinstance(source, JudgedLimit):
            if source.rule.within is None or source.rule.max_share is None:
                found.setdefault((source.group, source.limit), []).append(number)
        else:
            counted = frozenset(kind for kind, each in enumerate(mixed.kinds) if number in each.demands)
            found.setdefault((demand.asked, demand.nodes, counted), []).append(number)
    return tuple(Rule(tuple(numbers)) for numbers in found.values())


def farthest(mixed: Mixed, rule: Rule) -> int:
    """Return by how much a rule can be eased before it asks for nothing."""
    total = sum(sum(kind.counts.values()) + kind.pending for kind in mixed.kinds)
    return max(0, min(_farthest(mixed.demands[number], total) for number in rule.demands))


def _farthest(demand: Demand, total: int) -> int:
    if isinstance(demand.source, JudgedLimit) and demand.source.rule.max_share is not None:
        total = demand.source.total
    if demand.cap is not None:
        return total - 1 - demand.cap
    return demand.least - 1 if demand.max_skew is None else total - demand.max_skew


def eased(mixed: Mixed, rule: Rule, by: int) -> Mixed:
    """Return what is left to ask where a rule's bound is eased by so many pods."""
    demands = [_eased(each, by) if number in rule.demands else each for number, each in enumerate(mixed.demands)]
    return replace(mixed, demands=tuple(demands))


def _eased(demand: Demand, by: int) -> Demand:
    if demand.cap is not None:
        return structs.replace(demand, cap=demand.cap + by)
    if demand.max_skew is not None:
        return structs.replace(demand, max_skew=demand.max_skew + by)
    return structs.replace(demand, least=demand.least - by)


def words(mixed: Mixed, rule: Rule, by: int) -> str:
    """Say how the bound is to be written: of which object, which field, what value."""
    demands = [_eased(mixed.demands[number], by) for number in rule.demands]
    first = demands[0]
    if isinstance(first.source, JudgedLimit):
        return f"{_bound(demands)} in limit {first.source.group}/{first.source.limit}"
    owners = named(_workloads(mixed, rule))
    return f"maxSkew {first.max_skew} over {first.key} in {owners}"


def _bound(demands: Sequence[Demand]) -> str:
    """Write a limit's bound; of sets of pods that are too many or too large for it, the one that needs most."""
    caps = [each.cap for each in demands if each.cap is not None]
    shares = [share for share in map(_share, demands) if share is not None]
    if shares:
        return f"maxShare {Share(strict=False, fraction=max(shares))}"
    if caps:
        return f"maxPods {max(caps)}"
    skews = [each.max_skew for each in demands if each.max_skew is not None]
    return f"maxSkew {max(skews)}" if skews else f"minPods {min(each.least for each in demands)}"


def _share(demand: Demand) -> Fraction | None:
    """Return the share that a limit's cap is of its total; None where that is not how it is written."""
    limit = demand.source
    if not isinstance(limit, JudgedLimit) or limit.rule.max_share is None or demand.cap is None:
        return None
    return Fraction(demand.cap, limit.total)


def _workloads(mixed: Mixed, rule: Rule) -> list[Reference]:
    """Return the workloads that state a constraint."""
    sources = [mixed.demands[number].source for number in rule.demands]
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
