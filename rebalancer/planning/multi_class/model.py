"""A component of several kinds of pods as columns and rows.

A column says how many pods of a kind stand on a node in the end, another how many of those never left it. Everything
that is asked is a row over whole columns.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from math import inf

from rebalancer.model.pods import Resources
from rebalancer.planning.multi_class.classes import Cell, MultiClassProblem, PodClass
from rebalancer.planning.multi_class.milp import Model
from rebalancer.planning.scope.requirements import Requirement

_MANY = 10**6
"""More pods than a domain ever holds."""


@dataclass(frozen=True)
class _Asked:
    """What is asked of each domain; `skew` is over the emptiest."""

    skew: int | None
    most: int | None
    least: int


def _asked(demand: Requirement) -> _Asked:
    if demand.floor_at_zero and demand.max_skew is not None:
        return _Asked(None, min(demand.max_skew, demand.max_skew if demand.cap is None else demand.cap), demand.least)
    return _Asked(demand.max_skew, demand.cap, demand.least)


def _strictest(asked: Collection[_Asked]) -> _Asked:
    return _Asked(
        min((each.skew for each in asked if each.skew is not None), default=None),
        min((each.most for each in asked if each.most is not None), default=None),
        max(each.least for each in asked),
    )


class PlacementModel:
    """One mixture as a model. `stand` and `stay` are columns by cell.

    Where not everything has to hold, `unplaced` says by kind how many pods have no place, `over` by how much what is
    asked is exceeded, and of how many demands that is so alike; what either costs leaves the other tiers apart.
    """

    def __init__(self, mixed: MultiClassProblem, *, relaxed: bool = False) -> None:
        self._mixed = mixed
        self.model = Model()
        self.stand: dict[Cell, int] = {}
        self.stay: dict[Cell, int] = {}
        self.unplaced: list[int] = []
        self.over: list[tuple[int, int]] = []
        self._relaxed = relaxed
        total = sum(sum(kind.counts.values()) + kind.pending for kind in mixed.classes)
        self.weight_over = total + 1
        self.weight_unplaced = self.weight_over * (total * max(1, len(mixed.requirements)) + 1)
        for number, kind in enumerate(mixed.classes):
            self._kind(number, kind)
        self._demands()
        self._room()
        self._keep_apart()

    def _kind(self, number: int, kind: PodClass) -> None:
        model = self.model
        total = sum(kind.counts.values()) + kind.pending
        row: dict[int, float] = {}
        for node in sorted(kind.cap):
            held, fixed = kind.counts.get(node, 0), kind.fixed.get(node, 0)
            most = min(total, kind.cap[node])
            column = self.stand[number, node] = model.column(fixed, most)
            row[column] = 1
            if held > fixed:
                stay = self.stay[number, node] = model.column(fixed, held, -1, whole=False)
                model.row(-inf, 0, {stay: 1, column: -1})
        if self._relaxed:
            unplaced = model.column(0, total, self.weight_unplaced)
            self.unplaced.append(unplaced)
            row[unplaced] = 1
        model.row(total, total, row)

    def _demands(self) -> None:
        """Let what is asked hold; what is asked of the same pods over the same domains is put together."""
        mixed = self._mixed
        alike: dict[Hashable, list[int]] = {}
        for number, demand in enumerate(mixed.requirements):
            counting = frozenset(kind for kind, each in enumerate(mixed.classes) if number in each.requirements)
            others = frozenset(mixed.others[number].items())
            alike.setdefault((demand.key, demand.nodes, counting, others), []).append(number)
        for numbers in alike.values():
            asked = Counter(_asked(mixed.requirements[number]) for number in numbers)
            domains = self._domains(numbers[0])
            skews = [each.skew for each in asked if each.skew is not None]
            lowest = self.model.column(*self._lowest(numbers[0], len(domains), min(skews))) if skews else None
            wanted = asked if self._relaxed else {_strictest(asked): 1}
            for each, times in wanted.items():
                for row, given in domains:
                    self._bound(row, given, each, lowest, times)

    def _domains(self, number: int) -> list[tuple[dict[int, float], int]]:
        """Return for each domain of a demand the columns that count, and how many pods of no kind."""
        mixed = self._mixed
        demand, others = mixed.requirements[number], mixed.others[number]
        domains: dict[str, tuple[dict[int, float], int]] = {}
        for node in demand.nodes:
            row, given = domains.get(demand.domain[node], ({}, 0))
            domains[demand.domain[node]] = row, given + others.get(node, 0)
        for (kind, node), column in self.stand.items():
            if number in mixed.classes[kind].requirements and node in demand.nodes:
                domains[demand.domain[node]][0][column] = 1
        return [domains[value] for value in sorted(domains)]

    def _lowest(self, number: int, many: int, skew: int) -> tuple[int, int]:
        """Return between what the count of the emptiest of so many domains must lie, by how many pods there are."""
        mixed = self._mixed
        nodes = mixed.requirements[number].nodes
        surely = most = sum(count for node, count in mixed.others[number].items() if node in nodes)
        for kind in mixed.classes:
            if number in kind.requirements:
                total = sum(kind.counts.values()) + kind.pending
                most += total
                surely += total if kind.cap.keys() <= nodes else 0
        highest = most // many
        # If one holds the least, and all others so many more at the most, they hold them all.
        least = 0 if self._relaxed else max(0, -(-(surely + skew) // many) - skew)
        return min(least, highest), highest

    def _bound(self, row: Mapping[int, float], given: int, asked: "_Asked", lowest: int | None, times: int) -> None:
        model, over = self.model, dict[int, float]()
        if self._relaxed:
            column = model.column(0, _MANY, self.weight_over * times)
            self.over.append((column, times))
            over = {column: -1}
        if asked.most is not None:
            model.row(-inf, asked.most - given, {**row, **over})
        if asked.least:
            lacking = {column: -factor for column, factor in over.items()}
            model.row(asked.least - given, inf, {**row, **lacking})
        if lowest is None or asked.skew is None:
            return
        if over:
            model.row(-given, inf, {**row, lowest: -1})
            model.row(-inf, asked.skew - given, {**row, lowest: -1, **over})
        else:
            model.row(-given, asked.skew - given, {**row, lowest: -1})

    def _room(self) -> None:
        """Let the pods of all kinds together take no more of a node than there is."""
        by_node: dict[str, list[tuple[int, int]]] = {}
        for (kind, node), column in self.stand.items():
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
        kinds = self._mixed.classes
        asked = {column: of(kinds[kind].sample.spec.requests) for kind, column in cells}
        held = sum(kinds[kind].now.get(node, 0) * asked[column] for kind, column in cells)
        most = sum(self.model.upper[column] * amount for column, amount in asked.items())
        if most > free + held:
            # Scaled so that the solver's tolerances mean nothing: bytes are large numbers.
            scale = max(1, *asked.values())
            row = {column: amount / scale for column, amount in asked.items() if amount}
            self.model.row(-inf, max(free, 0) / scale + held / scale, row)

    def _keep_apart(self) -> None:
        for apart in self._mixed.exclusions:
            rows: dict[str, dict[int, float]] = {}
            for (kind, node), column in self.stand.items():
                if kind in apart.classes and node in apart.domain:
                    rows.setdefault(apart.domain[node], {})[column] = 1
            for value in sorted(rows):
                self.model.row(-inf, 1, rows[value])
