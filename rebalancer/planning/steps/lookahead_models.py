"""Answers for the lookahead: how many evictions a supposed state needs, and which pods to try next."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import cast

from rebalancer.model.pods import Pod
from rebalancer.planning.anti_affinity.exclusions import Counts, Exclusion
from rebalancer.planning.multi_class.alike import AlikeNodes
from rebalancer.planning.multi_class.classes import Cell
from rebalancer.planning.multi_class.local_search import LocalSearch
from rebalancer.planning.multi_class.model import PlacementModel
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.scope.movable import PodPartition
from rebalancer.planning.scope.requirements import Requirement
from rebalancer.planning.scope.victims import Victim
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.limits import SearchBudget, SearchLimits
from rebalancer.planning.single_class.layout import Layout
from rebalancer.planning.single_class.minimum import min_evictions, min_moves, sum_of_minima
from rebalancer.planning.single_class.placement import Inner, excess_by_level


class SingleClassModel:
    """Equal pods: a cell is a node."""

    def __init__(self, layout: Layout, pods: PodPartition, fewest: int | None, cache: SearchCache) -> None:
        self.pods = pods
        self.min_evictions = fewest
        self.most_choices = cache.limits.single_class_choices
        self.may_wait = True
        self._layout = layout
        self._cache = cache

    def cell(self, _: Pod, node: str) -> Hashable:
        return node

    def is_within(self, deltas: Mapping[Hashable, int], pending: Sequence[Pod], goal: int, *, quick: bool) -> bool:
        """Return whether a state with these pods pending needs at most `goal` evictions; it is always quick."""
        del quick
        needed = min_evictions(self._shifted(deltas), self._layout.bounds, len(pending), self._cache)
        return needed is not None and needed <= goal

    def sum_of_minima(self, deltas: Mapping[Hashable, int]) -> int:
        """Return the sum of what each level needs by itself."""
        return sum_of_minima(self._shifted(deltas), self._layout.bounds, self._cache)

    def excess(self, deltas: Mapping[Hashable, int]) -> tuple[int, ...]:
        """Return by how much the bound of each level is exceeded."""
        return excess_by_level(self._shifted(deltas), self._layout.bounds, self._cache)

    def candidates(self, deltas: Mapping[Hashable, int], gone: frozenset[str]) -> Sequence[Victim]:
        """Return one pod for each class of nodes, those whose eviction helps most first."""
        layout = self._layout
        best: dict[Hashable, tuple[tuple[object, ...], Victim]] = {}
        for site in layout.sites.values():
            victim = next((victim for victim in site.movable if victim.pod.uid not in gone), None)
            if victim is None:
                continue
            change = deltas.get(site.node, 0)
            rank = (
                self.sum_of_minima({**deltas, site.node: change - 1}),
                -layout.held(site.path),
                -site.count - change,
                victim.rank,
            )
            node_class = layout.place(site.path), site.leaf, change
            if node_class not in best or rank < best[node_class][0]:
                best[node_class] = rank, victim
        return [victim for _, victim in sorted(best.values(), key=lambda ranked: ranked[0])]

    def has_capacity(self, _: Pod, node: str) -> bool:
        """Return whether a node has capacity for one more pod beside the capacity that is reserved for others."""
        site = self._layout.sites.get(node)
        return self._layout.cap(node) > 0 if site is None else self._layout.spare(site) > 0

    def distinct_nodes(self, deltas: Mapping[Hashable, int], nodes: Iterable[str]) -> Iterable[str]:
        """Return one node for each domain and number of pods: no bound tells them apart."""
        layout = self._layout
        seen: dict[Hashable, str] = {}
        for node in nodes:
            site = layout.sites.get(node)
            leaf = (0, 0, layout.cap(node), 0) if site is None else site.leaf
            seen.setdefault((layout.topology.path.get(node), leaf, deltas.get(node, 0)), node)
        return seen.values()

    def _shifted(self, deltas: Mapping[Hashable, int]) -> Inner:
        return self._layout.shifted(cast("Mapping[str, int]", deltas))


class MultiClassModel:
    """Pods of several classes: a cell is a class and a node.

    `target` is the placement to reach. If it violates a bound, it only ranks the candidates, and no state is within the
    bounds. Solving supposed states spends `budget`, by the size of the programs.
    """

    def __init__(
        self, model: PlacementModel, target: Solution | None, budget: SearchBudget, limits: SearchLimits
    ) -> None:
        classes = model.classes
        self.pods = classes.pods
        self.most_choices = limits.multi_class_choices
        self.may_wait = not any(exclusion.source is not None for exclusion in classes.exclusions)
        holds = target is not None and target.holds
        self.min_evictions = target.evictions if target is not None and holds else None
        self.classes = classes
        self._budget = budget
        self._limits = limits
        self._size = sum(len(pod_class.cap) for pod_class in classes.classes)
        self._target = target.placed if target is not None else {}
        self._now = [requirement.by_domain() for requirement in classes.requirements]
        self._repaired = [exclusion for exclusion in classes.exclusions if exclusion.source is not None]
        self._alike = AlikeNodes(classes)
        self._local = LocalSearch(model, self._target, budget, limits) if holds else None
        self._solved: dict[Hashable, int | None] = {}

    def cell(self, pod: Pod, node: str) -> Hashable:
        """Return the pod's class and the node."""
        return self.classes.class_of(pod), node

    def is_within(self, deltas: Mapping[Hashable, int], pending: Sequence[Pod], goal: int, *, quick: bool) -> bool:
        """Return whether a state with these pods pending needs at most `goal` evictions.

        Mostly a placement near the known placement shows this. If none does, the program is solved, unless `quick`.
        """
        changes = cast("Mapping[Cell, int]", deltas)
        assert self._local is not None, "called only where every bound can hold"
        if self._local.min_evictions(changes, goal) <= goal:
            return True
        if quick:
            return False
        waiting = Counter(self.classes.class_of(pod) for pod in pending)
        key = tuple(sorted(deltas.items(), key=repr)), tuple(sorted(waiting.items()))
        if key not in self._solved:
            self._budget.spend(self._size)
            supposed = self.classes.supposed(changes, waiting)
            solution = solve(supposed, self._limits, work=self._limits.supposed_work)
            self._solved[key] = None if isinstance(solution, Unsolved) else solution.evictions
        evictions = self._solved[key]
        return evictions is not None and evictions <= goal

    def sum_of_minima(self, deltas: Mapping[Hashable, int]) -> int:
        """Return the sum of the evictions that each requirement, and each repaired term, needs alone."""
        return _Minima(self._counts(deltas)).total + sum(self._count_excess(deltas))

    def excess(self, deltas: Mapping[Hashable, int]) -> tuple[int, ...]:
        """Return by how much each requirement is exceeded, and how many pods each term has in excess."""
        exceeded = [
            requirement.bound.excess(
                min(held.values(), default=0) if len(held) >= requirement.domains else 0,
                max(held.values(), default=0),
            )
            for held, requirement in self._counts(deltas)
        ]
        return (*exceeded, *self._count_excess(deltas))

    def _count_excess(self, deltas: Mapping[Hashable, int]) -> Sequence[int]:
        """Return how many pods each term that is repaired has in excess in a state."""
        if not self._repaired:
            return ()
        held = self.hold(cast("Mapping[Cell, int]", deltas))
        return [exclusion.excess(exclusion.count(held)) for exclusion in self._repaired]

    def hold(self, changes: Mapping[Cell, int]) -> Sequence[tuple[int, str, int]]:
        """Return class, node and number of the pods in a state."""
        held = Counter(
            {
                (number, node): count
                for number, pod_class in enumerate(self.classes.classes)
                for node, count in pod_class.counts.items()
            }
        )
        held.update(changes)
        return [(*cell, count) for cell, count in held.items()]

    def candidates(self, deltas: Mapping[Hashable, int], gone: frozenset[str]) -> Sequence[Victim]:
        """Return the cheapest pod of each cell, first the pods that leave their cell in the target placement."""
        ranked = []
        minima = _Minima(self._counts(deltas))
        apart = _Apart(self._repaired, self.hold(cast("Mapping[Cell, int]", deltas))) if self._repaired else None
        for number, pod_class in enumerate(self.classes.classes):
            for node, victims in pod_class.movable.items():
                victim = next((victim for victim in victims if victim.pod.uid not in gone), None)
                if victim is not None:
                    cell = number, node
                    held = pod_class.counts[node] + deltas.get(cell, 0)
                    stays = held <= self._target.get(cell, 0)
                    without = minima.without(pod_class.requirements, node)
                    without -= apart.save(number, node) if apart is not None else 0
                    ranked.append((stays, without, victim.cost, node, victim))
        ranked.sort(key=lambda candidate: candidate[:4])
        return [candidate[4] for candidate in ranked]

    def has_capacity(self, pod: Pod, node: str) -> bool:
        """Return whether a node has capacity for one more pod beside the capacity that is reserved for others."""
        pod_class = self.classes.classes[self.classes.class_of(pod)]
        if pod_class.cap.get(node, 0) > pod_class.counts.get(node, 0):
            return True
        # The victim's node counts as open unless its replacement must not wait: others may have taken the place by
        # then.
        return self.may_wait and pod_class.movable.get(node, ()) != ()

    def distinct_nodes(self, deltas: Mapping[Hashable, int], nodes: Iterable[str]) -> Iterable[str]:
        """Return one node for each class of nodes that are equal for every requirement and every pod class."""
        changes = cast("Mapping[Cell, int]", deltas)
        seen: set[Hashable] = set()
        for node in nodes:
            key = self._alike.key(node, changes)
            if key not in seen:
                seen.add(key)
                yield node

    def _counts(self, deltas: Mapping[Hashable, int]) -> Iterable[tuple[Mapping[str, int], Requirement]]:
        """Yield the pods by domain of each requirement in a state."""
        changes = cast("Mapping[Cell, int]", deltas)
        for number, (requirement, now) in enumerate(zip(self.classes.requirements, self._now, strict=True)):
            held = Counter(now)
            for (pod_class, node), change in changes.items():
                if number in self.classes.classes[pod_class].requirements and node in requirement.nodes:
                    held[requirement.domain[node]] += change
            yield held, requirement


class _Apart:
    """By how many the pods in excess fall in one state if a pod leaves."""

    def __init__(self, exclusions: Sequence[Exclusion], pods: Sequence[tuple[int, str, int]]) -> None:
        self._exclusions = [(exclusion, exclusion.count(pods)) for exclusion in exclusions]

    def save(self, number: int, node: str) -> int:
        """Return how many fewer pods would be in excess without one pod of a class on a node."""
        return sum(self._save_one(exclusion, held, number, node) for exclusion, held in self._exclusions)

    def _save_one(self, exclusion: Exclusion, held: Mapping[str, Counts], number: int, node: str) -> int:
        part = exclusion.parts.get(number)
        if part is None or node not in exclusion.domain:
            return 0
        domain = exclusion.domain[node]
        fewer = list(held[domain])
        fewer[part] -= 1
        left = exclusion.excess_in(domain, (fewer[0], fewer[1], fewer[2]))
        return exclusion.excess_in(domain, held[domain]) - left


class _Minima:
    """The evictions that each requirement alone needs in one state, and in states with one pod fewer."""

    def __init__(self, counts: Iterable[tuple[Mapping[str, int], Requirement]]) -> None:
        self._counts = list(counts)
        self._needed = [_min_moves(held, requirement) for held, requirement in self._counts]
        self.total = sum(self._needed)
        self._saved: dict[tuple[int, int | None], int] = {}
        """By requirement and by how many pods the domain holds."""

    def without(self, requirements: Iterable[int], node: str) -> int:
        """Return the sum without a pod on a node; `requirements` are the numbers of those that count it."""
        return self.total - sum(self._save(number, node) for number in requirements)

    def _save(self, number: int, node: str) -> int:
        held, requirement = self._counts[number]
        if node not in requirement.nodes:
            return 0
        domain = requirement.domain[node]
        pods = held.get(domain)
        saved = self._saved.get((number, pods))
        if saved is None:
            fewer = {**held, domain: (pods or 0) - 1}
            saved = self._saved[number, pods] = self._needed[number] - _min_moves(fewer, requirement)
        return saved


def _min_moves(held: Mapping[str, int], requirement: Requirement) -> int:
    return min_moves(_domains_by_count(held, requirement.domains), requirement.bound)


def _domains_by_count(held: Mapping[str, int], domains: int) -> Mapping[int, int]:
    """Count the domains by how many pods they hold."""
    counted = Counter(held.values())
    counted[0] += max(0, domains - len(held))
    return counted
