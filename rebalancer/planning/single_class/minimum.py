"""The fewest evictions that repair one group of equal pods: sums and bounds up the tree, no search, no solver.

Problem: find a placement within all bounds that the fewest pods must move for. Idea: with the minimum of every key
fixed, a subtree is summarized by four numbers (spent, level, low, high): it can hold any total t in [low, high], and
the fewest evictions inside it for t are spent + max(0, level - t). Summaries of children add up; a bound on a subtree
clamps them. Only maxSkew + 1 minima of a key can ever be useful, so all combinations are tried.

Example: zones of 2+1 and 4+1+3 pods, maxSkew 1 for zones, minimum 5: each zone may hold 5 to 6. The first zone, which
holds 3, is (0, 5, 5, 6) after clamping; the second, which holds 8, is (2, 6, 5, 6). Together (2, 11, 10, 12): 2
evictions for 11 pods.

Cost: the classes of the tree times (maxSkew + 1) for each key. The tests compare it with brute force and with an
integer program.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple, cast

from rebalancer.planning.scope.bounds import Bound
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.single_class.placement import (
    Bounds,
    Inner,
    Subtree,
    count_domains,
    count_pods,
    is_leaf,
)

_Summary = tuple[int, int, int, int]
Minima = tuple[int, ...]
"""The minimum taken for each level."""
Windows = tuple[tuple[int, int | None], ...]
"""For each level the least and the most pods that its domains may hold."""

_UNKNOWN: tuple[()] = ()


class MinimumRepair(NamedTuple):
    """The fewest evictions, and the windows of each level's domains in a placement that attains this minimum."""

    evictions: int
    windows: Windows


def min_evictions(root: Inner, bounds: Bounds, pending: int, cache: SearchCache) -> int | None:
    """Return the fewest evictions after which all pods, the pending ones too, can be placed within the bounds.

    None if arithmetic, capacity or immovable pods leave no placement within the bounds.
    """
    repair = minimum_repair(root, bounds, pending, cache)
    return None if repair is None else repair[0]


def minimum_repair(root: Inner, bounds: Bounds, pending: int, cache: SearchCache) -> MinimumRepair | None:
    """Return the fewest evictions and the windows that they lead to; None if no placement is."""
    key = root, bounds, pending
    known = cache.minimum_repairs.known.get(key, _UNKNOWN)
    if known is not _UNKNOWN:
        return cast("MinimumRepair | None", known)
    total = count_pods(root, cache) + pending
    best: MinimumRepair | None = None
    for minima in _minima(root, bounds, total):
        windows = tuple([_window(bound, minimum) for bound, minimum in zip(bounds, minima, strict=True)])
        summary = summarize(root, ((total, total), *windows), cache)
        if summary is not None and (best is None or summary[0] < best[0]):
            best = MinimumRepair(summary[0], windows)
            if not summary[0]:
                break
    cache.minimum_repairs.store(key, best)
    return best


def _minima(root: Inner, bounds: Bounds, total: int) -> Iterator[Minima]:
    levels = enumerate(bounds, start=1)
    return product(*[_useful_minima(count_domains(root, level), bound, total) for level, bound in levels])


def has_several_minima(root: Inner, bounds: Bounds, total: int) -> bool:
    """Return whether the emptiest domain of some level may hold more than one number of pods."""
    levels = enumerate(bounds, start=1)
    return any(len(_useful_minima(count_domains(root, level), bound, total)) > 1 for level, bound in levels)


def _useful_minima(domains: int, bound: Bound, total: int) -> range:
    """Return the minima that are possible: domains * minimum <= total <= domains * (minimum + maxSkew)."""
    if bound.max_skew is None or bound.floor_at_zero or domains == 0:
        return range(1)
    least = max(0, -(-total // domains) - bound.max_skew)
    return range(least, total // domains + 1)


def _window(bound: Bound, minimum: int) -> tuple[int, int | None]:
    """Return the least and the most a domain of this level may hold."""
    most = None if bound.max_skew is None else minimum + bound.max_skew
    if bound.cap is not None:
        most = bound.cap if most is None else min(most, bound.cap)
    return max(bound.least, 0 if bound.floor_at_zero else minimum), most


def summarize(subtree: Subtree, windows: Windows, cache: SearchCache) -> _Summary | None:
    """Return the four numbers of a subtree within the windows of its levels; None if nothing fits."""
    key = subtree, windows
    known = cache.summaries.known.get(key, _UNKNOWN)
    if known is not _UNKNOWN:
        return cast("_Summary | None", known)
    return cache.summaries.store(key, _summarize(subtree, windows, cache))


def _summarize(subtree: Subtree, windows: Windows, cache: SearchCache) -> _Summary | None:
    least, most = windows[0]
    if is_leaf(subtree):
        held, fixed, cap, _ = subtree
        return _clamp(0, held, fixed, cap, least, most)
    spent = level = low = high = 0
    known, below = cache.summaries.known, windows[1:]
    for child, times in subtree:
        # Most children are known: looking them up here saves a call for each.
        summary = known.get((child, below), _UNKNOWN)
        if summary is _UNKNOWN:
            summary = summarize(child, below, cache)
        if not summary:
            return None
        spent += times * summary[0]
        level += times * summary[1]
        low += times * summary[2]
        high += times * summary[3]
    return _clamp(spent, level, low, high, least, most)


def _clamp(spent: int, level: int, low: int, high: int, least: int, most: int | None) -> _Summary | None:
    low = max(low, least)
    if most is not None:
        high = min(high, most)
    if low > high:
        return None
    if level > high:
        return spent + level - high, high, low, high
    return spent, max(level, low), low, high


def sum_of_minima(root: Inner, bounds: Bounds, cache: SearchCache) -> int:
    """Return the sum over all levels of the fewest moves that the level's bound alone requires.

    Capacity and immovable pods are ignored. The sum falls with almost every useful move, even where no placement
    satisfies all levels together. If a level cannot be satisfied by itself, the pods above its bound count instead.
    """
    key = root, bounds
    known = cache.sums_of_minima.known.get(key)
    if known is not None:
        return known
    moves = sum(
        min_moves(_domains_by_count(root, level, cache), bound)
        for level, bound in enumerate(bounds, start=1)
        if bound.max_skew is not None or bound.cap is not None or bound.least
    )
    return cache.sums_of_minima.store(key, moves)


def min_moves(domains_by_count: Mapping[int, int], bound: Bound) -> int:
    """Return the fewest moves that one bound requires, given how many domains hold how many pods."""
    total = sum(count * times for count, times in domains_by_count.items())
    domains = sum(domains_by_count.values())
    best: int | None = None
    for minimum in _useful_minima(domains, bound, total):
        least, most = _window(bound, minimum)
        top = total if most is None else most
        over = sum(times * max(0, count - top) for count, times in domains_by_count.items())
        under = sum(times * max(0, least - count) for count, times in domains_by_count.items())
        if domains * least <= total <= domains * top:
            moves = max(over, under)
            best = moves if best is None else min(best, moves)
    if best is not None:
        return best
    _, most = _window(bound, 0)
    return sum(times * max(0, count - (total if most is None else most)) for count, times in domains_by_count.items())


def _domains_by_count(subtree: Subtree, level: int, cache: SearchCache) -> Mapping[int, int]:
    """Count the domains `level` levels below by how many pods they hold."""
    if level == 0:
        return {count_pods(subtree, cache): 1}
    counted: Counter[int] = Counter()
    for child, times in cast("Inner", subtree):
        for held, domains in _domains_by_count(child, level - 1, cache).items():
            counted[held] += domains * times
    return counted
