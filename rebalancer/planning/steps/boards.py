"""What the search on real nodes asks of a problem: how far a supposed state is from right."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import cast

from rebalancer.model.pods import Pod
from rebalancer.planning.formulation import SingleClassProblem
from rebalancer.planning.multi_class.classes import Cell, MultiClassProblem
from rebalancer.planning.multi_class.local_search import LocalSearch
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.scope.movable import PodPartition
from rebalancer.planning.scope.requirements import Requirement
from rebalancer.planning.scope.victims import Victim
from rebalancer.planning.single_class.minimum import min_evictions, min_moves, sum_of_minima
from rebalancer.planning.single_class.placement import Bound, excess_by_level, excess_of
from rebalancer.planning.steps.forced import SearchBudget

_SUPPOSED = 200_000
"""What the solution of a supposed state may take."""


class SingleClassBoard:
    """Equal pods: a cell is a node."""

    ways = 64

    def __init__(self, problem: SingleClassProblem, fewest: int | None) -> None:
        self._problem = problem
        self.fewest = fewest

    @property
    def sorted(self) -> PodPartition:
        """The component's pods."""
        return self._problem.sorted

    def cell(self, _: Pod, node: str) -> Hashable:
        """Return the node."""
        return node

    def within(self, deltas: Mapping[Hashable, int], pending: Sequence[Pod], goal: int, *, hasty: bool = False) -> bool:
        """Say whether a state with these pods pending is at most so far from right; that never takes long."""
        del hasty
        layout = self._problem.layout
        found = min_evictions(layout.shifted(_nodes(deltas)), layout.bounds, len(pending))
        return found is not None and found <= goal

    def alone(self, deltas: Mapping[Hashable, int]) -> int:
        """Return the sum of what each level needs by itself."""
        layout = self._problem.layout
        return sum_of_minima(layout.shifted(_nodes(deltas)), layout.bounds)

    def excess(self, deltas: Mapping[Hashable, int]) -> tuple[int, ...]:
        """Return by how much each level exceeds what is asked."""
        layout = self._problem.layout
        return excess_by_level(layout.shifted(_nodes(deltas)), layout.bounds)

    def candidates(self, deltas: Mapping[Hashable, int], gone: frozenset[str]) -> Sequence[Victim]:
        """Return one pod for each class of nodes, first those whose leaving helps most."""
        layout, changes = self._problem.layout, _nodes(deltas)
        found: dict[Hashable, tuple[tuple[object, ...], Victim]] = {}
        for site in layout.sites.values():
            victim = next((each for each in site.movable if each.pod.uid not in gone), None)
            if victim is None:
                continue
            without = {**changes, site.node: changes.get(site.node, 0) - 1}
            order = (
                sum_of_minima(layout.shifted(without), layout.bounds),
                -layout.held(site.path),
                -site.count - changes.get(site.node, 0),
                victim.rank,
            )
            kind = layout.place(site.path), site.leaf, changes.get(site.node, 0)
            if kind not in found or order < found[kind][0]:
                found[kind] = order, victim
        return [victim for _, victim in sorted(found.values(), key=lambda each: each[0])]

    def has_room(self, _: Pod, node: str) -> bool:
        """Say whether a node has room for one more beside everything that is on its way elsewhere."""
        layout = self._problem.layout
        site = layout.sites.get(node)
        return layout.cap(node) > 0 if site is None else layout.spare(site) > 0

    def alike(self, _: Mapping[Hashable, int], nodes: Iterable[str]) -> Iterable[str]:
        """Return the nodes: whether two are alike for the scheduler's scores is not known here."""
        return nodes


def _nodes(deltas: Mapping[Hashable, int]) -> Mapping[str, int]:
    return cast("Mapping[str, int]", deltas)


class MultiClassBoard:
    """Pods of several kinds: a cell is a kind and a node.

    `aim` is the arrangement that is aimed at. Where not everything that is asked holds in it, it only says who should
    go first, and no state is `within` anything. `effort` is spent on solutions of supposed states, by their size.
    """

    ways = 256

    def __init__(self, mixed: MultiClassProblem, aim: Solution | None, effort: SearchBudget) -> None:
        self._mixed = mixed
        self._effort = effort
        self._size = sum(len(kind.cap) for kind in mixed.classes)
        self._aim = aim
        holds = aim is not None and not aim.unplaced and not aim.excess
        self.fewest = aim.evictions if aim is not None and holds else None
        self._bounds = [_bound(each) for each in mixed.requirements]
        self._now = [each.by_domain() for each in mixed.requirements]
        self._shared = [each for each in mixed.exclusions if len(set(each.domain.values())) < len(each.domain)]
        self._nearby = LocalSearch(mixed, aim.stand, effort) if aim is not None and holds else None
        self._known: dict[Hashable, int | None] = {}

    @property
    def sorted(self) -> PodPartition:
        """The component's pods."""
        return self._mixed.sorted

    def cell(self, pod: Pod, node: str) -> Hashable:
        """Return the pod's kind and the node."""
        return self._mixed.class_of(pod), node

    def within(self, deltas: Mapping[Hashable, int], pending: Sequence[Pod], goal: int, *, hasty: bool = False) -> bool:
        """Say whether a state with these pods pending is at most so far from right; in haste, no if near to it."""
        changes = cast("Mapping[Cell, int]", deltas)
        assert self._nearby is not None, "asked only where everything can hold"
        if self._nearby.fewest(changes, goal) <= goal:
            return True
        if hasty:
            return False
        waiting = Counter(self._mixed.class_of(pod) for pod in pending)
        key = tuple(sorted(deltas.items(), key=repr)), tuple(sorted(waiting.items()))
        if key not in self._known:
            self._effort.spend(self._size)
            found = solve(self._mixed.supposed(changes, waiting), effort=_SUPPOSED)
            self._known[key] = None if isinstance(found, Unsolved) else found.evictions
        known = self._known[key]
        return known is not None and known <= goal

    def _held(self, deltas: Mapping[Hashable, int]) -> Sequence[Mapping[str, int]]:
        changes = cast("Mapping[Cell, int]", deltas)
        found = []
        for number, (demand, now) in enumerate(zip(self._mixed.requirements, self._now, strict=True)):
            held = Counter(now)
            for (kind, node), change in changes.items():
                if number in self._mixed.classes[kind].requirements and node in demand.nodes:
                    held[demand.domain[node]] += change
            found.append(held)
        return found

    def alone(self, deltas: Mapping[Hashable, int]) -> int:
        """Return the sum of what each demand needs by itself."""
        return sum(
            min_moves(_spectrum(held, demand.many), bound)
            for held, demand, bound in zip(self._held(deltas), self._mixed.requirements, self._bounds, strict=True)
        )

    def excess(self, deltas: Mapping[Hashable, int]) -> tuple[int, ...]:
        """Return by how much each demand is exceeded."""
        return tuple(
            _excess(held, demand.many, bound)
            for held, demand, bound in zip(self._held(deltas), self._mixed.requirements, self._bounds, strict=True)
        )

    def candidates(self, deltas: Mapping[Hashable, int], gone: frozenset[str]) -> Sequence[Victim]:
        """Return the cheapest pod of each cell, those that the aimed-at arrangement lets go first."""
        stand = self._aim.stand if self._aim is not None else {}
        found = []
        for number, kind in enumerate(self._mixed.classes):
            for node, victims in kind.movable.items():
                victim = next((each for each in victims if each.pod.uid not in gone), None)
                if victim is not None:
                    cell = number, node
                    held = kind.counts[node] + deltas.get(cell, 0)
                    without = {**deltas, cell: deltas.get(cell, 0) - 1}
                    stays = held <= stand.get(cell, 0)
                    found.append((stays, self.alone(without), victim.cost, node, victim))
        found.sort(key=lambda each: each[:4])
        return [each[4] for each in found]

    def has_room(self, pod: Pod, node: str) -> bool:
        """Say whether a node has room for one more beside everything that is on its way elsewhere."""
        kind = self._mixed.classes[self._mixed.class_of(pod)]
        return kind.cap.get(node, 0) > kind.counts.get(node, 0) or kind.movable.get(node, ()) != ()

    def alike(self, deltas: Mapping[Hashable, int], nodes: Iterable[str]) -> Iterable[str]:
        """Return one node for each class of nodes that no demand and no kind tells apart."""
        changes = cast("Mapping[Cell, int]", deltas)
        seen: set[Hashable] = set()
        for node in nodes:
            signature = (
                tuple(
                    each.domain.get(node) if node in each.nodes and each.many < len(each.nodes) else node in each.nodes
                    for each in self._mixed.requirements
                ),
                tuple(each.domain.get(node) for each in self._shared),
                tuple(
                    (kind.counts.get(node, 0) + changes.get((number, node), 0), kind.cap.get(node, 0))
                    for number, kind in enumerate(self._mixed.classes)
                ),
                tuple(each.get(node, 0) for each in self._mixed.others),
            )
            if signature not in seen:
                seen.add(signature)
                yield node


def _bound(demand: Requirement) -> Bound:
    return Bound(max_skew=demand.max_skew, floor_at_zero=demand.floor_at_zero, cap=demand.cap, least=demand.least)


def _spectrum(held: Mapping[str, int], many: int) -> Mapping[int, int]:
    """Count the domains by how many pods they hold."""
    found = Counter(held.values())
    found[0] += max(0, many - len(held))
    return found


def _excess(held: Mapping[str, int], many: int, bound: Bound) -> int:
    low = min(held.values(), default=0) if len(held) >= many else 0
    return excess_of(low, max(held.values(), default=0), bound)
