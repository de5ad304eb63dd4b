"""The two programs of a service in a game: its fewest and its most pods over all states that satisfy the inequalities.

For the fewest, the service is blocked in the end on each node: the node lacks a resource, or a rule closes it. In a
cell of several nodes, the numbers of nodes that lack each resource or are closed add up to all of its nodes.

When a pod was placed, the least count of a constraint was at most the least count in the end plus the lost pods that
were not yet deleted. The reason: pods are only added, and a service has no more replacements than pods that were
deleted or waited.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor, inf
from typing import Final

from rebalancer.planning.multi_class.milp import Program, minimize
from rebalancer.planning.multi_class.outcomes import Unsolved
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.resilience.competition import Competition
from rebalancer.resilience.exclusions import Exclusion
from rebalancer.resilience.games import Game
from rebalancer.resilience.loss import Service
from rebalancer.resilience.rules import Rule

_LIMITS: Final = SearchLimits()
_CLOSE: Final = 1e-6

Row = dict[int, float]


class GamePrograms:
    """The programs of a game: the part that all services share, and two programs for each service."""

    def __init__(self, game: Game, competition: Competition, work: int) -> None:
        self._game, self._competition, self._work = game, competition, work
        self._places = game.places
        self._on: dict[str, list[int]] = {}
        self._program = Program()
        self._columns: dict[tuple[int, str], int] = {}
        for number, cells in self._places.items():
            for cell in cells:
                self._columns[number, cell] = self._program.add_column(0, self._fit(number, cell))
                self._on.setdefault(cell, []).append(number)
        self._add_common()

    @property
    def size(self) -> int:
        """How many pod counts the programs determine."""
        return len(self._columns)

    def _fit(self, number: int, cell: str) -> int:
        """Return how many pods of a player a cell takes at most."""
        amounts = zip(self._game.free[cell], self._game.requests[number], strict=True)
        fitting = [free // needs for free, needs in amounts if needs]
        return min([self._game.pending[number], *[self._game.size[cell] * many for many in fitting]])

    def find_most(self, number: int) -> int:
        """Return the most pods of a service that are placed."""
        program = self._copy()
        for column in self._row(number, self._places[number]):
            program.costs[column] = -1
        answer = minimize(program, _LIMITS, self._work)
        pending = self._game.pending[number]
        return pending if isinstance(answer, Unsolved) else min(pending, floor(_CLOSE - answer[1]))

    def find_fewest(self, number: int) -> int:
        """Return the fewest pods that are placed, by the dual bound; if the bound is no lower, all pending pods."""
        program, pending = self._copy(), self._game.pending[number]
        own = self._row(number, self._places[number])
        for column in own:
            program.costs[column] = 1
        program.add_row(-inf, pending - 1, own)
        closed = [self._add_closed(program, rule) for rule in self._game.rules.get(number, ())]
        excluding = [self._share(number, one) for one in self._game.exclusions.get(number, ()) if one.itself]
        for node in self._places[number]:
            choices, size = self._add_lacking(program, number, node), self._game.size[node]
            if choices is None:
                continue
            for rule, columns in zip(self._game.rules.get(number, ()), closed, strict=True):
                choices.update(dict.fromkeys(columns.get(rule.domain[node], ()), size))
            for nodes in excluding:
                choices.update(dict.fromkeys(self._row(number, nodes.get(node, ())), size))
            program.add_row(size, inf, choices)
        answer = minimize(program, _LIMITS, self._work)
        if answer is Unsolved.INFEASIBLE:
            return pending
        return 0 if isinstance(answer, Unsolved) else max(0, ceil(answer[1] - _CLOSE))

    def _copy(self) -> Program:
        one = self._program
        return Program([*one.costs], [*one.lower], [*one.upper], [*one.whole], [*one.rows])

    def _row(self, number: int, nodes: Iterable[str]) -> Row:
        return {self._columns[number, node]: 1 for node in nodes}

    def _add_common(self) -> None:
        for number in self._places:
            if self._places[number]:
                pending = self._game.pending[number]
                self._program.add_row(-inf, pending, self._row(number, self._places[number]))
        for node in self._on:
            for at, free in enumerate(self._game.free[node]):
                row = self._load(node, at)
                if row:
                    self._program.add_row(-inf, free * self._game.size[node], row)
        for cap in self._game.caps:
            self._program.add_row(-inf, cap.most, self._row(cap.player, cap.cells))
        for number in self._places:
            self._add_rules(number)

    def _add_rules(self, number: int) -> None:
        for rule in self._game.rules.get(number, ()):
            self._add_rule(number, rule)
        for exclusion in self._game.exclusions.get(number, ()):
            for nodes in self._group(number, exclusion).values() if exclusion.itself else ():
                self._program.add_row(-inf, 1, self._row(number, nodes))

    def _load(self, node: str, at: int) -> Row:
        """Return how much of a node's resource the replacements take."""
        requests = self._game.requests
        return {
            self._columns[number, node]: float(requests[number][at])
            for number in self._on.get(node, ())
            if requests[number][at]
        }

    def _count(self, rule: Rule, domain: str) -> Row:
        """Return the columns of the replacements that a rule counts in a domain."""
        return {
            self._columns[number, node]: 1
            for number in self._competition.counted(rule)
            for node in self._places.get(number, ())
            if node in rule.eligible and rule.domain[node] == domain
        }

    def _group(self, number: int, rule: Rule | Exclusion) -> Mapping[str, list[str]]:
        """Return the nodes of a service by their domains of a rule."""
        found: dict[str, list[str]] = {}
        for node in self._places[number]:
            if node in rule.domain:
                found.setdefault(rule.domain[node], []).append(node)
        return found

    def _share(self, number: int, exclusion: Exclusion) -> Mapping[str, list[str]]:
        """Return for each node of a service the nodes that share its domain of an exclusion."""
        return {node: nodes for nodes in self._group(number, exclusion).values() for node in nodes}

    def _add_rule(self, number: int, rule: Rule) -> None:
        """Add the rows for two moments: the last pod of a service in each domain, and its last pod in any domain."""
        program, service = self._program, self._competition.services[number]
        most = max([*rule.base.values(), 0]) + service.pending + rule.max_skew
        domains = self._group(number, rule)
        everywhere = self._row(number, self._places[number])
        lowest = program.add_column(0, most)
        for value in rule.base:
            if not rule.late.get(value):
                program.add_row(-inf, rule.base[value], {lowest: 1, **_negative(self._count(rule, value))})
        if rule.always_floored:
            program.upper[lowest] = 0
        last: Row = {}
        for value, nodes in domains.items():
            placed, base = self._row(number, nodes), rule.base.get(value, 0)
            some = program.add_column(0, 1)
            program.add_row(-inf, 0, {**placed, some: -service.pending})
            held: Row = dict.fromkeys(placed, rule.itself) if rule.itself and value in rule.base else {}
            slack = most + rule.max_skew
            program.add_row(-inf, rule.max_skew - base + slack, {**held, lowest: -1, some: slack})
            if rule.late:
                ends = program.add_column(0, 1)
                last[ends] = -service.pending
                program.add_row(-inf, 0, {ends: 1, some: -1})
                self._add_late(rule, service, base, held, some, placed)
                self._add_late(rule, service, base, held, ends, everywhere)
        if last:
            program.add_row(-inf, 0, {**everywhere, **last})

    def _add_late(self, rule: Rule, service: Service, base: int, held: Row, when: int, placed: Row) -> None:
        """Add a bound from lost pods that still existed when a pod was placed.

        Each of the `placed` pods so far replaces a lost pod that is gone. The emptiest of the domains with lost pods
        holds at most their average.
        """
        program, total = self._program, sum(rule.late.values())
        many = len(rule.late)
        below = sum(rule.base[value] for value in rule.late)
        counted: Row = {}
        for value in rule.late:
            counted |= self._count(rule, value)
        slack = float(many * (base + service.pending + rule.max_skew) + total + service.pending)
        row: Row = {column: many * factor for column, factor in held.items()}
        row = _add(row, _negative(counted))
        bound = many * (rule.max_skew - base) + below + total + slack
        program.add_row(-inf, bound, {**row, when: slack})
        later = _add(row, placed)
        program.add_row(-inf, bound + service.waiting + rule.uncounted, {**later, when: slack})
        for value, number in rule.late.items():
            alone = _add(dict(held), _negative(self._count(rule, value)))
            program.add_row(-inf, rule.max_skew - base + rule.base[value] + number + slack, {**alone, when: slack})

    def _add_closed(self, program: Program, rule: Rule) -> Mapping[str, Sequence[int]]:
        """Add columns that are 1 only where a rule closes a domain in the end; return them by domain.

        The least count is exact: it equals the count of one domain, and no domain has less.
        """
        total = sum(self._game.pending[number] for number in self._places)
        most = max([*rule.base.values(), 0]) + total
        lowest = program.add_column(0, 0 if rule.floored or not rule.base else most)
        least: Row = {}
        if not rule.floored:
            for value, base in rule.base.items():
                counted = _negative(self._count(rule, value))
                program.add_row(-inf, base, {lowest: 1, **counted})
                chosen = program.add_column(0, 1)
                least[chosen] = 1
                program.add_row(base - most, inf, {lowest: 1, **counted, chosen: -most})
            if least:
                program.add_row(1, 1, least)
        closed: dict[str, list[int]] = {}
        for value in {*rule.domain.values()}:
            base = rule.base.get(value, 0)
            column = program.add_column(0, 1)
            slack = most + rule.max_skew + 1
            counted = self._count(rule, value) if value in rule.base else {}
            row = {**counted, lowest: -1, column: -slack}
            program.add_row(rule.max_skew + 1 - rule.itself - base - slack, inf, row)
            closed[value] = [column]
        return closed

    def _add_lacking(self, program: Program, number: int, node: str) -> Row | None:
        """Add how many nodes of a cell lack each resource in the end.

        Return None if all nodes lack one resource anyway, or are closed.
        """
        choices: Row = {}
        size, cost = self._game.size[node], self._game.costs.get(node)
        if cost == 0:
            return None
        if cost is not None:
            column = program.add_column(0, size)
            program.add_row(0, inf, {self._columns[number, node]: 1, column: -float(cost)})
            choices[column] = 1
        needed = zip(self._game.free[node], self._game.requests[number], strict=True)
        for at, (free, needs) in enumerate(needed):
            short = free - needs + 1
            if not needs:
                continue
            if short <= 0:
                return None
            column = program.add_column(0, size)
            program.add_row(0, inf, {**self._load(node, at), column: -float(short)})
            choices[column] = 1
        return choices


def _negative(row: Row) -> Row:
    return {column: -factor for column, factor in row.items()}


def _add(row: Row, other: Row) -> Row:
    """Add two rows; a column whose factors cancel out is dropped."""
    added = row | {column: row.get(column, 0) + factor for column, factor in other.items()}
    return {column: factor for column, factor in added.items() if factor}
