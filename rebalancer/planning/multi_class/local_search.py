"""Arrangements near a known one: how far a supposed state is from right at the most, without solving anew.

The scheduler seldom puts a replacement on the very node that the known arrangement has for it. Mostly there is an
arrangement of as few evictions that has it where it landed: pods that are still to come change places with it. Each
change is held against the rows of the integer program, so that what is found holds as the first one did; what is not
found may exist all the same.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from rebalancer.planning.multi_class.classes import Cell, MultiClassProblem
from rebalancer.planning.multi_class.model import PlacementModel
from rebalancer.planning.steps.forced import SearchBudget

_CLOSE = 1e-9

_TRIES = 200
"""How many changes are tried for one pod."""

Change = Mapping[Cell, int]
"""Pods more or less in some cells of an arrangement."""


class LocalSearch:
    """The surroundings of an arrangement in which everything that is asked holds. `effort` is spent on each change."""

    def __init__(self, mixed: MultiClassProblem, stand: Mapping[Cell, int], effort: SearchBudget) -> None:
        self._effort = effort
        self._rows = _Touched(PlacementModel(mixed))
        self._sums = self._rows.sums(stand)
        self._aim = stand
        self._now = {
            (number, node): count for number, kind in enumerate(mixed.classes) for node, count in kind.counts.items()
        }

    def fewest(self, deltas: Mapping[Cell, int], goal: int) -> int:
        """Return how few evictions lead from a state to what is found; once that is no more than `goal`, no better.

        `deltas` are pods more or less than now, by cell.
        """
        state = self._now | {cell: self._now.get(cell, 0) + change for cell, change in deltas.items()}
        stand, sums = dict(self._aim), dict(self._sums)
        left = sum(max(0, count - stand.get(cell, 0)) for cell, count in state.items())
        for cell in sorted(deltas):
            while left > goal and state[cell] > stand.get(cell, 0):
                change = self._next(cell, state, stand, sums)
                if change is None:
                    break
                for each, by in change.items():
                    stand[each] = stand.get(each, 0) + by
                sums.update(self._rows.after(change, sums))
                left -= 1
        return left

    def _next(
        self, cell: Cell, state: Mapping[Cell, int], stand: Mapping[Cell, int], sums: Mapping[int, float]
    ) -> Change | None:
        """Return a change after which one pod more may stay in a cell, and everything still holds."""
        for change in islice(self._changes(cell, state, stand), _TRIES):
            self._effort.spend(1)
            if self._rows.hold(change, stand, sums):
                return change
        return None

    def _changes(self, cell: Cell, state: Mapping[Cell, int], stand: Mapping[Cell, int]) -> Iterator[Change]:
        """Yield what may do: a pod that was to come elsewhere comes here, alone or for one of another kind."""
        coming = [each for each in sorted(stand) if stand[each] > state.get(each, 0)]
        kind, node = cell
        own = [each for each in coming if each[0] == kind]
        others = [each for each in coming if each[0] != kind]
        for lost in own:
            yield {lost: -1, cell: 1}
        for lost in own:
            for other in others:
                back = other[0], lost[1]
                if back != other and state.get(back, 0) <= stand.get(back, 0):
                    yield {lost: -1, cell: 1, other: -1, back: 1}
        for lost in own:
            for other in others:
                if other[1] == node:
                    for at in self._rows.nodes:
                        back = other[0], at
                        if at not in {node, lost[1]} and state.get(back, 0) <= stand.get(back, 0):
                            yield {lost: -1, cell: 1, other: -1, back: 1}


class _Touched:
    """The rows that each cell is in."""

    def __init__(self, rows: PlacementModel) -> None:
        model = rows.model
        self._bounds = {cell: (model.lower[column], model.upper[column]) for cell, column in rows.stand.items()}
        self.nodes = sorted({node for _, node in rows.stand})
        cells = {column: cell for cell, column in rows.stand.items()}
        stay = set(rows.stay.values())
        self._of: dict[Cell, list[tuple[int, float]]] = {cell: [] for cell in rows.stand}
        self._limits: dict[int, tuple[float, float]] = {}
        self._level: dict[int, int] = {}
        """The column of the least count that a row is about."""
        self._levels: dict[int, tuple[float, float, list[int]]] = {}
        """Of each such column its bounds and its rows."""
        for number, (least, most, factors) in enumerate(model.rows):
            if not stay.isdisjoint(factors):
                continue
            self._limits[number] = least, most
            for column, factor in factors.items():
                if column in cells:
                    self._of[cells[column]].append((number, factor))
                else:
                    self._level[number] = column
                    ends = model.lower[column], model.upper[column]
                    self._levels.setdefault(column, (*ends, []))[2].append(number)

    def sums(self, stand: Mapping[Cell, int]) -> dict[int, float]:
        """Return what the rows come to in an arrangement, leaving out the least counts."""
        found = dict.fromkeys(self._limits, 0.0)
        for cell, count in stand.items():
            for number, factor in self._of[cell]:
                found[number] += factor * count
        return found

    def after(self, change: Change, sums: Mapping[int, float]) -> dict[int, float]:
        """Return what the rows that a change touches come to after it."""
        found: dict[int, float] = {}
        for cell, by in change.items():
            for number, factor in self._of[cell]:
                found[number] = found.get(number, sums[number]) + factor * by
        return found

    def hold(self, change: Change, stand: Mapping[Cell, int], sums: Mapping[int, float]) -> bool:
        """Say whether everything still holds after a change of an arrangement in which it does."""
        for cell, by in change.items():
            low, high = self._bounds.get(cell, (0, 0))
            if not low <= stand.get(cell, 0) + by <= high:
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
        """Say whether some least count suits all rows that are about it: each leaves it a range."""
        low, high, numbers = self._levels[level]
        for number in numbers:
            total = after.get(number, sums[number])
            least, most = self._limits[number]
            low, high = max(low, total - most), min(high, total - least)
        return low <= high + _CLOSE
