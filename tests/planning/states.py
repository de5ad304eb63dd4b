"""States for the planner's tests, and oracles that share no code with it."""

from collections.abc import Iterator
from itertools import product

from rebalancer.planning.scope.bounds import Bound
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.planning.single_class.placement import Bounds, Inner, make_inner

Counts = list[list[int]]
"""Pods per node, a list per zone."""

PLENTY = 10**6

LIMITS = SearchLimits()

CACHE = SearchCache(LIMITS)
"""Shared by the tests, as workloads of one plan share theirs: the same answers whoever asks first."""


def bounds(zone: int, host: int) -> Bounds:
    """Return the bounds of a zone and a hostname constraint."""
    return Bound(max_skew=zone), Bound(max_skew=host)


def state(counts: Counts) -> Inner:
    """Return the placement: all pods movable, capacity for any number."""
    return make_inner(make_inner((held, 0, PLENTY, 0) for held in zone) for zone in counts)


def satisfied(counts: Counts, zone: int, host: int) -> bool:
    """Say whether both constraints hold at rest."""
    totals = [sum(zone) for zone in counts]
    nodes = [held for zone in counts for held in zone]
    return max(totals) - min(totals) <= zone and max(nodes) - min(nodes) <= host


def brute_min_evictions(counts: Counts, zone: int, host: int, pending: int = 0) -> int | None:
    """Try every placement of the pods and return the fewest that must leave their node, None if none satisfies."""
    flat = [held for zone in counts for held in zone]
    total = sum(flat) + pending
    best: int | None = None
    for target in _compositions(total, len(flat)):
        shaped, rest = [], list(target)
        for held in counts:
            shaped.append(rest[: len(held)])
            rest = rest[len(held) :]
        if satisfied(shaped, zone, host):
            moved = sum(max(0, before - after) for before, after in zip(flat, target, strict=True))
            best = moved if best is None else min(best, moved)
    return best


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def layouts(zones: int, nodes: int, pods: int) -> Iterator[Counts]:
    """Yield every layout of at most so many zones, nodes a zone and pods, once for each order of zones and nodes."""
    for sizes in product(range(1, nodes + 1), repeat=zones):
        for flat in product(range(pods + 1), repeat=sum(sizes)):
            if sum(flat) <= pods:
                rest, shaped = list(flat), []
                for size in sizes:
                    shaped.append(rest[:size])
                    rest = rest[size:]
                if all(zone == sorted(zone) for zone in shaped) and shaped == sorted(shaped):
                    yield shaped


def feasible(counts: Counts, zone: int, host: int) -> list[tuple[int, int]]:
    """Return the nodes on which the scheduler may place one more pod: count + 1 - minimum <= maxSkew, for both."""
    totals = [sum(zone) for zone in counts]
    low_zone, low_host = min(totals), min(held for zone in counts for held in zone)
    return [
        (place, node)
        for place, nodes in enumerate(counts)
        for node, held in enumerate(nodes)
        if totals[place] + 1 - low_zone <= zone and held + 1 - low_host <= host
    ]
