"""The proof that nothing leads to the end: every state that evictions and placements can make of a small group."""

from collections.abc import Iterator
from functools import lru_cache
from typing import cast

from rebalancer.planning.arrangement import Bounds, Leaf, count, departed, landings, leaves, marked
from rebalancer.planning.distance import distance
from rebalancer.planning.reach import Effort, State, TooLarge

SMALL = 12
"""Pods of a group up to which every state is looked at."""

_EFFORT = 100_000
_OUT = 3


@lru_cache(maxsize=1 << 12)
def out_of_reach(state: State, bounds: Bounds) -> bool:
    """Say whether no evictions and no placements at all lead to the end, at most three pods being out at once.

    Proved by looking at every state that there is; False also where the group is not small, or there are too many.
    """
    if count(state.root) + state.pending > SMALL:
        return False
    effort = Effort(_EFFORT)
    seen = {state}
    open_ = [state]
    try:
        while open_:
            now = open_.pop()
            if not now.pending and distance(now.root, bounds, 0) == 0:
                return False
            for each in _anything(now, bounds):
                effort.spend(1)
                if each not in seen:
                    seen.add(each)
                    open_.append(each)
    except TooLarge:
        return False
    return True


def _anything(now: State, bounds: Bounds) -> Iterator[State]:
    """Yield what may follow if everybody does as we would like."""
    if now.pending:
        yield from (State(root, now.pending - 1) for root in landings(now.root, bounds))
    if now.pending < _OUT:
        for path in leaves(now.root):
            held, fixed, _, _ = cast("Leaf", path[-1])
            if held > fixed:
                yield State(departed(marked(now.root, path)), now.pending + 1)
