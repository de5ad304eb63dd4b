"""An integer program: columns and rows, made smaller without changing what they say, solved by HiGHS and checked here.

Nothing is taken on trust: an answer is held against every row as it was first written, and the solver's own presolve is
off, since it has called feasible models infeasible (HiGHS 1.15.1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import ceil, floor, inf
from typing import Any

SOLVE_BUDGET = 6_000_000
"""What one solution may take: how often the solver looks up from its work, times the numbers in the matrix. A bound in
numbers, so that every machine answers alike; some 20 s of a hard program."""

_NODES = 20_000
"""How many nodes of the search tree one solution may take."""

_FUSE = 120.0
"""Seconds after which one solution is given up whatever it has reached. It ends what no number bounds, one step of the
solver that goes on for ever, and is told like any other bound."""

_CLOSE = 1e-6

_ROUNDS = 3
"""How often the rows are made simpler: what one round finds helps the next."""

Row = tuple[float, float, Mapping[int, float]]
"""The least, the most, and the columns' factors."""


class Unsolved(Enum):
    """Why there is no solution."""

    INFEASIBLE = "infeasible"
    GIVEN_UP = "given up"


@dataclass
class Model:
    """Columns and rows under construction. The sum of the columns' costs is to be the least."""

    costs: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def column(self, lower: float, upper: float, cost: float = 0, *, whole: bool = True) -> int:
        """Add a column and return its number."""
        self.costs.append(cost)
        self.lower.append(lower)
        self.upper.append(upper)
        self.whole.append(whole)
        return len(self.costs) - 1

    def row(self, least: float, most: float, factors: Mapping[int, float]) -> None:
        """Ask that the columns' sum is within these bounds."""
        self.rows.append((least, most, factors))

    def holds(self, values: Sequence[float]) -> bool:
        """Say whether values of the columns satisfy every row, whatever a solver says."""
        bounds = zip(self.lower, values, self.upper, strict=True)
        within = all(low - _CLOSE <= each <= high + _CLOSE for low, each, high in bounds)
        return within and all(_satisfied(row, values) for row in self.rows)


def _satisfied(row: Row, values: Sequence[float]) -> bool:
    least, most, factors = row
    total = sum(factor * values[column] for column, factor in factors.items())
    return least - _CLOSE <= total <= most + _CLOSE


def minimize(model: Model, effort: int = SOLVE_BUDGET) -> tuple[list[float], float] | Unsolved:
    """Return the columns' values at the least cost, and what the cost is at the least."""
    simpler = _Simpler(model)
    if not simpler.possible:
        return Unsolved.INFEASIBLE
    found = _run(simpler.model, effort)
    if isinstance(found, Unsolved):
        return found
    values, bound = found
    return (values, bound) if model.holds(values) else Unsolved.GIVEN_UP


class _Simpler:
    """The same program with tighter columns and fewer rows."""

    def __init__(self, model: Model) -> None:
        self.model = Model(model.costs, list(model.lower), list(model.upper), model.whole, model.rows)
        for _ in range(_ROUNDS):
            self.model.rows = self._uncontained(self._binding(self._merged()))
        self.possible = all(low <= high + _CLOSE for low, high in zip(self.model.lower, self.model.upper, strict=True))

    def _merged(self) -> list[Row]:
        """Put rows of the same factors together; columns that have one value are taken out, rows of one column too."""
        lower, upper = self.model.lower, self.model.upper
        found: dict[frozenset[tuple[int, float]], Row] = {}
        for least, most, factors in self.model.rows:
            free = {column: factor for column, factor in factors.items() if lower[column] < upper[column]}
            settled = sum(factor * lower[column] for column, factor in factors.items() if column not in free)
            low, high = least - settled, most - settled
            if len(free) == 1:
                ((column, factor),) = free.items()
                self._tighten(column, *((low / factor, high / factor) if factor > 0 else (high / factor, low / factor)))
                continue
            key = frozenset(free.items())
            known = found.get(key, (-inf, inf, free))
            found[key] = max(low, known[0]), min(high, known[1]), free
        return list(found.values())

    def _tighten(self, column: int, low: float, high: float) -> None:
        model = self.model
        if model.whole[column]:
            low, high = (ceil(low - _CLOSE) if low > -inf else low), (floor(high + _CLOSE) if high < inf else high)
        model.lower[column] = max(model.lower[column], low)
        model.upper[column] = min(model.upper[column], high)

    def _binding(self, rows: list[Row]) -> list[Row]:
        """Keep what the columns' own bounds do not say already."""
        lower, upper = self.model.lower, self.model.upper
        found = []
        for least, most, factors in rows:
            low = high = 0.0
            for column, factor in factors.items():
                ends = factor * lower[column], factor * upper[column]
                low += min(ends)
                high += max(ends)
            if most < high and all(factor == 1 for factor in factors.values()):
                for column in factors:
                    self._tighten(column, -inf, most - low + lower[column])
            if least > low + _CLOSE or most < high - _CLOSE:
                found.append((least if least > low + _CLOSE else -inf, most if most < high - _CLOSE else inf, factors))
        return found

    def _uncontained(self, rows: list[Row]) -> list[Row]:
        """Leave out sums that are part of another sum which may be no more."""
        sums = [number for number, (_, most, factors) in enumerate(rows) if most < inf and set(factors.values()) == {1}]
        having: dict[int, list[int]] = {}
        for number in sums:
            for column in rows[number][2]:
                having.setdefault(column, []).append(number)
        part = set()
        for number in sums:
            _, most, factors = rows[number]
            fewest = min((having[column] for column in factors), key=len)
            part |= {
                number
                for other in fewest
                if rows[other][1] <= most
                and len(rows[other][2]) > len(factors)
                and factors.keys() <= rows[other][2].keys()
            }
        kept = [(least, inf if number in part else most, row) for number, (least, most, row) in enumerate(rows)]
        return [row for row in kept if row[0] > -inf or row[1] < inf]


def _run(model: Model, effort: int) -> tuple[list[float], float] | Unsolved:
    import highspy  # noqa: PLC0415  # it brings numpy; most fleets never need it

    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, setting in (
        ("output_flag", False),
        ("presolve", "off"),
        ("threads", 1),
        ("random_seed", 0),
        ("mip_rel_gap", 0.0),
        ("mip_abs_gap", 0.999),
        ("mip_max_nodes", _NODES),
        ("time_limit", _FUSE),
    ):
        solver.setOptionValue(option, setting)
    left = effort // max(1, sum(len(factors) for _, _, factors in model.rows))

    def look_up(event: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            event.interrupt()

    solver.cbMipInterrupt += look_up
    solver.passModel(_program(model))
    solver.run()
    info = solver.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        infeasible = solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible
        return Unsolved.INFEASIBLE if infeasible else Unsolved.GIVEN_UP
    values = list(solver.getSolution().col_value)
    rounded = [float(round(each)) if whole else each for each, whole in zip(values, model.whole, strict=True)]
    return rounded, info.mip_dual_bound


def _program(model: Model) -> Any:
    """Return a model as HiGHS takes it."""
    import highspy  # noqa: PLC0415

    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(model.costs), len(model.rows)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = model.costs, model.lower, model.upper
    lp.row_lower_ = [least for least, _, _ in model.rows]
    lp.row_upper_ = [most for _, most, _ in model.rows]
    lp.integrality_ = [
        highspy.HighsVarType.kInteger if whole else highspy.HighsVarType.kContinuous for whole in model.whole
    ]
    starts, index = [0], list[int]()
    value: list[float] = []
    for _, _, factors in model.rows:
        index += list(factors)
        value += list(factors.values())
        starts.append(len(index))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = starts, index, value
    return lp
