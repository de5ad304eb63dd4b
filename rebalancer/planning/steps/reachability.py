"""The proof that no sequence of evictions and placements repairs a small group: every reachable state is visited.

Example: zones of 2 and 3 nodes holding 2,1 | 4,1,3, zone and hostname maxSkew 1: the minimum is 3, and no sequence of
placements reaches it. Cost: bounded by `SearchLimits.unreachable_states`.
"""

from collections.abc import Iterator

from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.limits import SearchBudget, SearchLimitReached
from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import Bounds, count_pods, placements_of_next
from rebalancer.planning.steps.tree_moves import TreeState, evictions


def is_unreachable(state: TreeState, bounds: Bounds, cache: SearchCache) -> bool:
    """Return whether it is proved that no sequence of evictions, few of them at once, repairs a group.

    False also if the group is not small, or has too many states.
    """
    if count_pods(state.root, cache) + state.pending > cache.limits.unreachable_pods:
        return False
    key = state, bounds
    known = cache.unreachable.known.get(key)
    return cache.unreachable.store(key, _is_unreachable(state, bounds, cache)) if known is None else known


def _is_unreachable(state: TreeState, bounds: Bounds, cache: SearchCache) -> bool:
    budget = SearchBudget(cache.limits.unreachable_states)
    seen = {state}
    open_ = [state]
    try:
        while open_:
            now = open_.pop()
            if not now.pending and min_evictions(now.root, bounds, 0, cache) == 0:
                return False
            for following in _anything(now, bounds, cache):
                budget.spend(1)
                if following not in seen:
                    seen.add(following)
                    open_.append(following)
    except SearchLimitReached:
        return False
    return True


def _anything(now: TreeState, bounds: Bounds, cache: SearchCache) -> Iterator[TreeState]:
    """Yield every state that an eviction, or the most favourable placement, can lead to."""
    if now.pending:
        yield from (TreeState(root, now.pending - 1) for root in placements_of_next(now.root, bounds, cache))
    if now.pending < cache.limits.unreachable_concurrent:
        yield from (after for _, after in evictions(now))
