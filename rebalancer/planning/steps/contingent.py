"""The whole repair, each eviction chosen after the last replacements are placed.

Problem: `forced.next_step` sees one step only. A step that is safe by itself may lead to a state from which no further
step is forced, and it cannot react to an unfavourable placement. Idea: a contingent plan. One pod is evicted. The
scheduler places the pending pods, on any feasible nodes, until none is pending or no node admits one. Then the next
eviction is chosen by where the pods are. The result is the first eviction of a plan that always succeeds, or the
longest part of a forced step that leaves the rest of the plan possible. The number of evictions that is enough falls
with each eviction, so neither the plan nor an extra eviction has to be stored: the total never exceeds the number that
was enough at the beginning.

Example: three zones of four nodes holding 5,3,6,4 | 0,0,2,2 | 6,0,0,6, maxSkew 1 and 1: the minimum is 12; 13 always
succeed if four may be pending at once; with fewer pending no number of evictions always succeeds.

Cost: bounded by `SearchLimits.contingent_states` for one group and `contingent_states_of_plan` for a plan.
"""

from typing import cast

from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.driver import Flaw, first_good, rest_states, worst_rest
from rebalancer.planning.search.limits import SearchBudget, SearchLimitReached
from rebalancer.planning.search.report import Attempt, Method, Tally
from rebalancer.planning.single_class.placement import Bounds, Path, excess_by_level, is_no_worse, mark_leaving
from rebalancer.planning.steps.forced import next_step
from rebalancer.planning.steps.tree_moves import TreeMoves, TreeState, TreeStep, evictions

Excess = tuple[int, ...]

_NONE = TreeStep(attempts=(Attempt(method=Method.CONTINGENT),))


def contingent_step(
    state: TreeState,
    bounds: Bounds,
    concurrent: int,
    cache: SearchCache,
    *,
    budget: SearchBudget | None = None,
    extra: int = 1,
) -> TreeStep:
    """Return evictions after which the whole repair still always succeeds, with the minimum or `extra` more.

    `concurrent` is how many may be under way at once; a prefix of the result, not shorter than `needed`, is a step too.
    The result has no victims if there is no such plan, if pods are still to be placed, or if the search reaches its own
    limit or spends the rest of `budget`.
    """
    concurrent = min(concurrent, cache.limits.concurrent)
    question = state, bounds, concurrent, extra
    if question in cache.contingent_steps:
        return cast("TreeStep", cache.contingent_steps[question])
    own = (budget or SearchBudget(cache.limits.contingent_states)).part(cache.limits.contingent_states)
    try:
        step = _ContingentSearch(bounds, concurrent, cache, own).step(state, extra)
    except SearchLimitReached:
        step = TreeStep(attempts=(Attempt(method=Method.CONTINGENT, limit_reached=True),))
        if own.left >= 0:
            return step  # other searches have spent the budget: the answer is not stored
    cache.contingent_steps[question] = step
    return step


def forced_step(
    state: TreeState,
    bounds: Bounds,
    allowed: int,
    cache: SearchCache,
    *,
    concurrent: int,
    budget: SearchBudget | None = None,
) -> TreeStep:
    """Return a step of at most `allowed` evictions that is safe by itself, if there is no contingent plan.

    A step after which some node still admits pods is preferred. A step that needs more than `concurrent` evictions at
    once is returned without victims, with the least number that would be enough, also for a contingent plan.
    """
    steps = [next_step(state, bounds, allowed, cache, stay_open=True), next_step(state, bounds, allowed, cache)]
    fitting = next((step for step in steps if step.victims and step.needed <= concurrent), None)
    if fitting is not None:
        return fitting
    attempts = steps[-1].attempts
    for more in range(concurrent + 1, cache.limits.concurrent + 1):
        if contingent_step(state, bounds, more, cache, budget=budget).victims:
            return TreeStep(needed=more, attempts=attempts)
    needed = max(step.needed for step in steps)
    return TreeStep(needed=needed, complete=steps[-1].complete, attempts=attempts)


class _ContingentSearch:
    """The search of one group.

    In its methods `worst` is the excess of each bound at the last state without pending pods; in the next such state no
    bound may be exceeded by more.
    """

    def __init__(self, bounds: Bounds, concurrent: int, cache: SearchCache, budget: SearchBudget) -> None:
        self._bounds = bounds
        self._concurrent = concurrent
        self._cache = cache
        self._budget = budget
        self._moves = TreeMoves(bounds, cache, budget)
        self._rests: dict[TreeState, frozenset[TreeState]] = {}
        self._enough: dict[tuple[TreeState, Excess], int] = {}
        """The fewest evictions that are known to be enough."""
        self._too_few: dict[tuple[TreeState, Excess], int] = {}

    def step(self, state: TreeState, extra: int) -> TreeStep:
        """Return the first evictions of a plan that always succeeds."""
        least, limit = self._moves.min_evictions(state), self._cache.limits.contingent_evictions
        if least is None or least > limit or state.pending > limit or self._rest_states(state) != {state}:
            return _NONE
        worst = self._excess(state)
        numbers = range(least, least + extra + 1)
        enough = next((number for number in numbers if self._settles(state, worst, number) > 0), None)
        if not enough:
            return _NONE
        step = self._batch(state, worst, enough) or self._first(state, worst, enough)
        return step._replace(extra=enough - least)

    def _batch(self, state: TreeState, worst: Excess, enough: int) -> TreeStep | None:
        """Return the longest prefix of a forced step that leaves enough evictions for the rest of the repair."""
        step = next_step(state, self._bounds, min(enough, self._cache.limits.step_evictions), self._cache)
        victims = step.victims if step.needed <= self._concurrent else ()
        root, taken = state.root, 0
        for size, path in enumerate(victims, start=1):
            root = mark_leaving(root, path)
            if size >= step.needed:
                rests = rest_states(TreeState(root, state.pending), TreeMoves(self._bounds, self._cache, self._budget))
                if worst_rest(rests, lambda end, left=enough - size: self._settles(end, worst, left)) <= 0:  # type: ignore[misc]
                    break
                taken = size
        if not taken:
            return None
        return TreeStep(victims[:taken], step.needed, attempts=(Attempt(method=Method.CONTINGENT, answered=True),))

    def _first(self, state: TreeState, worst: Excess, enough: int) -> TreeStep:
        """Return the one eviction to begin with."""
        tally = Tally()
        path = self._eviction(state, worst, enough, tally)
        victims = () if path is None else (path,)
        return TreeStep(victims, 1, attempts=(tally.attempt(Method.CONTINGENT),))

    def _rest_states(self, state: TreeState) -> frozenset[TreeState]:
        known = self._rests.get(state)
        if known is None:
            known = self._rests[state] = frozenset(rest_states(state, self._moves))
        return known

    def _settles(self, now: TreeState, worst: Excess, evictions_left: int) -> int:
        """Return 1 if this many evictions are enough from a rest state, else its flaw."""
        least = self._moves.min_evictions(now)
        if least is None or least > evictions_left:
            return Flaw.NOT_NEARER
        if not now.pending:
            excess = self._excess(now)
            if not is_no_worse(excess, worst):
                return Flaw.WORSE
            if not least:
                return 1
            worst = excess
        if not evictions_left or now.pending >= self._concurrent:
            return Flaw.PENDING if now.pending else Flaw.NOT_NEARER
        key = now, worst
        if self._enough.get(key, evictions_left + 1) <= evictions_left:
            return 1
        if self._too_few.get(key, -1) >= evictions_left:
            return Flaw.PENDING
        succeeds = self._eviction(now, worst, evictions_left, Tally()) is not None
        (self._enough if succeeds else self._too_few)[key] = evictions_left
        return 1 if succeeds else Flaw.PENDING

    def _eviction(self, now: TreeState, worst: Excess, evictions_left: int, tally: Tally) -> Path | None:
        good = first_good(
            self._candidates(now, evictions_left),
            lambda after: worst_rest(
                self._rest_states(after), lambda end: self._settles(end, worst, evictions_left - 1)
            ),
            tally,
        )
        return None if good is None else good[0]

    def _candidates(self, now: TreeState, evictions_left: int) -> list[tuple[Path, TreeState]]:
        """Return candidates, most promising first: the fewest rest states, then the least minimum."""
        ranked = []
        for path, after in evictions(now):
            self._budget.spend(1)
            least = self._moves.min_evictions(after)
            if least is not None and least < evictions_left:
                ranked.append((len(self._rest_states(after)), least, path, after))
        ranked.sort(key=lambda candidate: candidate[:3])
        return [(path, after) for _, _, path, after in ranked]

    def _excess(self, state: TreeState) -> Excess:
        return excess_by_level(state.root, self._bounds, self._cache)
