"""When no search is needed: states in which any minimal set of victims is a step.

With the coarser key at maxSkew 1 and room in every domain for one pod more than its even share, the scheduler can only
fill what is short, whichever pods go and in whatever order. Found by trial, not by proof: the tests hold it against the
full search, many more states of them in the thorough run.
"""

from functools import lru_cache
from typing import cast

from rebalancer.planning.arrangement import Bounds, Inner, Leaf, Place, count, domains, is_leaf


@lru_cache(maxsize=1 << 14)
def certain(root: Inner, bounds: Bounds, pending: int, lost: int = 0) -> bool:
    """Say whether every minimal set of victims is a step, whatever the scheduler chooses.

    `lost` is how many places of every domain others may take meanwhile.

    True only for one or two levels with the first at maxSkew 1; the second, if it is bound at all, must have more
    nodes than there are pods, so that its minimum stays 0.
    """
    if len(bounds) > 2 or bounds[0].max_skew != 1 or any(bound.floor_at_zero for bound in bounds):
        return False
    # What the scheduler does not enforce it need not keep to, whatever is wished for.
    if any(bound.cap is not None or bound.least or bound.by_scheduler != bound.max_skew for bound in bounds):
        return False
    total = count(root) + pending
    most = bounds[-1].max_skew if len(bounds) > 1 else None
    if most is not None and total >= domains(root, 2):
        return False
    share = total // domains(root, 1) + 1 + lost
    return all(_room(child, most) >= share for child, _ in root)


def _room(place: Place, most: int | None) -> int:
    """Return how many pods a domain can hold, at most `most` on each of its nodes."""
    if is_leaf(place):
        cap = cast("Leaf", place)[2]
        return cap if most is None else min(cap, most)
    return sum(times * _room(child, most) for child, times in cast("Inner", place))
