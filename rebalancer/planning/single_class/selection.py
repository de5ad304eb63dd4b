"""The cheapest of all minimal sets of victims, where every minimal set is a step.

Each node and each domain has a lower and an upper bound on the pods that leave it. These sets are nested, so a greedy
choice is exact: the cheapest surplus pods of each node, then of each domain, then of all. The tests compare it with
every possible choice.
"""

from collections.abc import Mapping
from operator import attrgetter

from rebalancer.planning.scope.topology import DomainPath
from rebalancer.planning.scope.victims import Victim
from rebalancer.planning.single_class.layout import Layout
from rebalancer.planning.single_class.minimum import Windows

_rank = attrgetter("rank")

_End = tuple[int, list[int], list[int]]
"""The pods that stay in a domain, and the ranks of those that must and those that may leave, cheapest first."""


def select_victims(layout: Layout, windows: Windows, fewest: int) -> list[Victim]:
    """Return the cheapest `fewest` victims of a placement within these windows, cheapest first.

    `windows` are those of `certify` for the layout's placement, `fewest` its minimum of evictions.
    """
    least, most = windows[-1]
    counts: dict[DomainPath, int] = {}
    gone: dict[DomainPath, list[int]] = {}
    spare: dict[DomainPath, list[int]] = {}
    simple = least == 0 and (most is None or most > 0)
    if simple:
        counts.update(layout.alone)
        # Pods that stay in any case are not tried; pods on crowded nodes may leave instead.
        lowest = windows[-2][0] if len(windows) > 1 and not layout.crowded else 0
        spare = layout.cheapest_alone({path: min(fewest, max(0, held - lowest)) for path, held in counts.items()})
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
        ends = _shed(ends, *windows[level], level)
    _, chosen, rest = _combine(ends)
    chosen += rest[: fewest - len(chosen)]
    return layout.ranked.victims(sorted(chosen))


def _shed(ends: Mapping[DomainPath, _End], least: int, most: int | None, level: int) -> dict[DomainPath, _End]:
    """Return the domains of a level after their surplus pods leave, with the further victims that may leave."""
    under: dict[DomainPath, dict[DomainPath, _End]] = {}
    for path, end in ends.items():
        under.setdefault(path[: level + 1], {})[path] = end
    shed = {}
    for path, parts in under.items():
        held, gone, rest = _combine(parts)
        must = 0 if most is None else max(0, held - most)
        may = max(must, held - least)
        shed[path] = held - must, gone + rest[:must], rest[must:may]
    return shed


def _combine(ends: Mapping[DomainPath, _End]) -> _End:
    if len(ends) == 1:
        return next(iter(ends.values()))
    held = 0
    gone: list[int] = []
    rest: list[int] = []
    for end in ends.values():
        held += end[0]
        gone += end[1]
        rest += end[2]
    return held, gone, sorted(rest)
