"""The fewest evictions that make one group of equal pods right: sum and clamp up the tree, no search, no solver.

With the minimum of every key fixed, a place is summarised by four numbers (spent, level, low, high): it can hold any
total t in [low, high], and the fewest evictions inside it for t are spent + max(0, level - t). Summaries of children
add up; a bound on a place clamps them. Only maxSkew + 1 minima of a key can ever be useful, so all combinations are
tried. Held against brute force and an integer program in the tests.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import cast

from rebalancer.planning.single_class.placement import (
    Bound,
    Bounds,
    Inner,
    Leaf,
    Subtree,
    count_domains,
    count_pods,
    is_leaf,
)

_Summary = tuple[int, int, int, int]
Minima = tuple[int, ...]
"""The minimum taken for each level."""
Windows = tuple[tuple[int, int | None], ...]
"""For each level the least and the most that a domain of it may hold."""


def min_evictions(root: Inner, bounds: Bounds, pending: int) -> int | None:
    """Return the fewest evictions after which all pods, the pending ones too, can stand right.

    None where no arrangement of them can: arithmetic, room or immovable pods forbid it.
    """
    found = minimum_repair(root, bounds, pending)
    return None if found is None else found[0]


@lru_cache(maxsize=1 << 16)
def minimum_repair(root: Inner, bounds: Bounds, pending: int) -> tuple[int, Windows] | None:
    """Return the fewest evictions, and what each level's domains may hold in an arrangement that attains them."""
    total = count_pods(root) + pending
    best: tuple[int, Windows] | None = None
    for minima in _minima(root, bounds, total):
        windows = tuple(_window(bound, minimum) for bound, minimum in zip(bounds, minima, strict=True))
        found = summarize(root, ((total, total), *windows))
        if found is not None and (best is None or found[0] < best[0]):
            best = found[0], windows
            if not found[0]:
                break
    return best


def _minima(root: Inner, bounds: Bounds, total: int) -> Iterator[Minima]:
    return product(*(_guesses(count_domains(root, level), bound, total) for level, bound in enumerate(bounds, start=1)))


def _guesses(many: int, bound: Bound, total: int) -> range:
    """Return the minima that can matter: the total is at most many * (minimum + maxSkew), at least many * minimum."""
    if bound.max_skew is None or bound.floor_at_zero or many == 0:
        return range(1)
    least = max(0, -(-total // many) - bound.max_skew)
    return range(least, total // many + 1)


def _window(bound: Bound, minimum: int) -> tuple[int, int | None]:
    """Return the least and the most a domain of this level may hold."""
    most = None if bound.max_skew is None else minimum + bound.max_skew
    if bound.cap is not None:
        most = bound.cap if most is None else min(most, bound.cap)
    return max(bound.least, 0 if bound.floor_at_zero else minimum), most


@lru_cache(maxsize=1 << 16)
def summarize(place: Subtree, windows: tuple[tuple[int, int | None], ...]) -> _Summary | None:
    """Return the four numbers of a place, given the least and the most for a domain of each level; None if none fit."""
    least, most = windows[0]
    if is_leaf(place):
        held, fixed, cap, _ = cast("Leaf", place)
        return _clamped((0, held, fixed, cap), least, most)
    spent = level = low = high = 0
    for child, times in cast("Inner", place):
        found = summarize(child, windows[1:])
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


@lru_cache(maxsize=1 << 16)
def sum_of_minima(root: Inner, bounds: Bounds) -> int:
    """Return the sum over the levels of the fewest moves that each level's own bounds ask for, the others forgotten.

    Room and immovable pods are left out of account (docs/semantics.md, "Numbers to report"). It falls with almost every
    useful move, also where no arrangement satisfies all levels together; where a level alone cannot be satisfied, what
    it is over counts instead.
    """
    found = 0
    for level, bound in enumerate(bounds, start=1):
        if bound.max_skew is not None or bound.cap is not None or bound.least:
            found += min_moves(_held(root, level), bound)
    return found


def min_moves(held: Mapping[int, int], bound: Bound) -> int:
    """Return the fewest moves that one bound asks for; `held` says how many domains hold how many pods."""
    total = sum(count * times for count, times in held.items())
    many = sum(held.values())
    best: int | None = None
    for minimum in _guesses(many, bound, total):
        least, most = _window(bound, minimum)
        top = total if most is None else most
        over = sum(times * max(0, count - top) for count, times in held.items())
        under = sum(times * max(0, least - count) for count, times in held.items())
        if many * least <= total <= many * top:
            moves = max(over, under)
            best = moves if best is None else min(best, moves)
    if best is not None:
        return best
    _, most = _window(bound, 0)
    return sum(times * max(0, count - (total if most is None else most)) for count, times in held.items())


def _held(place: Subtree, level: int) -> Mapping[int, int]:
    """Count the domains `level` levels below by how many pods they hold."""
    if level == 0:
        return {count_pods(place): 1}
    found: Counter[int] = Counter()
    for child, times in cast("Inner", place):
        for held, many in _held(child, level - 1).items():
            found[held] += many * times
    return found
