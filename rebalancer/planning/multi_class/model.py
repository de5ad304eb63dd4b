"""A component of several pod classes as columns and rows of an integer program.

For each class and node, one column is the number of pods after the repair, another the number of pods that were not
evicted. Every requirement is a row over integer columns. Example: class 0 on nodes a and b, at most 2 in their zone, is
the row 0 <= x[0, a] + x[0, b] <= 2. Cost: a column for each class and each needed node (`alike`) that can hold its
pods.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import inf

from rebalancer.assessment.anti_affinity.excess import Part
from rebalancer.model.pods import Resources
from rebalancer.planning.multi_class.alike import AlikeNodes
from rebalancer.planning.multi_class.classes import Cell, PodClass, PodClasses
from rebalancer.planning.multi_class.milp import Program
from rebalancer.planning.scope.bounds import Bound


class PlacementModel:
    """One component, `classes`, as a program. `placed` and `stay` are columns by cell.

    With `relaxed` not every requirement has to hold: `unplaced` are the columns of pods without a node by class, `over`
    the columns of pods by which a bound is exceeded, each with the number of requirements that share the bound. The
    weights are so far apart that pods without a node are minimized first, then excess, then evictions.
    """

    def __init__(self, classes: PodClasses, *, relaxed: bool = False) -> None:
        self.classes = classes
        self.program = Program()
        self.placed: dict[Cell, int] = {}
        self._columns_of: list[list[tuple[str, int]]] = []
        """The columns of `placed` by class, with their nodes."""
        self.stay: dict[Cell, int] = {}
        self.unplaced: list[int] = []
        self.over: list[tuple[int, int]] = []
        self.sides: set[int] = set()
        """The columns that choose which side of an exclusion a domain holds."""
        self._relaxed = relaxed
        self._total = total = classes.total
        self.weight_over = total + 1
        repaired = sum(exclusion.source is not None for exclusion in classes.exclusions)
        self.weight_unplaced = self.weight_over * (total * max(1, len(classes.requirements) + repaired) + 1)
        needed = AlikeNodes(classes).find_needed()
        for number, pod_class in enumerate(classes.classes):
            self._add_class(number, pod_class, [node for node in needed if node in pod_class.cap])
        self._add_requirements()
        self._add_capacity()
        self._add_exclusions()

    def _add_class(self, number: int, pod_class: PodClass, nodes: Iterable[str]) -> None:
        program, total = self.program, pod_class.total
        row: dict[int, float] = {}
        columns: list[tuple[str, int]] = []
        self._columns_of.append(columns)
        for node in nodes:
            held, fixed = pod_class.counts.get(node, 0), pod_class.fixed.get(node, 0)
            column = self.placed[number, node] = program.add_column(fixed, min(total, pod_class.cap[node]))
            columns.append((node, column))
            row[column] = 1
            if held > fixed:
                stay = self.stay[number, node] = program.add_column(fixed, held, -1, whole=False)
                program.add_row(-inf, 0, {stay: 1, column: -1})
        if self._relaxed:
            unplaced = program.add_column(0, total, self.weight_unplaced)
            self.unplaced.append(unplaced)
            row[unplaced] = 1
        program.add_row(total, total, row)

    def _add_requirements(self) -> None:
        """Add the rows of every requirement; requirements on the same pods and domains are merged."""
        classes = self.classes
        alike: dict[Hashable, list[int]] = {}
        for number, requirement in enumerate(classes.requirements):
            counting = frozenset(
                index for index, pod_class in enumerate(classes.classes) if number in pod_class.requirements
            )
            others = frozenset(classes.others[number].items())
            alike.setdefault((requirement.key, requirement.nodes, counting, others), []).append(number)
        for numbers in alike.values():
            required = Counter(classes.requirements[number].bound.on_paper() for number in numbers)
            domains = self._domains(numbers[0])
            skews = [bound.max_skew for bound in required if bound.max_skew is not None]
            lowest = None
            if skews:
                lowest = self.program.add_column(*self._lowest_range(numbers[0], len(domains), min(skews)))
            bounds = required if self._relaxed else {Bound.strictest(required): 1}
            for bound, times in bounds.items():
                for row, given in domains:
                    self._add_bound(row, given, bound, lowest, times)

    def _domains(self, number: int) -> list[tuple[dict[int, float], int]]:
        """Return for each domain of a requirement the columns that it counts, and the number of pods of no class."""
        classes = self.classes
        requirement, others = classes.requirements[number], classes.others[number]
        domains: dict[str, tuple[dict[int, float], int]] = {}
        for node in requirement.nodes:
            row, given = domains.get(requirement.domain[node], ({}, 0))
            domains[requirement.domain[node]] = row, given + others.get(node, 0)
        for index, pod_class in enumerate(classes.classes):
            if number in pod_class.requirements:
                for node, column in self._columns_of[index]:
                    if node in requirement.nodes:
                        domains[requirement.domain[node]][0][column] = 1
        return [domains[value] for value in sorted(domains)]

    def _lowest_range(self, number: int, domains: int, skew: int) -> tuple[int, int]:
        """Return the range that the number of pods allows for the count of the emptiest domain."""
        classes = self.classes
        nodes = classes.requirements[number].nodes
        surely = most = sum(count for node, count in classes.others[number].items() if node in nodes)
        for pod_class in classes.classes:
            if number in pod_class.requirements:
                most += pod_class.total
                surely += pod_class.total if pod_class.cap.keys() <= nodes else 0
        highest = most // domains
        # One domain holds the least, each other domain at most maxSkew more; together they hold all pods.
        least = 0 if self._relaxed else max(0, -(-(surely + skew) // domains) - skew)
        return min(least, highest), highest

    def _add_bound(self, row: Mapping[int, float], given: int, bound: Bound, lowest: int | None, times: int) -> None:
        program, over = self.program, dict[int, float]()
        if self._relaxed:
            # The bound is as tight as possible: with a looser bound the solver's propagation takes most of its time.
            most = given + min(self._total, sum(program.upper[column] for column in row))
            column = program.add_column(0, max(most, bound.least), self.weight_over * times)
            self.over.append((column, times))
            over = {column: -1}
        if bound.cap is not None:
            program.add_row(-inf, bound.cap - given, {**row, **over})
        if bound.least:
            lacking = {column: -factor for column, factor in over.items()}
            program.add_row(bound.least - given, inf, {**row, **lacking})
        if lowest is None or bound.max_skew is None:
            return
        if over:
            program.add_row(-given, inf, {**row, lowest: -1})
            program.add_row(-inf, bound.max_skew - given, {**row, lowest: -1, **over})
        else:
            program.add_row(-given, bound.max_skew - given, {**row, lowest: -1})

    def _add_capacity(self) -> None:
        """Add the rows that keep the pods of all classes on a node within its capacity."""
        by_node: dict[str, list[tuple[int, int]]] = {}
        for (index, node), column in self.placed.items():
            by_node.setdefault(node, []).append((index, column))
        view = self.classes.view
        if view is None:
            return
        for name, cells in by_node.items():
            if len(cells) < 2:  # one class alone is bounded by its own column
                continue
            taker, used = view.nodes.by_name[name], view.used(name)
            have = taker.allocatable
            free: list[tuple[int, Callable[[Resources], int]]] = [
                (taker.pods - used.pods, lambda _: 1),
                (have.cpu - used.cpu, lambda requests: requests.cpu),
                (have.memory - used.memory, lambda requests: requests.memory),
                (have.ephemeral_storage - used.ephemeral_storage, lambda requests: requests.ephemeral_storage),
            ]
            for amount, of in free:
                self._add_resource(name, cells, amount, of)

    def _add_resource(self, node: str, cells: list[tuple[int, int]], free: int, of: Callable[[Resources], int]) -> None:
        classes = self.classes.classes
        requests = {column: of(classes[index].sample.spec.requests) for index, column in cells}
        held = sum(classes[index].now.get(node, 0) * requests[column] for index, column in cells)
        most = sum(self.program.upper[column] * amount for column, amount in requests.items())
        if most > free + held:
            # Bytes are large numbers: scaled, so that the solver's tolerances do not matter.
            scale = max(1, *requests.values())
            row = {column: amount / scale for column, amount in requests.items() if amount}
            self.program.add_row(-inf, max(free, 0) / scale + held / scale, row)

    def _add_exclusions(self) -> None:
        """Add rows so that a domain holds one side of each exclusion, or one pod if all exclude each other."""
        for exclusion in self.classes.exclusions:
            columns: dict[str, dict[Part, dict[int, float]]] = {}
            for index, part in sorted(exclusion.parts.items()):
                for node, column in self._columns_of[index]:
                    if node in exclusion.domain and self.program.upper[column] > 0:
                        columns.setdefault(exclusion.domain[node], {}).setdefault(part, {})[column] = 1
            for value in sorted(columns):
                self._add_sides(columns[value], exclusion.find_sides(value), soft=exclusion.source is not None)

    def _add_sides(self, columns: Mapping[Part, dict[int, float]], left: Sequence[Part], *, soft: bool) -> None:
        """Add the rows of one domain; with `relaxed` the rows of a repaired term may be exceeded."""
        program = self.program
        several = len(columns.keys() & set(left)) > 1
        choice: dict[int, float] = {}
        for part, row in columns.items():
            most = min(self._total, sum(program.upper[column] for column in row))
            over: dict[int, float] = {}
            if self._relaxed and soft:
                column = program.add_column(0, most, self.weight_over)
                self.over.append((column, 1))
                over = {column: -1}
            if part not in left:
                program.add_row(-inf, 0, {**row, **over})
            elif several:
                side = program.add_column(0, 1)
                self.sides.add(side)
                choice[side] = 1
                program.add_row(-inf, 0, {**row, **over, side: -1 if part is Part.BOTH else -most})
            elif part is Part.BOTH:
                program.add_row(-inf, 1, {**row, **over})
        if choice:
            program.add_row(-inf, 1, choice)
