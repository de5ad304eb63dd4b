"""A step that the scheduler is forced to repay: it is safe by itself, whatever follows.

Problem: the scheduler cannot reach every placement that satisfies the bounds. It places one pod at a time, on any
feasible node, and the pods' own constraints can exclude every node. Idea: a set of evictions counts as a step only if
after it, in every interleaving of evictions and placements and whichever feasible nodes the scheduler picks, nothing is
left pending, nothing is worse than before, and the minimum has fallen by their number. The smallest such set is taken,
then it grows one eviction at a time while that still holds, so that every longer prefix is a step too.

Example: zones of 1 and 2 nodes holding 1 | 5,1, maxSkew 2 and 1: no single eviction is a step, its replacement is
stuck; two are, the second frees the first.

Cost: bounded by `SearchLimits.step_states`.
"""

from collections.abc import Callable, Iterator
from typing import cast

from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.driver import Flaw, StepGoal, first_good, rest_states, worst_rest
from rebalancer.planning.search.limits import SearchBudget, SearchLimitReached
from rebalancer.planning.search.report import Attempt, Method, Tally
from rebalancer.planning.single_class.minimum import min_evictions, sum_of_minima
from rebalancer.planning.single_class.placement import (
    Bounds,
    Inner,
    Leaf,
    Path,
    count_pods,
    evict_leaving,
    evict_unmarked,
    excess_by_level,
    has_places,
    is_leaf,
    is_no_worse,
    leaf_paths,
    mark_leaving,
    placements_of_next,
)
from rebalancer.planning.steps.tree_moves import TreeMoves, TreeState, TreeStep

Reached = tuple[int, int]
"""How near a rest state is: the sum of evictions that each constraint alone needs, and the pods without a node."""


def next_step(
    state: TreeState,
    bounds: Bounds,
    allowed: int,
    cache: SearchCache,
    goal: StepGoal = StepGoal.FULL,
    *,
    stay_open: bool = False,
) -> TreeStep:
    """Find at most `allowed` evictions after which the goal is reached whatever feasible nodes the scheduler picks.

    With `stay_open` some node must admit a further pod in every rest state, unless all bounds are satisfied there.

    The smallest step is searched first (one eviction, or two or three if only a further eviction frees a stuck
    replacement) and then grown while every rest state is good. A step that is larger than `allowed` is returned without
    victims, but with the number of evictions that it needs.
    """
    key = state, bounds, allowed, goal, stay_open
    known = cache.steps.known.get(key)
    if known is None:
        known = cache.steps.store(key, _StepSearch(bounds, goal, cache, stay_open=stay_open).step(state, allowed))
    return cast("TreeStep", known)


class _StepSearch:
    """One search for a step with one goal."""

    def __init__(self, bounds: Bounds, goal: StepGoal, cache: SearchCache, *, stay_open: bool) -> None:
        self._bounds = bounds
        self._goal = goal
        self._cache = cache
        self._stay_open = stay_open
        self._budget = SearchBudget(cache.limits.step_states)
        self._candidates = EvictionCandidates(bounds, self._budget, cache, goal)
        self._settled: dict[TreeState, tuple[int, int]] = {}
        """(1 or a flaw, cost) by state, because the same victims in another order lead to the same state."""
        self._tally = Tally()
        self._before: Reached | None = None

    def step(self, state: TreeState, allowed: int) -> TreeStep:
        """Return the smallest step, grown as far as possible; without victims if none is allowed or found."""
        try:
            if self._goal is StepGoal.PARTIAL:
                if not has_places(state.root):  # then replacements fill the places that evictions empty
                    return TreeStep(attempts=self._attempts(answered=False))
                self._before = reached_alone(state, self._bounds, self._cache, self._budget)
            for size in range(1, self._cache.limits.smallest_step + 1):
                sets = self._candidates.sets(state, size)
                good = first_good(sets, self._settle, self._tally)
                if good is not None:
                    return self._grow(good[1], good[0], allowed) if size <= allowed else TreeStep(needed=size)
        except SearchLimitReached:
            self._tally.limit_reached()
            return TreeStep(complete=False, attempts=self._attempts(answered=False))
        return TreeStep(attempts=self._attempts(answered=False))

    def _grow(self, now: TreeState, victims: tuple[Path, ...], allowed: int) -> TreeStep:
        """Add evictions to a step one by one, from the state in which its victims are marked."""
        grown, complete = list(victims), True
        most = min(allowed, self._cache.limits.step_evictions)
        while self._goal is StepGoal.FULL and len(grown) < most:
            try:
                options = self._candidates.after(now)
                following = next((option for option in options if self._settle(option[1]) > 0), None)
            except SearchLimitReached:
                complete = False
                break
            if following is None:
                break
            path, now = following
            grown.append(path)
        return TreeStep(tuple(grown), len(victims), complete=complete, attempts=self._attempts(answered=True))

    def _settle(self, state: TreeState) -> int:
        if state in self._settled:
            value, cost = self._settled[state]
            self._budget.spend(cost)
            return value
        left = self._budget.left
        value = settle(state, self._bounds, self._cache, self._budget, self._before, stay_open=self._stay_open)
        self._settled[state] = value, left - self._budget.left
        return value

    def _attempts(self, *, answered: bool) -> tuple[Attempt]:
        method = Method.PARTIAL if self._goal is StepGoal.PARTIAL else Method.FORCED
        return (self._tally.attempt(method, answered=answered),)


class EvictionCandidates:
    """The evictions that one search may begin with; each class of nodes that is examined costs 1 of `budget`."""

    def __init__(
        self, bounds: Bounds, budget: SearchBudget, cache: SearchCache, goal: StepGoal = StepGoal.FULL
    ) -> None:
        self._bounds = bounds
        self._budget = budget
        self._cache = cache
        self._partial = goal is StepGoal.PARTIAL
        self._known: dict[TreeState, tuple[list[tuple[Path, TreeState]], int]] = {}
        """The candidates in a state, and what finding them cost."""

    def sets(self, state: TreeState, size: int) -> Iterator[tuple[tuple[Path, ...], TreeState]]:
        """Yield (victims, state in which they are marked) for each useful set of victims, most promising first."""
        if size == 0:
            yield (), state
            return
        for path, after in self.after(state):
            for rest, end in self.sets(after, size - 1):
                yield (path, *rest), end

    def after(self, state: TreeState) -> list[tuple[Path, TreeState]]:
        """Return the leaf classes where one more eviction lowers the minimum by one, most promising first.

        Classes that leave the scheduler the fewest choices come first, then those in the fullest domain, then the
        fullest nodes. With the partial goal, every class that has movable pods is a candidate.
        """
        if state in self._known:
            candidates, cost = self._known[state]
            self._budget.spend(cost)
            return candidates
        left = self._budget.left
        candidates = self._rank(state)
        self._known[state] = candidates, left - self._budget.left
        return candidates

    def _rank(self, state: TreeState) -> list[tuple[Path, TreeState]]:
        bounds, cache = self._bounds, self._cache
        leaving = count_leaving(state.root)
        rest = evict_leaving(state.root) if leaving else state.root
        before = min_evictions(rest, bounds, state.pending + leaving, cache)
        if not self._partial and not before:
            return []
        ranked = []
        for path in leaf_paths(state.root):
            held, fixed, _, going = cast("Leaf", path[-1])
            if held - going <= fixed:
                continue
            self._budget.spend(1)
            gone = evict_unmarked(rest, _path_after_leaving(path) if leaving else path)
            if self._partial or (
                before and min_evictions(gone, bounds, state.pending + leaving + 1, cache) == before - 1
            ):
                after = TreeState(mark_leaving(state.root, path), state.pending)
                choices = sum(1 for _ in placements_of_next(gone, bounds, cache))
                ranked.append((choices, tuple([-count_pods(subtree, cache) for subtree in path]), path, after))
        ranked.sort(key=lambda candidate: candidate[:3])
        return [(path, after) for _, _, path, after in ranked]


def _path_after_leaving(path: Path) -> Path:
    """Return the path to the same leaf after everything that is to leave has left."""
    held, fixed, cap, going = cast("Leaf", path[-1])
    return (*[evict_leaving(cast("Inner", domain)) for domain in path[:-1]], (held - going, fixed, cap, 0))


def settle(
    state: TreeState,
    bounds: Bounds,
    cache: SearchCache,
    budget: SearchBudget | None = None,
    before: Reached | None = None,
    *,
    stay_open: bool = False,
) -> int:
    """Return 1 if every rest state is good after the marked pods are evicted, in any order; otherwise a `Flaw`.

    With `before` the goal is partial: every rest state must be nearer than `before`. Without a budget every state is
    visited.
    """
    value = _rest_value(state, bounds, cache, before, stay_open=stay_open)
    if value is None:
        return Flaw.NOT_NEARER
    return worst_rest(rest_states(state, TreeMoves(bounds, cache, budget)), value)


def reached_alone(state: TreeState, bounds: Bounds, cache: SearchCache, budget: SearchBudget) -> Reached:
    """Return the best that the scheduler reaches without an eviction, by placing the pods that are pending."""
    rests = rest_states(state, TreeMoves(bounds, cache, budget))
    return min((sum_of_minima(rest.root, bounds, cache), rest.pending) for rest in rests)


def admits_no_pod(state: TreeState, bounds: Bounds, cache: SearchCache) -> bool:
    """Return whether a state that violates a bound admits no further pod: the next replacement would be stuck."""
    if any(True for _ in placements_of_next(state.root, bounds, cache)):
        return False
    return bool(min_evictions(state.root, bounds, state.pending, cache))


# Many branches: one for each flaw of a rest state, cheapest first.
def _rest_value(
    state: TreeState, bounds: Bounds, cache: SearchCache, before: Reached | None, *, stay_open: bool
) -> Callable[[TreeState], int] | None:
    """Return the value of a rest state: 1 where no pod is pending, nothing is worse and the goal is met, or a flaw."""
    worst = excess_by_level(state.root, bounds, cache)
    least = min_evictions(state.root, bounds, state.pending, cache)
    if least is None and before is None:
        return None
    nearer = None if least is None else least - count_leaving(state.root)

    def value(end: TreeState) -> int:
        if end.pending:
            return Flaw.PENDING
        if not is_no_worse(excess_by_level(end.root, bounds, cache), worst):
            return Flaw.WORSE
        if before is not None and not (sum_of_minima(end.root, bounds, cache), 0) < before:
            return Flaw.NOT_NEARER
        if before is None or least:
            needed = min_evictions(end.root, bounds, 0, cache)
            if needed is None or nearer is None or needed > nearer:
                return Flaw.NOT_NEARER
        return Flaw.CLOSED if stay_open and admits_no_pod(end, bounds, cache) else 1

    return value


def count_leaving(root: Inner) -> int:
    """Count the pods that are marked to leave."""
    return sum([times * (child[3] if is_leaf(child) else count_leaving(child)) for child, times in root])
