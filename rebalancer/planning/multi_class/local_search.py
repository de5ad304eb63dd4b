"""Placements near a known placement: an upper bound on the evictions of a supposed state, without solving again.

Problem: the scheduler seldom puts a replacement on exactly the node that the known placement has for it. Idea: mostly
another placement with equally few evictions has it there; pods that are still to be placed exchange nodes with it. Each
exchange is checked against the rows of the integer program, so that every requirement still holds. A placement may
exist even if none is found. Example: web-0 was planned on a-1 and was placed on a-2, where db-3 is planned; if db-3
fits a-1, the two are exchanged. Cost: `SearchLimits.local_changes` exchanges for each pod, each in proportion to the
rows that it changes.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from rebalancer.planning.multi_class.classes import Cell
from rebalancer.planning.multi_class.model import PlacementModel
from rebalancer.planning.search.limits import SearchBudget, SearchLimits

_CLOSE = 1e-9

Change = Mapping[Cell, int]
"""Pods added to cells of a placement (negative: removed)."""


class LocalSearch:
    """The placements near a placement that satisfies every requirement. Each tried change costs 1 of `budget`."""

    def __init__(
        self, model: PlacementModel, placed: Mapping[Cell, int], budget: SearchBudget, limits: SearchLimits
    ) -> None:
        self._budget = budget
        self._tries = limits.local_changes
        self._rows = _CellRows(model)
        self._sums = self._rows.sums(placed)
        self._target = placed
        self._now = {
            (number, node): count
            for number, pod_class in enumerate(model.classes.classes)
            for node, count in pod_class.counts.items()
        }

    def min_evictions(self, deltas: Mapping[Cell, int], goal: int) -> int:
        """Return the fewest evictions found from a state to a valid placement; at `goal` the search ends.

        `deltas` are the pods added (negative: removed) since now, by cell.
        """
        state = self._now | {cell: self._now.get(cell, 0) + change for cell, change in deltas.items()}
        placed, sums = dict(self._target), dict(self._sums)
        left = sum(max(0, count - placed.get(cell, 0)) for cell, count in state.items())
        for cell in sorted(deltas):
            while left > goal and state[cell] > placed.get(cell, 0):
                change = self._next_change(cell, state, placed, sums)
                if change is None:
                    break
                for changed, by in change.items():
                    placed[changed] = placed.get(changed, 0) + by
                sums.update(self._rows.after(change, sums))
                left -= 1
        return left

    def _next_change(
        self, cell: Cell, state: Mapping[Cell, int], placed: Mapping[Cell, int], sums: Mapping[int, float]
    ) -> Change | None:
        """Return a change after which one more pod may stay in a cell and all requirements still hold."""
        for change in islice(self._changes(cell, state, placed), self._tries):
            self._budget.spend(1)
            if self._rows.hold(change, placed, sums):
                return change
        return None

    # Many branches: three kinds of exchanges, each a loop over the cells that may take part.
    def _changes(self, cell: Cell, state: Mapping[Cell, int], placed: Mapping[Cell, int]) -> Iterator[Change]:
        """Yield changes that may keep every requirement satisfied.

        A pod that was planned on another node is in this cell instead, alone or in exchange for a pod of another class.
        """
        coming = [other for other in sorted(placed) if placed[other] > state.get(other, 0)]
        pod_class, node = cell
        own = [other for other in coming if other[0] == pod_class]
        others = [other for other in coming if other[0] != pod_class]
        for lost in own:
            yield {lost: -1, cell: 1}
        for lost in own:
            for other in others:
                back = other[0], lost[1]
                if back != other and state.get(back, 0) <= placed.get(back, 0):
                    yield {lost: -1, cell: 1, other: -1, back: 1}
        for lost in own:
            for other in others:
                if other[1] == node:
                    for at in self._rows.nodes:
                        back = other[0], at
                        if at not in {node, lost[1]} and state.get(back, 0) <= placed.get(back, 0):
                            yield {lost: -1, cell: 1, other: -1, back: 1}


class _CellRows:
    """The rows that each cell is in."""

    def __init__(self, model: PlacementModel) -> None:
        program = model.program
        self._bounds = {cell: (program.lower[column], program.upper[column]) for cell, column in model.placed.items()}
        self.nodes = sorted({node for _, node in model.placed})
        cells = {column: cell for cell, column in model.placed.items()}
        stay = {*model.stay.values(), *model.sides}
        self._sided = _SidedDomains(model)
        self._of: dict[Cell, list[tuple[int, float]]] = {cell: [] for cell in model.placed}
        self._limits: dict[int, tuple[float, float]] = {}
        self._level: dict[int, int] = {}
        """The column of the least count in a row."""
        self._levels: dict[int, tuple[float, float, list[int]]] = {}
        """The bounds and the rows of each such column."""
        for number, (least, most, factors) in enumerate(program.rows):
            if not stay.isdisjoint(factors):
                continue
            self._limits[number] = least, most
            for column, factor in factors.items():
                if column in cells:
                    self._of[cells[column]].append((number, factor))
                else:
                    self._level[number] = column
                    ends = program.lower[column], program.upper[column]
                    self._levels.setdefault(column, (*ends, []))[2].append(number)

    def sums(self, placed: Mapping[Cell, int]) -> dict[int, float]:
        """Return the sum of each row in a placement, without the columns of least counts."""
        sums_after = dict.fromkeys(self._limits, 0.0)
        for cell, count in placed.items():
            for number, factor in self._of[cell]:
                sums_after[number] += factor * count
        return sums_after

    def after(self, change: Change, sums: Mapping[int, float]) -> dict[int, float]:
        """Return the sums after a change of the rows that it changes."""
        sums_after: dict[int, float] = {}
        for cell, by in change.items():
            for number, factor in self._of[cell]:
                sums_after[number] = sums_after.get(number, sums[number]) + factor * by
        return sums_after

    def hold(self, change: Change, placed: Mapping[Cell, int], sums: Mapping[int, float]) -> bool:
        """Return whether a placement that satisfies every row still does after a change."""
        for cell, by in change.items():
            low, high = self._bounds.get(cell, (0, 0))
            if not low <= placed.get(cell, 0) + by <= high:
                return False
        if not self._sided.hold(change, placed):
            return False
        after = self.after(change, sums)
        levels = set()
        for number, total in after.items():
            level = self._level.get(number)
            if level is not None:
                levels.add(level)
                continue
            least, most = self._limits[number]
            if not least - _CLOSE <= total <= most + _CLOSE:
                return False
        return all(self._level_holds(level, after, sums) for level in sorted(levels))

    def _level_holds(self, level: int, after: Mapping[int, float], sums: Mapping[int, float]) -> bool:
        """Return whether some value of a least count satisfies all rows that contain it; each row gives a range."""
        low, high, numbers = self._levels[level]
        for number in numbers:
            total = after.get(number, sums[number])
            least, most = self._limits[number]
            low, high = max(low, total - most), min(high, total - least)
        return low <= high + _CLOSE


class _SidedDomains:
    """The domains that may hold one of several sides of an exclusion; they are counted, without rows."""

    def __init__(self, model: PlacementModel) -> None:
        self._exclusions = [one for one in model.classes.exclusions if not one.is_mutual]
        self._cells: dict[tuple[int, str], list[Cell]] = {}
        for index, exclusion in enumerate(self._exclusions):
            for cell in model.placed:
                if cell[0] in exclusion.parts and cell[1] in exclusion.domain:
                    self._cells.setdefault((index, exclusion.domain[cell[1]]), []).append(cell)

    def hold(self, change: Change, placed: Mapping[Cell, int]) -> bool:
        """Return whether no pod is in excess in the domains that a change concerns."""
        for index, exclusion in enumerate(self._exclusions):
            changed = {
                exclusion.domain[node]
                for number, node in change
                if number in exclusion.parts and node in exclusion.domain
            }
            for domain in sorted(changed):
                cells = self._cells.get((index, domain), [])
                pods = ((*cell, placed.get(cell, 0) + change.get(cell, 0)) for cell in cells)
                if exclusion.excess(exclusion.count(pods)):
                    return False
        return True
