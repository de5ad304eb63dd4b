"""States of a tree of equal nodes, and what can happen in them: marked pods leave, the scheduler places pending ones.

Every feasible node that the scheduler may pick is followed; nodes of one class are one choice.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple, cast

from msgspec import Struct

from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.limits import SearchBudget
from rebalancer.planning.search.report import Attempt
from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import (
    Bounds,
    Inner,
    Leaf,
    Path,
    evict_one,
    evict_unmarked,
    leaf_paths,
    placements_of_next,
)


class TreeState(Struct, frozen=True, gc=False, cache_hash=True):
    """The placement, and how many pods of the group have no node yet."""

    root: Inner
    pending: int = 0


class TreeStep(NamedTuple):
    """Leaf classes to evict from, in order; empty where no step was found.

    `needed` is the least number that must be evicted concurrently, and every prefix of at least that length is a step
    too; if it is more than was allowed, the step waits for budgets. `complete` is false if the search reached its
    limit. `extra` is by how many evictions the whole repair may exceed the minimum. `attempts` are the methods that
    were tried.
    """

    victims: tuple[Path, ...] = ()
    needed: int = 0
    complete: bool = True
    extra: int = 0
    attempts: tuple[Attempt, ...] = ()


class TreeMoves:
    """What can happen without a new eviction, for one group; every expanded state spends `budget`, if given."""

    def __init__(self, bounds: Bounds, cache: SearchCache, budget: SearchBudget | None = None) -> None:
        self._bounds = bounds
        self._number = cache.number(bounds)
        self._cache = cache
        self._budget = budget
        self._successors: dict[TreeState, Sequence[TreeState]] = {}

    def key(self, state: TreeState) -> Hashable:
        """Return the state itself: it is a value."""
        return state

    def successors(self, state: TreeState) -> Sequence[TreeState]:
        """Return the states after one marked pod has left, or one pending pod was placed."""
        known = self._successors.get(state)
        if known is not None:
            return known
        # Even if another search has visited the state, each search pays for it.
        following = self._cache.successors.known.get((self._number, state))
        if following is None:
            following = self._cache.successors.store((self._number, state), self._expand(state))
        if self._budget is not None:
            self._budget.spend(1 + len(following))
        self._successors[state] = following
        return cast("Sequence[TreeState]", following)

    def _expand(self, state: TreeState) -> Sequence[TreeState]:
        following = [
            TreeState(evict_one(state.root, path), state.pending + 1)
            for path in leaf_paths(state.root)
            if cast("Leaf", path[-1])[3]
        ]
        if state.pending:
            placed = placements_of_next(state.root, self._bounds, self._cache)
            following += [TreeState(root, state.pending - 1) for root in placed]
        # One object for each state makes comparisons cheap.
        states = self._cache.states
        return [states.known.get(state) or states.store(state, state) for state in following]

    def min_evictions(self, state: TreeState) -> int | None:
        """Return the fewest evictions that repair a state; None if no placement does."""
        return min_evictions(state.root, self._bounds, state.pending, self._cache)


def evictions(state: TreeState) -> Iterator[tuple[Path, TreeState]]:
    """Yield each class of nodes that has a movable pod, and the state after one was evicted; no pod is marked."""
    for path in leaf_paths(state.root):
        held, fixed, _, _ = cast("Leaf", path[-1])
        if held > fixed:
            yield path, TreeState(evict_unmarked(state.root, path), state.pending + 1)
