"""The fewest evictions that make one group of equal pods right: sum and clamp up the tree, no search, no solver.

With the minimum of every key fixed, a place is summarised by four numbers (spent, level, low, high): it can hold any
total t in [low, high], and the fewest evictions inside it for t are spent + max(0, level - t). Summaries of children
add up; a bound on a place clamps them. Only maxSkew + 1 minima of a key can ever be useful, so all combinations are
tried. Held against brute force and an integer program in the tests.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import cast

from rebalancer.planning.arrangement import Bound, Bounds, Inner, Leaf, Place, count, domains, is_leaf

_Summary = tuple[int, int, int, int]
Minima = tuple[int, ...]
"""The minimum taken for each level."""


@lru_cache(maxsize=1 << 16)
def distance(root: Inner, bounds: Bounds, pending: int) -> int | None:
    """Return the fewest evictions after which all pods, the pending ones too, can stand right.

    None where no arrangement of them can: arithmetic, room or immovable pods forbid it.
    """
    total = count(root) + pending
    best: int | None = None
    for minima in _minima(root, bounds, total):
        found = evictions_for(root, bounds, total, minima)
        if found is not None and (best is None or found < best):
            best = found
            if best == 0:
                break
    return best


def _minima(root: Inner, bounds: Bounds, total: int) -> Iterator[Minima]:
    return product(*(_guesses(domains(root, level), bound, total) for level, bound in enumerate(bounds, start=1)))


def _guesses(many: int, bound: Bound, total: int) -> range:
    """Return the minima that can matter: the total is at most many * (minimum + maxSkew), at least many * minimum."""
    if bound.max_skew is None or bound.floor_at_zero or many == 0:
        return range(1)
    least = max(0, -(-total // many) - bound.max_skew)
    return range(least, total // many + 1)


def evictions_for(root: Inner, bounds: Bounds, total: int, minima: Minima) -> int | None:
    """Return the fewest evictions that leave exactly `total` pods in place with these minima, or None."""
    windows = tuple(_window(bound, minimum) for bound, minimum in zip(bounds, minima, strict=True))
    found = summary(root, ((total, total), *windows))
    return None if found is None else found[0]


def _window(bound: Bound, minimum: int) -> tuple[int, int | None]:
    """Return the least and the most a domain of this level may hold."""
    most = None if bound.max_skew is None else minimum + bound.max_skew
    if bound.cap is not None:
        most = bound.cap if most is None else min(most, bound.cap)
    return (0 if bound.floor_at_zero else minimum), most


@lru_cache(maxsize=1 << 16)
def summary(place: Place, windows: tuple[tuple[int, int | None], ...]) -> _Summary | None:
    """Return the four numbers of a place, given the least and the most for a domain of each level; None if none fit."""
    least, most = windows[0]
    if is_leaf(place):
        held, fixed, cap, _ = cast("Leaf", place)
        return _clamped((0, held, fixed, cap), least, most)
    spent = level = low = high = 0
    for child, times in cast("Inner", place):
        found = summary(child, windows[1:])
        if found is None:
            return None
        spent += times * found[0]
        level += times * found[1]
        low += times * found[2]
        high += times * found[3]
    return _clamped((spent, level, low, high), least, most)


def _clamped(summary: _Summary, least: int, most: int | None) -> _Summary | None:
    spent, level, low, high = summary
    low = max(low, least)
    if most is not None:
        high = min(high, most)
    if low > high:
        return None
    if level > high:
        return spent + level - high, high, low, high
    return spent, max(level, low), low, high
