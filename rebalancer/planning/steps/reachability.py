"""The proof that nothing leads to the end: every state that evictions and placements can make of a small group."""

from collections.abc import Iterator
from functools import lru_cache
from typing import cast

from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import (
    Bounds,
    Leaf,
    count_pods,
    evict_leaving,
    leaf_paths,
    mark_leaving,
    placements_of_next,
)
from rebalancer.planning.steps.forced import SearchBudget, SearchLimitReached, SearchState

SMALL = 12
"""Pods of a group up to which every state is looked at."""

_EFFORT = 100_000
_OUT = 3


@lru_cache(maxsize=1 << 12)
def is_unreachable(state: SearchState, bounds: Bounds) -> bool:
    """Say whether no evictions and no placements at all lead to the end, at most three pods being out at once.

    Proved by looking at every state that there is; False also where the group is not small, or there are too many.
    """
    if count_pods(state.root) + state.pending > SMALL:
        return False
    effort = SearchBudget(_EFFORT)
    seen = {state}
    open_ = [state]
    try:
        while open_:
            now = open_.pop()
            if not now.pending and min_evictions(now.root, bounds, 0) == 0:
                return False
            for each in _anything(now, bounds):
                effort.spend(1)
                if each not in seen:
                    seen.add(each)
                    open_.append(each)
    except SearchLimitReached:
        return False
    return True


def _anything(now: SearchState, bounds: Bounds) -> Iterator[SearchState]:
    """Yield what may follow if everybody does as we would like."""
    if now.pending:
        yield from (SearchState(root, now.pending - 1) for root in placements_of_next(now.root, bounds))
    if now.pending < _OUT:
        for path in leaf_paths(now.root):
            held, fixed, _, _ = cast("Leaf", path[-1])
            if held > fixed:
                yield SearchState(evict_leaving(mark_leaving(now.root, path)), now.pending + 1)
