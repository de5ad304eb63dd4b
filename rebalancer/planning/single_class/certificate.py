"""When no search is needed: repairs that the scheduler is forced to complete, as its own counts show.

A pod lands only where a domain then holds at most what the emptiest holds and maxSkew. From that alone it follows, for
the states below, that no pod is ever left without a node and that everything holds in the end: in whatever order pods
go and come, and whichever feasible nodes are picked. What is chosen is how many pods each domain gives, not which; so
the cheapest of a domain go, in any order, and any part of them is a step too. docs/design.md has the argument, the
tests hold it against every interleaving of very many states.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, cast

from rebalancer.planning.single_class.minimum import Windows, minimum_repair
from rebalancer.planning.single_class.placement import (
    Bound,
    Bounds,
    Inner,
    Leaf,
    Subtree,
    count_domains,
    count_pods,
    count_range,
    is_leaf,
)


class _Asked(NamedTuple):
    """What is asked of a state, in numbers: `zone` is the coarser key's maxSkew, or the only one's.

    `share` and `level` are what a zone and a node hold at the most while each is the emptiest; `host` is None where
    nothing is asked of nodes below.
    """

    zone: int
    host: int | None
    total: int
    zones: int
    share: int
    level: int

    @property
    def lowest(self) -> int:
        """What every zone holds at the least once maxSkew is kept."""
        return max(0, -(-(self.total - (self.zones - 1) * self.zone) // self.zones))


@lru_cache(maxsize=1 << 14)
def certify(root: Inner, bounds: Bounds, pending: int, lost: int = 0) -> Windows | None:
    """Return within which windows any minimal set of victims is a step; None where that is not known.

    The windows are those of `victims.cheapest`: what a domain that gives a pod keeps at the least, and what none may
    keep more than. `lost` is how many places of every domain others may take meanwhile.
    """
    solved = minimum_repair(root, bounds, pending)
    if solved is None or not solved[0]:
        return None
    asked = _asked(root, bounds, pending)
    if asked is None:
        return None
    if asked.host is None or asked.total < count_domains(root, 2):
        if not _roomy(root, asked, lost):
            return None
        # The emptiest zone is filled first then, whoever went: not even the numbers matter.
        if asked.zone == 1:
            return solved[1]
    elif lost or not _passable(root, asked):
        return None
    return _levelled(root, asked, solved[0])


def _asked(root: Inner, bounds: Bounds, pending: int) -> _Asked | None:
    """Return what is asked of one level or two; None where it is of another kind."""
    skew = bounds[0].max_skew
    if len(bounds) > 2 or skew is None:
        return None
    total, zones = count_pods(root) + pending, count_domains(root, 1)
    nodes = count_domains(root, len(bounds))
    host = bounds[1].max_skew if len(bounds) > 1 else None
    level = total // nodes if host is not None else 0
    asked = _Asked(skew, host, total, zones, total // zones, level)
    needless = _needless(bounds[0], asked.share + skew, asked.lowest) and all(
        _needless(each, None if host is None else level + host, 0) for each in bounds[1:]
    )
    return asked if needless else None


def _needless(bound: Bound, most: int | None, lowest: int) -> bool:
    """Say whether the scheduler enforces what is wished for, and any limit holds by that, with `most` and `lowest`."""
    if bound.floor_at_zero or bound.by_scheduler != bound.max_skew or bound.least > lowest:
        return False
    return bound.cap is None or (most is not None and most <= bound.cap)


def _roomy(root: Inner, asked: _Asked, lost: int) -> bool:
    """Say whether every zone has a free node whenever the scheduler may choose it; some node is always empty."""
    return all(_room(child, asked.host) >= asked.share + asked.zone + lost for child, _ in root)


def _room(place: Subtree, most: int | None) -> int:
    """Return how many pods a domain can hold, at most `most` on each of its nodes."""
    if is_leaf(place):
        cap = cast("Leaf", place)[2]
        return cap if most is None else min(cap, most)
    return sum(times * _room(child, most) for child, times in cast("Inner", place))


def _passable(root: Inner, asked: _Asked) -> bool:
    """Say whether there is a free node whenever a pod is to be placed, though every node holds pods.

    A pod would be stuck if the emptiest node were in a zone that is closed, and an open zone had only nodes as full as
    they may be. A zone that is even enough inside holds too little for that, unless it has more nodes than the other.
    """
    assert asked.host is not None, "else some node is free at once"
    most = asked.level + asked.host
    sizes = [count_domains(zone, 1) for zone, _ in root]
    if (max(sizes) - min(sizes)) * most >= asked.host + asked.zone or min(sizes) * most <= asked.share:
        return False
    for zone, _ in root:
        low, high = count_range(zone, 1)
        if high - low > asked.host:
            return False
        if any(cast("Leaf", node)[2] < min(most, asked.share + asked.zone) for node, _ in cast("Inner", zone)):
            return False
    return True


class _Zone(NamedTuple):
    """`times` equal zones: what each keeps when its nodes have given what they must, and may give after that."""

    times: int
    held: int
    given: int
    more: int


def _levelled(root: Inner, asked: _Asked, fewest: int) -> Windows | None:
    """Return the windows that take `fewest` victims from the fullest zones; None if the scheduler could waste one.

    It wastes one if the emptiest zone can stay emptier than a zone that has given all by more than maxSkew, the pods
    being put where the others are not yet too full for that.
    """
    top = None if asked.host is None else _top(root, asked.host, asked)
    found = _given(root, asked.level, top)
    if found is None or (top is None and asked.host is not None):
        return None
    left = fewest - sum(zone.times * zone.given for zone in found)
    height = _height(found, left, asked.share)
    floor = max(asked.share, height - 1)
    fullest = [zone for zone in found if zone.held >= height]
    spare = left - _over(found, height)
    giving = sum(zone.times for zone in fullest if min(zone.more, zone.held - floor) > zone.held - height)
    if not 0 <= spare <= giving or any(zone.more < zone.held - height for zone in fullest):
        return None
    remaining = sum(zone.times for zone in fullest) - spare
    wasted = asked.total + asked.zone <= asked.zones * (height - 1) + remaining
    if height > asked.share + asked.zone or (wasted and min(zone.held for zone in found) < height - asked.zone):
        return None
    # With maxSkew 1 a zone that has given too much is filled again before any other.
    if asked.zone > 1 and any(zone.given and zone.held < asked.share for zone in found):
        return None
    windows = (floor, height), (asked.level, top)
    return windows[:1] if is_leaf(root[0][0]) else windows


def _top(root: Inner, host: int, asked: _Asked) -> int | None:
    """Return the most that a node may keep: so much that the emptiest must come near enough to it; None if nothing."""
    zones = [(count_range(zone, 1)[0], count_domains(zone, 1)) for zone, _ in root]
    for top in range(asked.level + host, asked.level - 1, -1):
        if all(low >= top - host or asked.lowest + host > size * (top - 1) for low, size in zones):
            return top
    return None


def _given(root: Inner, level: int, top: int | None) -> Sequence[_Zone] | None:
    """Return what the zones give so that no node keeps more than `top`; None if pods that cannot move are too many."""
    found = []
    for zone, times in root:
        given = more = 0
        for leaf, many in [(zone, 1)] if is_leaf(zone) else cast("Inner", zone):
            held, fixed, _, _ = cast("Leaf", leaf)
            must = 0 if top is None else max(0, held - top)
            if must > held - fixed:
                return None
            given += many * must
            more += many * (min(held - fixed, max(must, held - level)) - must)
        found.append(_Zone(times, count_pods(zone) - given, given, more))
    return found


def _height(zones: Sequence[_Zone], left: int, lowest: int) -> int:
    """Return the most that a zone keeps if so many are taken from the fullest, each time; `lowest` at the least."""
    most = max(zone.held for zone in zones)
    heights = range(lowest, most)
    return lowest + bisect_left(heights, True, key=lambda height: _over(zones, height) <= left)


def _over(zones: Sequence[_Zone], height: int) -> int:
    return sum(zone.times * max(0, zone.held - height) for zone in zones)
