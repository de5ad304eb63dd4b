"""The cheapest of all minimal sets of victims, where any minimal set will do.

What each node and each domain must shed, and may shed at most, are nested sets with lower and upper bounds, so greedy
is exact: per node the cheapest that are too many, then per domain, then over all. Held against every choice in tests.
"""

from collections.abc import Mapping
from operator import attrgetter

from rebalancer.planning.scope.topology import DomainPath
from rebalancer.planning.scope.victims import Victim
from rebalancer.planning.single_class.layout import Layout
from rebalancer.planning.single_class.minimum import Windows

_rank = attrgetter("rank")


def select_victims(layout: Layout, windows: Windows, fewest: int) -> list[Victim]:
    """Return the cheapest `fewest` victims that an arrangement within these windows lets go, cheapest first.

    `windows` are those of `least` for the layout's arrangement, `fewest` its number of evictions.
    """
    least, most = windows[-1]
    counts: dict[DomainPath, int] = {}
    gone: dict[DomainPath, list[int]] = {}
    spare: dict[DomainPath, list[int]] = {}
    simple = least == 0 and (most is None or most > 0)
    if simple:
        for path, ranks in layout.singles.items():
            counts[path] = len(ranks)
            spare[path] = ranks.copy()
    for site in layout.crowded if simple else layout.sites.values():
        high = site.cap if most is None else min(site.cap, most)
        must = max(0, site.count - high)
        may = max(must, min(len(site.movable), site.count - least))
        counts[site.path] = counts.get(site.path, 0) + site.count - must
        if must:
            gone.setdefault(site.path, []).extend(map(_rank, site.movable[:must]))
        if may > must:
            spare.setdefault(site.path, []).extend(map(_rank, site.movable[must:may]))
    for ranks in spare.values():
        ranks.sort()
    ends = {path: (counts[path], gone.get(path, []), spare.get(path, [])) for path in counts}
    for level in range(len(windows) - 2, -1, -1):
        ends = _joined(ends, *windows[level], level)
    _, chosen, rest = _gathered(ends)
    chosen += rest[: fewest - len(chosen)]
    return [layout.ranked.victim(rank) for rank in sorted(chosen)]


_End = tuple[int, list[int], list[int]]
"""How many stay in a domain so far, the ranks of who must leave it, and of who else may, cheapest first."""


def _joined(ends: Mapping[DomainPath, _End], least: int, most: int | None, level: int) -> dict[DomainPath, _End]:
    """Make each domain of a level shed what it holds too many, and note how much more it may shed."""
    under: dict[DomainPath, dict[DomainPath, _End]] = {}
    for path, end in ends.items():
        under.setdefault(path[: level + 1], {})[path] = end
    found = {}
    for path, parts in under.items():
        held, gone, rest = _gathered(parts)
        must = 0 if most is None else max(0, held - most)
        may = max(must, held - least)
        found[path] = held - must, gone + rest[:must], rest[must:may]
    return found


def _gathered(ends: Mapping[DomainPath, _End]) -> _End:
    if len(ends) == 1:
        return next(iter(ends.values()))
    held = 0
    gone: list[int] = []
    rest: list[int] = []
    for each in ends.values():
        held += each[0]
        gone += each[1]
        rest += each[2]
    return held, gone, sorted(rest)
