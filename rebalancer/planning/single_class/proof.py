"""Why one group of equal pods needs as many evictions as it does: the domains whose bounds prove the number.

Problem: `minimum` sums up the tree and returns a number; a reader wants the few domains that it comes from. Idea: the
sum is linear in them. Within the windows of the minimum, a domain above its upper bound must shed pods beyond those
that its parts shed anyway, and a domain below its lower bound lacks pods beyond those that its parts lack anyway. From
the root down only such additional pods are named, so that each node counts at most once:

    evictions = sum of (held - upper bound) + sum of (lower bound - held) - pending pods that fill what is missing

Example: zones a (3 and 3 pods), b (3 and 3) and c (none), maxSkew 1 for zones and nodes: with at most 4 per zone, a and
b hold 2 more each. Their nodes, at most 2 each, are also above the bound, but add nothing.

Cost: the nodes that hold pods of the group, and the domains of the coarser keys.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from rebalancer.model.facts import Fact
from rebalancer.model.words import name_list, plural, short_key
from rebalancer.planning.scope.topology import DomainPath
from rebalancer.planning.single_class.layout import Layout
from rebalancer.planning.single_class.minimum import MinimumRepair, Windows, has_several_minima


class DomainCount(Struct, frozen=True, gc=False, order=True):
    """A domain and how many pods of the group it holds."""

    domain: str
    held: int


class NamedBound(Struct, frozen=True, gc=False):
    """An upper or a lower bound of a key's domains, with the domains that it is named for."""

    key: str
    upper: bool
    bound: int
    domains: tuple[DomainCount, ...]

    def __str__(self) -> str:
        """Return the bound with its domains: `at most 4 per zone (a:6, b:6)`."""
        counts = name_list(f"{count.domain}:{count.held}" for count in self.domains)
        return f"{'at most' if self.upper else 'at least'} {self.bound} per {short_key(self.key)} ({counts})"


class SingleClassProof(Fact):
    """The bounds that prove a minimum by counting; each node counts in them at most once.

    `missing`: pods are missing below lower bounds, so that pods elsewhere must leave for them; `pending` of them come
    without an eviction. Otherwise pods are above upper bounds. `several`: other minima of the keys are possible, too,
    and were tried.
    """

    evictions: int
    bounds: tuple[NamedBound, ...]
    missing: bool
    pending: int
    several: bool

    def __str__(self) -> str:
        sides = (
            [str(bound) for bound in self.bounds if bound.upper == upper] for upper in (not self.missing, self.missing)
        )
        within = ", and within them ".join(" and ".join(side) for side in sides if side)
        pods = self.evictions + self.pending
        text = f"with {within}, {plural(pods, 'pod')} {'is' if pods == 1 else 'are'} "
        text += "missing" if self.missing else "above"
        if self.pending:
            text += f" ({self.pending} pending)"
        return f"{text}; no other count of the emptiest domains takes fewer evictions" if self.several else text


class _Sum(NamedTuple):
    """In pods: what a domain's parts shed, what they hold after shedding and filling up, and what they hold now."""

    shed: int
    level: int
    held: int

    def is_above(self, most: int | None) -> bool:
        """Return whether the domain's upper bound proves more than its parts, or as much with fewer bounds."""
        if most is None or self.level < most:
            return False
        return self.level > most or bool(self.shed and self.held == self.shed + self.level)

    def is_below(self, least: int) -> bool:
        """Return whether the domain's lower bound proves more than its parts, or as much with fewer bounds."""
        return self.level < least or self.held < self.level == least


_NOTHING = _Sum(0, 0, 0)


def prove(layout: Layout, repair: MinimumRepair, pending: int) -> SingleClassProof:
    """Return the bounds that prove the minimum of a group with this many pending pods."""
    sums = _add_up(layout, repair.windows)
    root = sums[0][()]
    missing = root.level > root.held + pending
    return SingleClassProof(
        evictions=repair.evictions,
        bounds=tuple(_name(layout, repair.windows, sums, missing=missing)),
        missing=missing,
        pending=pending if missing else 0,
        several=has_several_minima(layout.root, layout.bounds, root.held + pending),
    )


def _add_up(layout: Layout, windows: Windows) -> list[dict[DomainPath, _Sum]]:
    """Return the sums of all domains that have parts, by the length of their paths: the first is the root's."""
    sums = [_sums_of_nodes(layout, *windows[-1])]
    for least, most in reversed(windows[:-1]):
        above: dict[DomainPath, _Sum] = {}
        for path, (shed, level, held) in sums[0].items():
            more = 0 if most is None else max(0, level - most)
            before, within = above.get(path[:-1], _NOTHING), max(least, level - more)
            above[path[:-1]] = _Sum(before.shed + shed + more, before.level + within, before.held + held)
        sums.insert(0, above)
    return sums


def _sums_of_nodes(layout: Layout, least: int, most: int | None) -> dict[DomainPath, _Sum]:
    """Return the sums of the domains that have nodes as their parts."""
    topology, counts = layout.topology, layout.pods_on
    held = topology.count(counts)
    shed, lacking = dict.fromkeys(topology.members, 0), dict.fromkeys(topology.members, 0)
    if most is not None and most < max(counts.values(), default=0):
        for node, count in counts.items():
            shed[topology.path[node]] += max(0, count - most)
    if least:
        lacking = {path: least * len(nodes) for path, nodes in topology.members.items()}
        for node, count in counts.items():
            lacking[topology.path[node]] -= min(least, count)
    totals = {path: held.get(path, 0) for path in topology.members}
    return {path: _Sum(shed[path], total - shed[path] + lacking[path], total) for path, total in totals.items()}


def _name(
    layout: Layout, windows: Windows, sums: Sequence[Mapping[DomainPath, _Sum]], *, missing: bool
) -> Iterator[NamedBound]:
    """Yield the bounds that are named, the coarsest first.

    An upper bound makes pods of its domain count that did not count before, a lower bound the other way round.
    """
    # Whether the pods of a domain count: the root's do where pods are missing.
    counts: dict[DomainPath, bool] = {(): missing}
    for level, (least, most) in enumerate(windows[:-1]):
        within, counts = counts, {}
        above, below = list[DomainCount](), list[DomainCount]()
        for path, parts in sums[level + 1].items():
            counted = within[path[:-1]]
            named = parts.is_below(least) if counted else parts.is_above(most)
            counts[path] = counted != named
            if named:
                (below if counted else above).append(DomainCount(path[-1], parts.held))
        yield from _bounds_of(layout.keys[level], (least, most), above, below)
    least, most = windows[-1]
    on, path_of, last = layout.pods_on, layout.topology.path, layout.topology.last
    above = [
        DomainCount(last[node], held)
        for node, held in on.items()
        if most is not None and held > most and not counts[path_of[node]]
    ]
    below = [
        DomainCount(last[node], on.get(node, 0))
        for path, nodes in layout.topology.members.items()
        if least and counts[path]
        for node in nodes
        if on.get(node, 0) < least
    ]
    yield from _bounds_of(layout.keys[-1], windows[-1], above, below)


def _bounds_of(
    key: str, window: tuple[int, int | None], above: list[DomainCount], below: list[DomainCount]
) -> Iterator[NamedBound]:
    for upper, bound, named in ((True, window[1], above), (False, window[0], below)):
        if named and bound is not None:
            yield NamedBound(key, upper, bound, tuple(sorted(named)))
