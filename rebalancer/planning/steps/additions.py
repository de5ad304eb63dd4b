"""A step that adds pods before it takes others away: safe whichever feasible nodes the scheduler picks.

Problem: an eviction takes a pod away before its replacement exists, and opens the place that it empties. Idea: mark the
victims, let the scheduler place an equal number of added pods, and only then take the marked pods away. The victims are
chosen before anything is placed. So a set of them counts as a step only if after every sequence of placements nothing
is left pending, no bound is exceeded by more than before once they are gone, and the minimum has fallen by their
number. The smallest such set grows one victim at a time while that holds.

Example: zones 3,1 | 4 with maxSkew 1 and 2. Whichever pod is evicted, its replacement may find no node. A pod that is
added first goes to the node with 1, since no other node admits it; then a pod of the node with 3 goes: 2,2 | 4.

Cost: bounded by `SearchLimits.step_states`.
"""

from collections.abc import Hashable, Sequence

from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.driver import Flaw, first_good, rest_states, worst_rest
from rebalancer.planning.search.limits import SearchBudget, SearchLimitReached
from rebalancer.planning.search.report import Method, Tally
from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import (
    Bounds,
    Path,
    evict_leaving,
    excess_by_level,
    is_no_worse,
    placements_of_next,
)
from rebalancer.planning.steps.forced import EvictionCandidates
from rebalancer.planning.steps.tree_moves import TreeState, TreeStep


def addition_step(state: TreeState, bounds: Bounds, most: int, cache: SearchCache) -> TreeStep:
    """Return a step of at most `most` pods; without victims if no step is found.

    No pod of `state` is pending. All of the victims go together: no prefix of them is a step.
    """
    search = _Search(state, bounds, cache)
    try:
        return search.find(most)
    except SearchLimitReached:
        search.tally.limit_reached()
        return TreeStep(complete=False, attempts=(search.tally.attempt(Method.ADDITION, answered=False),))


class _Search:
    """One search for a step."""

    def __init__(self, state: TreeState, bounds: Bounds, cache: SearchCache) -> None:
        assert not state.pending, "every pod of the owner is Ready before one is added"
        self._before = state
        self._bounds = bounds
        self._cache = cache
        self._budget = SearchBudget(cache.limits.step_states)
        self._candidates = EvictionCandidates(bounds, self._budget, cache)
        self._excess = excess_by_level(state.root, bounds, cache)
        self._least = min_evictions(state.root, bounds, 0, cache)
        self.tally = Tally()

    def find(self, most: int) -> TreeStep:
        """Find the smallest step, then add victims while it remains a step."""
        if self._least is not None:
            for size in range(1, min(most, self._cache.limits.smallest_step) + 1):
                sets = self._candidates.sets(self._before, size)
                good = first_good(sets, lambda after, size=size: self._settle(after, size), self.tally)  # type: ignore[misc]
                if good is not None:
                    return self._grow(good[0], good[1], most)
        return TreeStep(attempts=(self.tally.attempt(Method.ADDITION, answered=False),))

    def _grow(self, victims: tuple[Path, ...], marked: TreeState, most: int) -> TreeStep:
        grown = list(victims)
        while len(grown) < most:
            try:
                options = self._candidates.after(marked)
                following = next((one for one in options if self._settle(one[1], len(grown) + 1) > 0), None)
            except SearchLimitReached:
                break
            if following is None:
                break
            path, marked = following
            grown.append(path)
        attempts = (self.tally.attempt(Method.ADDITION, answered=True),)
        return TreeStep(tuple(grown), len(grown), attempts=attempts)

    def _settle(self, marked: TreeState, added: int) -> int:
        """Return 1 if every placement of this many added pods beside the marked pods ends well, otherwise a `Flaw`."""
        start = TreeState(marked.root, added)
        moves = _Placements(self._bounds, self._cache, self._budget)
        return worst_rest(rest_states(start, moves), lambda end: self._value(end, added))

    def _value(self, end: TreeState, added: int) -> int:
        if end.pending:
            return Flaw.PENDING
        left = evict_leaving(end.root)
        if not is_no_worse(excess_by_level(left, self._bounds, self._cache), self._excess):
            return Flaw.WORSE
        needed = min_evictions(left, self._bounds, 0, self._cache)
        assert self._least is not None
        return 1 if needed is not None and needed <= self._least - added else Flaw.NOT_NEARER


class _Placements:
    """What the scheduler can do with the added pods: marked pods stay until all of them are Ready."""

    def __init__(self, bounds: Bounds, cache: SearchCache, budget: SearchBudget) -> None:
        self._bounds = bounds
        self._cache = cache
        self._budget = budget

    def key(self, state: TreeState) -> Hashable:
        """Return the state itself: it is a value."""
        return state

    def successors(self, state: TreeState) -> Sequence[TreeState]:
        """Return the states after one more pod was placed."""
        if not state.pending:
            return ()
        placed = placements_of_next(state.root, self._bounds, self._cache)
        following = [TreeState(root, state.pending - 1) for root in placed]
        self._budget.spend(1 + len(following))
        return following
