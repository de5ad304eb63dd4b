"""Where the replacements of a step may land, and how the domains will look when they have."""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from rebalancer.model.moves import Target
from rebalancer.planning.single_class.layout import Layout

_MOST_NAMED = 100
"""A key with more domains that may take a replacement is not named: a list that long says nothing, and is kept with
every move."""


def expected_targets(layout: Layout, going: Mapping[str, int], arriving: int) -> tuple[Target, ...]:
    """Return for each key the domains on which the scheduler may place one of the arriving pods.

    `going` are the pods that leave, by node.

    A key's minimum can rise only as far as the other arriving pods can fill up its emptiest domains; a domain that is
    full even then is no target, nor is one without a node that has room.
    """
    made = []
    ground, last = layout.ground, len(layout.keys) - 1
    for level, (key, bound) in enumerate(zip(layout.keys, layout.bounds, strict=True)):
        allowed = bound.by_scheduler
        if allowed is None:
            continue
        counts = layout.counts(level, going)
        empty = len(ground.nodes) - len(counts) if level == last else 0
        highest = 0 if bound.floor_at_zero else _filled(counts.values(), empty, arriving - 1)
        full = highest + allowed
        named: set[str] = set()
        for path, members in ground.members.items():
            if level < last and (path[level] in named or counts[path[level]] >= full):
                continue
            for name in members:
                value = ground.last[name] if level == last else path[level]
                site = layout.sites.get(name)
                held = site.count - going.get(name, 0) if site is not None else 0
                if layout.cap(name) > held and (level < last or held < full):
                    named.add(value)
                    if level < last or len(named) > _MOST_NAMED:
                        break
            if len(named) > _MOST_NAMED:
                break
        if len(named) <= _MOST_NAMED:
            made.append(Target(key, tuple(sorted(named))))
    return tuple(made)


def targets_on(domains: Mapping[str, Mapping[str, str]], landing: Iterable[str]) -> tuple[Target, ...]:
    """Return for each key the domains of the nodes on which pods may land; `domains` are by key and node."""
    nodes = frozenset(landing)
    found = [Target(key, tuple(sorted({values[node] for node in nodes}))) for key, values in domains.items()]
    return tuple(each for each in found if len(each.values) <= _MOST_NAMED)


def _filled(counts: Iterable[int], empty: int, arriving: int) -> int:
    """Return the highest minimum that this many more pods can bring about; `empty` domains hold nothing."""
    ordered = sorted(counts)
    if empty:
        if arriving < empty:
            return 0
        ordered = [0] * empty + ordered
    level, below = (ordered[0] if ordered else 0), 0
    for below, held in enumerate(ordered):
        cost = below * (held - level)
        if cost > arriving:
            return level + arriving // below
        arriving -= cost
        level = held
    return level + arriving // (below + 1)


def expected_counts(layout: Layout, going: Mapping[str, int], arriving: int) -> Mapping[str, Mapping[str, int]]:
    """Return the counts by key and domain once `arriving` pods have come to the emptiest domains with room.

    One possible end among those that a step allows, to show what it is for. There is room for all of them, or the group
    would have no distance. Of the last key every node is in it.
    """
    ground, last = layout.ground, len(layout.keys) - 1
    levels = [dict(layout.counts(level, going)) for level in range(last + 1)]
    *coarse, held = levels
    for name in ground.nodes:
        held.setdefault(ground.last[name], 0)
    ordered = {path: _by_count(layout, members, held) for path, members in ground.members.items()}
    for _ in range(arriving):
        open_ = [path for path, waiting in ordered.items() if waiting]
        if not open_:
            break
        path = min(open_, key=lambda path: (*(counts[value] for counts, value in zip(coarse, path, strict=True)), path))
        _, name = heappop(ordered[path])
        value = ground.last[name]
        held[value] += 1
        for counts, domain in zip(coarse, path, strict=True):
            counts[domain] += 1
        if held[value] < layout.cap(name):
            heappush(ordered[path], (held[value], name))
    return {
        key: dict(sorted(counts.items()))
        for key, bound, counts in zip(layout.keys, layout.bounds, levels, strict=True)
        if bound.max_skew
    }


def _by_count(layout: Layout, members: Iterable[str], held: Mapping[str, int]) -> list[tuple[int, str]]:
    """Return the nodes that have room as a heap, the emptiest first."""
    last = layout.ground.last
    found = [(held[last[name]], name) for name in members if layout.cap(name) > held[last[name]]]
    heapify(found)
    return found
