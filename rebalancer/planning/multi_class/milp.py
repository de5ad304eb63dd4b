"""An integer program: columns and rows, simplified to an equivalent program, solved by HiGHS and checked here.

Every answer is checked against the rows of the original program. The solver's own presolve is off, because it has
called feasible models infeasible (HiGHS 1.15.1). Cost: bounded by `SearchLimits.solve_work`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from math import ceil, floor, inf
from typing import Any, Final

from rebalancer.planning.multi_class.outcomes import Outcome, Outcomes, Unsolved
from rebalancer.planning.search.limits import SearchLimits

_CLOSE = 1e-6

_ROUNDS = 3
"""How often the rows are simplified; the tighter columns of each round help the next round."""

Row = tuple[float, float, Mapping[int, float]]
"""The least, the most, and the columns' factors."""


@dataclass
class Program:
    """Columns and rows under construction; the sum of the columns' costs is minimized."""

    costs: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def add_column(self, lower: float, upper: float, cost: float = 0, *, whole: bool = True) -> int:
        """Add a column and return its number."""
        self.costs.append(cost)
        self.lower.append(lower)
        self.upper.append(upper)
        self.whole.append(whole)
        return len(self.costs) - 1

    def add_row(self, least: float, most: float, factors: Mapping[int, float]) -> None:
        """Require that the weighted sum of columns is within these bounds."""
        self.rows.append((least, most, factors))

    def holds(self, values: Sequence[float]) -> bool:
        """Return whether values of the columns satisfy every row and every column's bounds."""
        bounds = zip(self.lower, values, self.upper, strict=True)
        within = all(low - _CLOSE <= value <= high + _CLOSE for low, value, high in bounds)
        return within and all(_is_satisfied(row, values) for row in self.rows)


def _is_satisfied(row: Row, values: Sequence[float]) -> bool:
    least, most, factors = row
    total = sum(factor * values[column] for column, factor in factors.items())
    return least - _CLOSE <= total <= most + _CLOSE


def minimize(program: Program, limits: SearchLimits, work: int) -> tuple[Sequence[float], float] | Unsolved:
    """Return the columns' values at the lowest cost found, and a proved lower bound of the cost."""
    simpler = _Simplified(program)
    if not simpler.possible:
        return Unsolved.INFEASIBLE
    answer = _run(simpler.program, limits, work)
    if isinstance(answer, Unsolved):
        return answer
    values, bound = answer
    return (values, bound) if program.holds(values) else Unsolved.LIMIT_REACHED


class _Simplified:
    """The same program with tighter columns and fewer rows."""

    def __init__(self, program: Program) -> None:
        self.program = Program(program.costs, list(program.lower), list(program.upper), program.whole, program.rows)
        for _ in range(_ROUNDS):
            before = list(self.program.lower), list(self.program.upper), self.program.rows
            self.program.rows = self._drop_contained(self._keep_binding(self._merge()))
            if before == (self.program.lower, self.program.upper, self.program.rows):
                break
        self.possible = all(
            low <= high + _CLOSE for low, high in zip(self.program.lower, self.program.upper, strict=True)
        )

    def _merge(self) -> list[Row]:
        """Merge rows with the same factors, and remove columns with a single value and rows with a single column."""
        lower, upper = self.program.lower, self.program.upper
        merged: dict[frozenset[tuple[int, float]], Row] = {}
        for least, most, factors in self.program.rows:
            free = {column: factor for column, factor in factors.items() if lower[column] < upper[column]}
            settled = sum(factor * lower[column] for column, factor in factors.items() if column not in free)
            low, high = least - settled, most - settled
            if len(free) == 1:
                ((column, factor),) = free.items()
                self._tighten(column, *((low / factor, high / factor) if factor > 0 else (high / factor, low / factor)))
                continue
            key = frozenset(free.items())
            known = merged.get(key, (-inf, inf, free))
            merged[key] = max(low, known[0]), min(high, known[1]), free
        return list(merged.values())

    def _tighten(self, column: int, low: float, high: float) -> None:
        program = self.program
        if program.whole[column]:
            low, high = (ceil(low - _CLOSE) if low > -inf else low), (floor(high + _CLOSE) if high < inf else high)
        program.lower[column] = max(program.lower[column], low)
        program.upper[column] = min(program.upper[column], high)

    def _keep_binding(self, rows: list[Row]) -> list[Row]:
        """Keep the rows that the columns' own bounds do not imply."""
        lower, upper = self.program.lower, self.program.upper
        binding = []
        for least, most, factors in rows:
            plain = all(factor == 1 for factor in factors.values())
            if plain:
                low = sum([lower[column] for column in factors])
                high = sum([upper[column] for column in factors])
            else:
                low = high = 0.0
                for column, factor in factors.items():
                    ends = factor * lower[column], factor * upper[column]
                    low += min(ends)
                    high += max(ends)
            if plain and most < high:
                slack = most - low
                for column in factors:
                    if slack + lower[column] < upper[column]:
                        self._tighten(column, -inf, slack + lower[column])
            if least > low + _CLOSE or most < high - _CLOSE:
                binding.append(
                    (least if least > low + _CLOSE else -inf, most if most < high - _CLOSE else inf, factors)
                )
        return binding

    # Many branches: the conditions of containment are comprehensions.
    def _drop_contained(self, rows: list[Row]) -> list[Row]:
        """Leave out sums that are part of another sum with an equal or lower bound."""
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
        remaining = [(least, inf if number in part else most, row) for number, (least, most, row) in enumerate(rows)]
        return [row for row in remaining if row[0] > -inf or row[1] < inf]


_outcomes: Final = Outcomes()


def _run(program: Program, limits: SearchLimits, work: int) -> tuple[Sequence[float], float] | Unsolved:
    of_namespace = limits.namespace_work
    work = work if of_namespace is None else min(work, of_namespace.left)
    rows = [(least, most, [*factors.items()]) for least, most, factors in program.rows]
    content = (program.costs, program.lower, program.upper, program.whole, rows)
    digest = sha256(repr((content, limits.solver_nodes, limits.simplex_iterations)).encode()).digest()
    outcome = _outcomes.find(digest, work)
    if outcome is None:
        outcome = _solve(program, limits, work)
        _outcomes.store(digest, work, outcome)
    if of_namespace is not None:
        of_namespace.spend(outcome.work)
    return outcome.answer


def _solve(program: Program, limits: SearchLimits, work: int) -> Outcome:
    import highspy  # noqa: PLC0415  # importing it loads numpy, and most clusters never need it

    solver = _quiet_solver()()
    for option, setting in (
        ("presolve", "off"),
        ("threads", 1),
        ("random_seed", 0),
        ("mip_rel_gap", 0.0),
        ("mip_abs_gap", 0.999),
        ("mip_max_nodes", limits.solver_nodes),
        ("simplex_iteration_limit", limits.simplex_iterations),
    ):
        solver.setOptionValue(option, setting)
    numbers = max(1, sum(len(factors) for _, _, factors in program.rows))
    most = left = work // numbers

    def count_report(event: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            event.interrupt()

    solver.cbMipInterrupt += count_report
    solver.passModel(_to_highs(program))
    solver.run()
    taken = numbers * (most - max(0, left))
    info = solver.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        infeasible = solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible
        return Outcome(Unsolved.INFEASIBLE if infeasible else Unsolved.LIMIT_REACHED, taken, left < 0)
    values = list(solver.getSolution().col_value)
    rounded = [float(round(value)) if whole else value for value, whole in zip(values, program.whole, strict=True)]
    return Outcome((rounded, info.mip_dual_bound), taken, left < 0)


@cache
def _quiet_solver() -> Any:
    """Return a class of solvers that print nothing in any release.

    HiGHS 1.16.0 prints a banner at the first call that sets no option, and the constructor of `Highs` makes one.
    """
    import highspy  # noqa: PLC0415

    class Quiet(highspy.Highs):
        def enableCallbacks(self) -> None:  # noqa: N802
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()  # type: ignore[no-untyped-call]

    return Quiet


def _to_highs(program: Program) -> Any:
    """Return a program as HiGHS takes it."""
    import highspy  # noqa: PLC0415

    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(program.costs), len(program.rows)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.costs, program.lower, program.upper
    lp.row_lower_ = [least for least, _, _ in program.rows]
    lp.row_upper_ = [most for _, most, _ in program.rows]
    lp.integrality_ = [
        highspy.HighsVarType.kInteger if whole else highspy.HighsVarType.kContinuous for whole in program.whole
    ]
    starts, index = [0], list[int]()
    value: list[float] = []
    for _, _, factors in program.rows:
        index += list(factors)
        value += list(factors.values())
        starts.append(len(index))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = starts, index, value
    return lp
