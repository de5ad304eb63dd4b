"""The fewest evictions for pods of several kinds, as an integer program, solved by HiGHS and checked here.

A column says how many pods of a kind stand on a node in the end, another how many of those never left it. Everything
that is asked is a row over whole columns. Nothing is taken on trust: an answer is held against every row with whole
numbers, and presolve is off, since it has called feasible models infeasible (HiGHS 1.15.1).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import ceil, inf

from rebalancer.model.pods import Resources
from rebalancer.planning.layout import Victim
from rebalancer.planning.mixture import Cell, Kind, Mixed

_NODES = 20_000
"""How many nodes of the search tree one solution may take: a bound in numbers, so that every machine answers alike."""

_FUSE = 20.0
"""Seconds after which one solution is given up whatever it has reached."""

_CLOSE = 1e-6
_MANY = 10**6
"""More pods than a domain ever holds."""


class Unsolved(Enum):
    """Why there is no solution."""

    INFEASIBLE = "infeasible"
    GIVEN_UP = "given up"


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


@dataclass
class _Model:
    """Columns and rows under construction; a row is (least, most, coefficients)."""

    costs: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    rows: list[tuple[float, float, dict[int, float]]] = field(default_factory=list)

    def column(self, lower: float, upper: float, cost: float = 0, *, whole: bool = True) -> int:
        self.costs.append(cost)
        self.lower.append(lower)
        self.upper.append(upper)
        self.whole.append(whole)
        return len(self.costs) - 1


def solve(mixed: Mixed, *, relaxed: bool = False, nodes: int = _NODES) -> Solution | Unsolved:
    """Return the fewest evictions after which everything can stand as asked, or why there is no answer.

    With `relaxed` not everything has to hold: first as many pods as possible are placed, then as little as possible is
    exceeded, then as few as possible are evicted.
    """
    return _Program(mixed, relaxed=relaxed).solved(nodes)


def cheapest(mixed: Mixed, solution: Solution) -> Solution:
    """Return a solution with as few evictions that spares those who are to go last; the same where none is found.

    That are victims of last resort, then those of high priority and of high deletion cost.
    """
    tiers = {_tier(each) for kind in mixed.kinds for victims in kind.movable.values() for each in victims}
    if len(tiers) < 2 or not solution.evictions:
        return solution
    program = _Program(mixed, relaxed=False)
    program.spare(sorted(tiers), solution.evictions)
    found = program.solved(_NODES)
    return solution if isinstance(found, Unsolved) else replace(solution, stand=found.stand)


def _tier(victim: Victim) -> tuple[bool, int, int]:
    avoided, priority, deletion, *_ = victim.cost
    return avoided, priority, deletion


class _Program:
    """One mixture as columns and rows."""

    def __init__(self, mixed: Mixed, *, relaxed: bool) -> None:
        self._mixed = mixed
        self._model = _Model()
        self._stand: dict[Cell, int] = {}
        self._stay: dict[Cell, int] = {}
        self._unplaced: list[int] = []
        self._over: list[int] = []
        self._relaxed = relaxed
        total = sum(sum(kind.counts.values()) + kind.pending for kind in mixed.kinds)
        self._weight_over = total + 1
        self._weight_unplaced = self._weight_over * (total * max(1, len(mixed.demands)) + 1)
        for number, kind in enumerate(mixed.kinds):
            self._kind(number, kind)
        for number in range(len(mixed.demands)):
            self._demand(number)
        self._room()
        self._keep_apart()

    def _kind(self, number: int, kind: Kind) -> None:
        model = self._model
        total = sum(kind.counts.values()) + kind.pending
        row: dict[int, float] = {}
        for node in sorted(kind.cap):
            held, fixed = kind.counts.get(node, 0), kind.fixed.get(node, 0)
            most = min(total, kind.cap[node])
            column = self._stand[number, node] = model.column(fixed, most)
            row[column] = 1
            if held > fixed:
                stay = self._stay[number, node] = model.column(fixed, held, -1, whole=False)
                model.rows.append((-inf, 0, {stay: 1, column: -1}))
        if self._relaxed:
            unplaced = model.column(0, total, self._weight_unplaced)
            self._unplaced.append(unplaced)
            row[unplaced] = 1
        model.rows.append((total, total, row))

    def spare(self, tiers: Sequence[tuple[bool, int, int]], evictions: int) -> None:
        """Ask for so many evictions at the most, and for the cheapest pods to go.

        One victim of last resort weighs more than all others together.
        """
        model = self._model
        ordinary = sum(not avoided for avoided, _, _ in tiers)
        price = {
            tier: position if not tier[0] else position + ordinary * evictions
            for position, tier in enumerate(tiers, start=1)
        }
        kept: dict[int, float] = {}
        for (number, node), stay in self._stay.items():
            kind = self._mixed.kinds[number]
            model.costs[stay] = 0
            kept[stay] = 1
            row: dict[int, float] = {stay: -1}
            for tier, many in Counter(_tier(each) for each in kind.movable[node]).items():
                row[model.column(0, many, -price[tier], whole=False)] = 1
            model.rows.append((-kind.fixed.get(node, 0), -kind.fixed.get(node, 0), row))
        movable = sum(self._mixed.kinds[kind].counts[node] for kind, node in self._stay)
        model.rows.append((movable - evictions, inf, kept))

    def _demand(self, number: int) -> None:
        mixed, model = self._mixed, self._model
        demand, others = mixed.demands[number], mixed.others[number]
        domains: dict[str, tuple[dict[int, float], int]] = {}
        for node in demand.nodes:
            row, given = domains.setdefault(demand.domain[node], ({}, 0))
            domains[demand.domain[node]] = row, given + others.get(node, 0)
        for (kind, node), column in self._stand.items():
            if number in mixed.kinds[kind].demands and node in demand.nodes:
                domains[demand.domain[node]][0][column] = 1
        lowest = None
        if demand.max_skew is not None and not demand.floor_at_zero:
            lowest = model.column(0, _MANY)
        for value in sorted(domains):
            row, given = domains[value]
            over = self._slack()
            self._bound(row, given, demand.least, demand.cap, over)
            if demand.max_skew is not None and lowest is not None:
                model.rows.append((-given, inf, {**row, lowest: -1}))
                model.rows.append((-inf, demand.max_skew - given, {**row, lowest: -1, **over}))
            elif demand.max_skew is not None:
                model.rows.append((-inf, demand.max_skew - given, {**row, **over}))

    def _slack(self) -> dict[int, float]:
        """Return a column by which a domain may exceed what is asked, where that is allowed at all."""
        if not self._relaxed:
            return {}
        column = self._model.column(0, _MANY, self._weight_over)
        self._over.append(column)
        return {column: -1}

    def _bound(
        self, row: Mapping[int, float], given: int, least: int, cap: int | None, over: Mapping[int, float]
    ) -> None:
        if cap is not None:
            self._model.rows.append((-inf, cap - given, {**row, **over}))
        if least:
            lacking = {column: -factor for column, factor in over.items()}
            self._model.rows.append((least - given, inf, {**row, **lacking}))

    def _room(self) -> None:
        """Let the pods of all kinds together take no more of a node than there is."""
        by_node: dict[str, list[tuple[int, int]]] = {}
        for (kind, node), column in self._stand.items():
            by_node.setdefault(node, []).append((kind, column))
        view = self._mixed.view
        if view is None:
            return
        for node, cells in by_node.items():
            if len(cells) < 2:  # one kind alone is bounded by its own column
                continue
            found, used = view.nodes.by_name[node], view.used(node)
            have = found.allocatable
            free: list[tuple[int, Callable[[Resources], int]]] = [
                (found.pods - used.pods, lambda _: 1),
                (have.cpu - used.cpu, lambda asked: asked.cpu),
                (have.memory - used.memory, lambda asked: asked.memory),
                (have.ephemeral_storage - used.ephemeral_storage, lambda asked: asked.ephemeral_storage),
            ]
            for amount, of in free:
                self._limit(node, cells, amount, of)

    def _limit(self, node: str, cells: list[tuple[int, int]], free: int, of: Callable[[Resources], int]) -> None:
        kinds = self._mixed.kinds
        asked = {column: of(kinds[kind].sample.spec.requests) for kind, column in cells}
        held = sum(kinds[kind].now.get(node, 0) * asked[column] for kind, column in cells)
        most = sum(self._model.upper[column] * amount for column, amount in asked.items())
        if most > free + held:
            # Scaled so that the solver's tolerances mean nothing: bytes are large numbers.
            scale = max(1, *asked.values())
            row = {column: amount / scale for column, amount in asked.items() if amount}
            self._model.rows.append((-inf, max(free, 0) / scale + held / scale, row))

    def _keep_apart(self) -> None:
        for apart in self._mixed.apart:
            rows: dict[str, dict[int, float]] = {}
            for (kind, node), column in self._stand.items():
                if kind in apart.kinds and node in apart.domain:
                    rows.setdefault(apart.domain[node], {})[column] = 1
            for value in sorted(rows):
                # Those that already stand together may stay so; nothing joins them.
                self._model.rows.append((-inf, 1, rows[value]))

    def solved(self, nodes: int) -> Solution | Unsolved:
        found = _run(self._model, nodes)
        if isinstance(found, Unsolved):
            return found
        values, bound = found
        stand = {cell: round(values[column]) for cell, column in self._stand.items()}
        unplaced = sum(round(values[column]) for column in self._unplaced)
        over = sum(round(values[column]) for column in self._over)
        stay = sum(min(stand[cell], self._mixed.kinds[cell[0]].counts.get(cell[1], 0)) for cell in self._stay)
        movable = sum(self._mixed.kinds[kind].counts[node] for kind, node in self._stay)
        evictions = movable - stay
        penalty = unplaced * self._weight_unplaced + over * self._weight_over
        lower = max(0, ceil(bound - penalty + movable - _CLOSE))
        return Solution(
            stand={cell: number for cell, number in stand.items() if number},
            evictions=evictions,
            bound=min(lower, evictions),
            unplaced=unplaced,
            excess=over,
        )


def _run(model: _Model, nodes: int) -> tuple[list[float], float] | Unsolved:
    """Minimise; return the columns' values and the lower bound of the objective."""
    import highspy  # noqa: PLC0415  # it brings numpy; most fleets never need it

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
    for _, _, row in model.rows:
        index += list(row)
        value += list(row.values())
        starts.append(len(index))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = starts, index, value
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, setting in (
        ("output_flag", False),
        ("presolve", "off"),
        ("threads", 1),
        ("random_seed", 0),
        ("mip_rel_gap", 0.0),
        ("mip_abs_gap", 0.999),
        ("mip_max_nodes", nodes),
        # A fuse: a single node of the search tree can take long. What it cuts short is told as given up.
        ("time_limit", _FUSE),
    ):
        solver.setOptionValue(option, setting)
    solver.passModel(lp)
    solver.run()
    info = solver.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        infeasible = solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible
        return Unsolved.INFEASIBLE if infeasible else Unsolved.GIVEN_UP
    values = list(solver.getSolution().col_value)
    rounded = [float(round(each)) if whole else each for each, whole in zip(values, model.whole, strict=True)]
    if not _holds(model, rounded):
        return Unsolved.GIVEN_UP
    return rounded, info.mip_dual_bound


def _holds(model: _Model, values: list[float]) -> bool:
    """Say whether an answer satisfies every row, whatever the solver says."""
    within = all(
        low - _CLOSE <= each <= high + _CLOSE for low, each, high in zip(model.lower, values, model.upper, strict=True)
    )
    return within and all(_satisfied(row, values) for row in model.rows)


def _satisfied(row: tuple[float, float, dict[int, float]], values: list[float]) -> bool:
    least, most, factors = row
    total = sum(factor * values[column] for column, factor in factors.items())
    return least - _CLOSE <= total <= most + _CLOSE
