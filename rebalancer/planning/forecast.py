"""Where the replacements of a step may land, and how the domains will look when they have."""

from collections.abc import Iterable, Mapping

from rebalancer.model.moves import Target
from rebalancer.planning.layout import Layout


def targets(layout: Layout, arriving: int) -> tuple[Target, ...]:
    """Return for each key the domains on which the scheduler may place one of the arriving pods.

    A key's minimum can rise only as far as the other arriving pods can fill up its emptiest domains; a domain that is
    full even then is no target, nor is one without a node that has room.
    """
    made = []
    for level, (key, bound, counts) in enumerate(zip(layout.keys, layout.bounds, layout.counts(), strict=True)):
        if bound.max_skew is None:
            continue
        highest = 0 if bound.floor_at_zero else _filled(counts.values(), arriving - 1)
        open_ = {site.every[level] for site in layout.sites.values() if site.cap > site.count - site.leaving}
        made.append(Target(key, tuple(sorted(value for value in open_ if counts[value] < highest + bound.max_skew))))
    return tuple(made)


def _filled(counts: Iterable[int], arriving: int) -> int:
    """Return the highest minimum that this many more pods can bring about."""
    ordered = sorted(counts)
    level, below = (ordered[0] if ordered else 0), 0
    for below, held in enumerate(ordered):
        cost = below * (held - level)
        if cost > arriving:
            return level + arriving // below
        arriving -= cost
        level = held
    return level + arriving // (below + 1)


def counts_after(layout: Layout, arriving: int) -> Mapping[str, Mapping[str, int]]:
    """Return the counts by key and domain once `arriving` pods have come to the emptiest domains with room.

    One possible end among those that a step allows, to show what it is for. There is room for all of them, or the group
    would have no distance.
    """
    levels = [dict(counts) for counts in layout.counts()]
    *coarse, held = levels
    for _ in range(arriving):
        open_ = [site for site in layout.sites.values() if held[site.last] < site.cap]
        for level, counts in enumerate(coarse):
            least = min(counts[site.domains[level]] for site in open_)
            open_ = [site for site in open_ if counts[site.domains[level]] == least]
        best = min(open_, key=lambda site: (held[site.last], site.node))
        held[best.last] += 1
        for level, counts in enumerate(coarse):
            counts[best.domains[level]] += 1
    return {
        key: counts for key, bound, counts in zip(layout.keys, layout.bounds, levels, strict=True) if bound.max_skew
    }
