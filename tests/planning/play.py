"""The planner against every scheduler: its own steps followed to the end, over every way that the placements can go.

What comes of a step is worked out here, from counts alone; only the steps are the planner's. Answers are remembered,
so that thousands of states share them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from math import factorial, prod
from typing import cast

from rebalancer.planning.search.driver import StepGoal
from rebalancer.planning.single_class.placement import Bounds, Inner, Leaf, mark_leaving
from rebalancer.planning.steps.contingent import contingent_step, forced_step
from rebalancer.planning.steps.forced import next_step
from rebalancer.planning.steps.tree_moves import TreeState, TreeStep
from tests.planning.contingent_oracle import Game, Zones, canonical
from tests.planning.states import CACHE, Counts, bounds, feasible, satisfied, state

_Marked = tuple[tuple[tuple[int, int], ...], ...]
"""For each zone its nodes as (pods, how many of them are to go)."""


@dataclass(frozen=True)
class Outcome:
    """The worst that may come: most evictions, whether all ends are satisfied, and whether pods may be left pending."""

    evictions: int
    satisfied: bool
    pending: bool = False


class Play:
    """One pair of maxSkews."""

    def __init__(self, zone: int, host: int) -> None:
        self.zone = zone
        self.host = host
        self.bounds = bounds(zone, host)
        self.game = Game(zone, host)
        self._known: dict[tuple[Zones, int], Outcome | None] = {}
        self._ends: dict[tuple[_Marked, int], frozenset[tuple[Zones, int]]] = {}

    def outcome(self, counts: Counts, *, pending: int = 0) -> Outcome:
        """Follow the planner from a state."""
        key = canonical(counts), pending
        if key in self._known:
            known = self._known[key]
            assert known is not None, f"it comes back to {key}"
            return known
        self._known[key] = None
        outcome = self._known[key] = self._outcome(counts, pending)
        return outcome

    def _outcome(self, counts: Counts, pending: int) -> Outcome:
        if not pending and satisfied(counts, self.zone, self.host):
            return Outcome(0, satisfied=True)
        step = self.step(counts, pending)
        if not step.victims:
            return Outcome(0, satisfied=False, pending=pending > 0)
        results = [
            self.outcome([list(zone) for zone in zones], pending=left)
            for zones, left in self.ends(counts, pending, step)
        ]
        return Outcome(
            len(step.victims) + max(outcome.evictions for outcome in results),
            satisfied=all(outcome.satisfied for outcome in results),
            pending=any(outcome.pending for outcome in results),
        )

    def step(self, counts: Counts, pending: int) -> TreeStep:
        """Return the planner's next step, forced or at least in part."""
        now = TreeState(state(counts), pending)
        least = self.game.distance(counts, pending=pending)
        if least or pending:
            step = repair_step(now, self.bounds, min(least or 1, CACHE.limits.step_evictions))
            if step.victims:
                return step
        return next_step(now, self.bounds, CACHE.limits.step_evictions, CACHE, StepGoal.PARTIAL)

    def ends(self, counts: Counts, pending: int, step: TreeStep) -> frozenset[tuple[Zones, int]]:
        """Return every state of rest after the step, in whatever order pods go and are placed."""
        root = state(counts)
        for path in step.victims:
            root = mark_leaving(root, path)
        return self._rests(_marks(root), pending)

    def _rests(self, now: _Marked, pending: int) -> frozenset[tuple[Zones, int]]:
        key = now, pending
        result = self._ends.get(key)
        if result is None:
            following = [self._rests(after, left) for after, left in self._following(now, pending)]
            rest = tuple(tuple(held for held, _ in zone) for zone in now), pending
            result = frozenset().union(*following) if following else frozenset({rest})
            self._ends[key] = result
        return result

    def _following(self, now: _Marked, pending: int) -> Iterator[tuple[_Marked, int]]:
        for place, zone in enumerate(now):
            for node, (held, going) in enumerate(zone):
                if going:
                    yield _changed(now, place, node, (held - 1, going - 1)), pending + 1
        if pending:
            for place, node in feasible([[held for held, _ in zone] for zone in now], self.zone, self.host):
                held, going = now[place][node]
                yield _changed(now, place, node, (held + 1, going)), pending - 1


def repair_step(now: TreeState, limits: Bounds, allowed: int, concurrent: int = CACHE.limits.concurrent) -> TreeStep:
    """Return the first eviction of a contingent plan, or a step that is safe by itself, as the planner tries them."""
    planned = contingent_step(now, limits, concurrent, CACHE)
    return planned if planned.victims else forced_step(now, limits, allowed, CACHE, concurrent=concurrent)


def _marks(root: Inner) -> _Marked:
    zones = [cast("Inner", zone) for zone, times in root for _ in range(times)]
    leaves = [[cast("Leaf", leaf) for leaf, many in zone for _ in range(many)] for zone in zones]
    return tuple(sorted(tuple(sorted((held, going) for held, _, _, going in zone)) for zone in leaves))


def _changed(now: _Marked, place: int, node: int, to: tuple[int, int]) -> _Marked:
    shaped = [list(zone) for zone in now]
    shaped[place][node] = to
    return tuple(sorted(tuple(sorted(zone)) for zone in shaped))


def every_layout(zones: int, nodes: int, pods: int) -> Iterator[tuple[Zones, int]]:
    """Yield every layout of up to so many zones, nodes a zone and pods, names forgotten, and how many it stands for.

    Zones are in the order of their size; which pods stand on which node of which zone of a size makes the number.
    """
    for many in range(1, zones + 1):
        for sizes in combinations_with_replacement(range(1, nodes + 1), many):
            yield from _filled(sizes, pods)


def _filled(sizes: tuple[int, ...], pods: int) -> Iterator[tuple[Zones, int]]:
    by_size = sorted(Counter(sizes).items())

    def descend(position: int, left: int, chosen: tuple[tuple[int, ...], ...]) -> Iterator[tuple[Zones, int]]:
        if position == len(by_size):
            yield (
                tuple(sorted(chosen)),
                prod(_orders(zone for zone in chosen if len(zone) == size) for size, _ in by_size)
                * prod(_orders(zone) for zone in chosen),
            )
            return
        size, times = by_size[position]
        for group in combinations_with_replacement(_zones(size, left), times):
            held = sum(map(sum, group))
            if held <= left:
                yield from descend(position + 1, left - held, (*chosen, *group))

    return descend(0, pods, ())


@cache
def _zones(size: int, pods: int) -> tuple[tuple[int, ...], ...]:
    """Return every zone of so many nodes with up to so many pods, fullest node last."""
    return tuple(counts for counts in combinations_with_replacement(range(pods + 1), size) if sum(counts) <= pods)


def _orders(things: Iterable[object]) -> int:
    """Count the different orders of things, some of them alike."""
    times = Counter(things)
    return factorial(times.total()) // prod(map(factorial, times.values()))
