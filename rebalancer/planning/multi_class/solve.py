"""The fewest evictions for pods of several kinds, by an integer program."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

from rebalancer.planning.multi_class.classes import Cell, MultiClassProblem
from rebalancer.planning.multi_class.milp import SOLVE_BUDGET, Unsolved, minimize
from rebalancer.planning.multi_class.model import PlacementModel
from rebalancer.planning.scope.victims import Victim

__all__ = ["Solution", "Unsolved", "prefer_cheap_victims", "solve"]

_CLOSE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Solution:
    """An arrangement, and how few evictions lead to it: at least `bound`. `stand` is by kind and node.

    `unplaced` pods find no place in it, `excess` is by how much what is asked is exceeded, in all.
    """

    stand: Mapping[Cell, int]
    evictions: int
    bound: int
    unplaced: int = 0
    excess: int = 0


def solve(mixed: MultiClassProblem, *, relaxed: bool = False, effort: int = SOLVE_BUDGET) -> Solution | Unsolved:
    """Return the fewest evictions after which everything can stand as asked, or why there is no answer.

    With `relaxed` not everything has to hold: first as many pods as possible are placed, then as little as possible is
    exceeded, then as few as possible are evicted.
    """
    return _solved(mixed, PlacementModel(mixed, relaxed=relaxed), effort)


def prefer_cheap_victims(mixed: MultiClassProblem, solution: Solution) -> Solution:
    """Return a solution with as few evictions that spares those who are to go last; the same where none is found.

    That are victims of last resort, then those of high priority and of high deletion cost.
    """
    tiers = {_tier(each) for kind in mixed.classes for victims in kind.movable.values() for each in victims}
    if len(tiers) < 2 or not solution.evictions:
        return solution
    rows = PlacementModel(mixed)
    _spare(mixed, rows, sorted(tiers), solution.evictions)
    found = _solved(mixed, rows, SOLVE_BUDGET)
    return solution if isinstance(found, Unsolved) else replace(solution, stand=found.stand)


def _spare(
    mixed: MultiClassProblem, rows: PlacementModel, tiers: Sequence[tuple[bool, int, int]], evictions: int
) -> None:
    """Ask for so many evictions at the most, and for the cheapest pods to go.

    One victim of last resort weighs more than all others together.
    """
    model = rows.model
    ordinary = sum(not avoided for avoided, _, _ in tiers)
    price = {
        tier: position if not tier[0] else position + ordinary * evictions
        for position, tier in enumerate(tiers, start=1)
    }
    kept: dict[int, float] = {}
    for (number, node), stay in rows.stay.items():
        kind = mixed.classes[number]
        model.costs[stay] = 0
        kept[stay] = 1
        parts: dict[int, float] = {stay: -1}
        for tier, many in Counter(_tier(each) for each in kind.movable[node]).items():
            parts[model.column(0, many, -price[tier], whole=False)] = 1
        model.row(-kind.fixed.get(node, 0), -kind.fixed.get(node, 0), parts)
    movable = sum(mixed.classes[kind].counts[node] for kind, node in rows.stay)
    model.row(movable - evictions, inf, kept)


def _tier(victim: Victim) -> tuple[bool, int, int]:
    avoided, priority, deletion, *_ = victim.cost
    return avoided, priority, deletion


def _solved(mixed: MultiClassProblem, rows: PlacementModel, effort: int) -> Solution | Unsolved:
    found = minimize(rows.model, effort)
    if isinstance(found, Unsolved):
        return found
    values, bound = found
    stand = {cell: round(values[column]) for cell, column in rows.stand.items()}
    unplaced = sum(round(values[column]) for column in rows.unplaced)
    over = sum(round(values[column]) * times for column, times in rows.over)
    stay = sum(min(stand[cell], mixed.classes[cell[0]].counts.get(cell[1], 0)) for cell in rows.stay)
    movable = sum(mixed.classes[kind].counts[node] for kind, node in rows.stay)
    evictions = movable - stay
    penalty = unplaced * rows.weight_unplaced + over * rows.weight_over
    lower = max(0, ceil(bound - penalty + movable - _CLOSE))
    return Solution(
        stand={cell: number for cell, number in stand.items() if number},
        evictions=evictions,
        bound=min(lower, evictions),
        unplaced=unplaced,
        excess=over,
    )
