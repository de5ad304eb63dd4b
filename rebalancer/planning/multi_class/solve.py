"""The fewest evictions for pods of several classes, by an integer program (`model` states it, `milp` solves it)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

from rebalancer.planning.multi_class.classes import Cell, PodClasses
from rebalancer.planning.multi_class.milp import minimize
from rebalancer.planning.multi_class.model import PlacementModel
from rebalancer.planning.multi_class.outcomes import Unsolved
from rebalancer.planning.scope.victims import Allowed
from rebalancer.planning.search.limits import SearchLimits

__all__ = ["Solution", "Unsolved", "prefer_cheap_victims", "solve", "solve_model"]

_CLOSE = 1e-6

_Tier = tuple[Allowed, bool, int, int]
"""The part of a victim's cost that the program prices (`Cost.tier`)."""


@dataclass(frozen=True, kw_only=True)
class Solution:
    """A placement, the evictions that lead to it, and `bound`, a proved lower bound of evictions.

    `placed` is the number of pods by class and node; `unplaced` is the number of pods without a
    node, `excess` the number of pods by which requirements are exceeded, in all.
    """

    placed: Mapping[Cell, int]
    evictions: int
    bound: int
    unplaced: int = 0
    excess: int = 0

    @property
    def holds(self) -> bool:
        """Whether every pod has a node and every requirement holds."""
        return not self.unplaced and not self.excess


def solve(
    classes: PodClasses, limits: SearchLimits, *, relaxed: bool = False, work: int | None = None
) -> Solution | Unsolved:
    """Return the fewest evictions after which every pod can be placed as required, or why there is no answer.

    With `relaxed` not every requirement has to hold: the solution minimizes first the pods without a node, then the
    excess, then the evictions. `work` is by default `limits.solve_work`.
    """
    return solve_model(PlacementModel(classes, relaxed=relaxed), limits, work)


def prefer_cheap_victims(classes: PodClasses, solution: Solution, limits: SearchLimits) -> Solution:
    """Return a solution with equally few evictions of cheaper pods; the given solution if none is found.

    Pods that the budgets do not allow now are avoided first, then victims of last resort, then pods of high priority
    and of high deletion cost.
    """
    tiers = {
        victim.cost.tier
        for pod_class in classes.classes
        for victims in pod_class.movable.values()
        for victim in victims
    }
    if len(tiers) < 2 or not solution.evictions:
        return solution
    model = PlacementModel(classes)
    _price_evictions(classes, model, sorted(tiers), solution.evictions)
    cheaper = solve_model(model, limits)
    return solution if isinstance(cheaper, Unsolved) else replace(solution, placed=cheaper.placed)


def _price_evictions(classes: PodClasses, model: PlacementModel, tiers: Sequence[_Tier], evictions: int) -> None:
    """Allow at most `evictions`, and price them so that the cheapest pods are evicted.

    A pod that the budgets allow only later, or a victim of last resort, costs more than all cheaper pods together.
    """
    program = model.program
    price: dict[_Tier, int] = {}
    before = 0
    for position, tier in enumerate(tiers, start=1):
        previous = tiers[position - 2] if position > 1 else tier
        if tier[:2] != previous[:2]:
            before = price[previous] * evictions
        price[tier] = before + position
    staying: dict[int, float] = {}
    for (number, node), stay in model.stay.items():
        pod_class = classes.classes[number]
        program.costs[stay] = 0
        staying[stay] = 1
        parts: dict[int, float] = {stay: -1}
        for tier, many in Counter(victim.cost.tier for victim in pod_class.movable[node]).items():
            parts[program.add_column(0, many, -price[tier], whole=False)] = 1
        fixed = -pod_class.fixed.get(node, 0)
        program.add_row(fixed, fixed, parts)
    program.add_row(_count_movable(classes, model) - evictions, inf, staying)


def _count_movable(classes: PodClasses, model: PlacementModel) -> int:
    return sum(classes.classes[number].counts[node] for number, node in model.stay)


def solve_model(model: PlacementModel, limits: SearchLimits, work: int | None = None) -> Solution | Unsolved:
    """Return the solution of a component's program, or why there is no answer; see `solve`."""
    classes = model.classes
    answer = minimize(model.program, limits, limits.solve_work if work is None else work)
    if isinstance(answer, Unsolved):
        return answer
    values, bound = answer
    placed = {cell: round(values[column]) for cell, column in model.placed.items()}
    unplaced = sum(round(values[column]) for column in model.unplaced)
    over = sum(round(values[column]) * times for column, times in model.over)
    stay = sum(min(placed[cell], classes.classes[cell[0]].counts.get(cell[1], 0)) for cell in model.stay)
    movable = _count_movable(classes, model)
    evictions = movable - stay
    penalty = unplaced * model.weight_unplaced + over * model.weight_over
    lower = max(0, ceil(bound - penalty + movable - _CLOSE))
    return Solution(
        placed={cell: number for cell, number in placed.items() if number},
        evictions=evictions,
        bound=min(lower, evictions),
        unplaced=unplaced,
        excess=over,
    )
