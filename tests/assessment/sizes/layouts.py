"""Drawn uneven layouts, and a search over nodes that says which sizes have a placement, without any arithmetic.

The search is the definition: a placement is a number of pods for each node; all of them are tried, and pods come one by
one to any node that every constraint admits.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final, NamedTuple

MOST: Final = 30
"""The largest size that is searched."""


class Layout(NamedTuple):
    """Nodes by zone, and the constraints over node and zone."""

    zones: tuple[int, ...]
    node_skew: int
    zone_skew: int
    node_domains: int = 1
    zone_domains: int = 1


def draw_layouts(number: int) -> Iterator[Layout]:
    """Yield uneven layouts of two or three zones, each from its own seed."""
    seed = drawn = 0
    while drawn < number:
        random, seed = Random(seed), seed + 1
        zones = tuple(random.randint(1, 4) for _ in range(random.choice((2, 2, 3))))
        if len(set(zones)) > 1:
            drawn += 1
            yield Layout(zones, random.choice((1, 1, 2)), random.choice((1, 1, 2)))


Board = tuple[tuple[int, ...], ...]
"""The pods on each node, zone by zone."""


def empty(layout: Layout) -> Board:
    """Return the nodes without a pod."""
    return tuple((0,) * nodes for nodes in layout.zones)


def sizes_with_placement(
    layout: Layout, foreign: Board | None = None, closed: Board = (), most: int = MOST
) -> set[int]:
    """Return the sizes for which some placement satisfies both constraints, beside the pods of others.

    `closed` are the pods on nodes of each zone that count and take no pod; they are of others.
    """
    start = foreign or empty(layout)
    fixed = [sum(zone) for zone in closed] or [0] * len(start)
    found: set[int] = set()
    floor = layout.node_domains > sum(layout.zones) + sum(map(len, closed))
    for low in [0] if floor else range(most + _pods(start) + 1):  # every placement has an emptiest node
        if any(not low <= held <= low + layout.node_skew for zone in closed for held in zone):
            continue
        choices = [_zone_totals(zone, low, low + layout.node_skew) for zone in start]
        choices = [{total + more for total in totals} for totals, more in zip(choices, fixed, strict=True)]
        found |= {size - _pods(start) - sum(fixed) for size in _sums(choices, layout)}
    return {size for size in found if 0 < size <= most}


def _zone_totals(zone: Sequence[int], low: int, top: int) -> set[int]:
    """Return what a zone may hold in all, node by node."""
    totals = {0}
    for held in zone:
        totals = {total + pods for total in totals for pods in range(max(held, low), top + 1)}
    return totals


def _sums(choices: Sequence[set[int]], layout: Layout) -> set[int]:
    """Return the sums of one total for each zone that satisfy the constraint over zones."""
    picked: list[tuple[int, ...]] = [()]
    for totals in choices:
        picked = [(*chosen, total) for chosen in picked for total in totals]
        if layout.zone_domains <= len(layout.zones):  # no pair may differ by more, whatever the minimum is
            picked = [c for c in picked if max(c) - min(c) <= layout.zone_skew]
    floor = layout.zone_domains > len(layout.zones)
    return {sum(chosen) for chosen in picked if not floor or max(chosen, default=0) <= layout.zone_skew}


class Arrivals(NamedTuple):
    """The most pods that some order places, and the most that every order does."""

    best: int
    surest: int


def play_arrivals(layout: Layout, start: Board, most: int = MOST, closed: Board = ()) -> Arrivals:
    """Place pods one by one on any node that both constraints admit, in every order; count the pods that were added.

    Equal nodes of a zone are sorted, so that each state is visited once.
    """
    states, added, surest = {start}, 0, most
    while added < most:
        following: set[Board] = set()
        for state in states:
            after = set(_next(layout, state, closed or ((),) * len(state)))
            if not after:
                surest = min(surest, added)
            following |= after
        if not following:
            return Arrivals(added, surest)
        states, added = following, added + 1
    return Arrivals(added, surest)


def _next(layout: Layout, state: Board, closed: Board) -> Iterator[Board]:
    counted = [(*zone, *more) for zone, more in zip(state, closed, strict=True)]
    least_node = min(held for zone in counted for held in zone)
    least_zone = min(sum(zone) for zone in counted)
    if layout.node_domains > sum(map(len, counted)):
        least_node = 0
    if layout.zone_domains > len(layout.zones):
        least_zone = 0
    for place, zone in enumerate(state):
        if sum(counted[place]) + 1 - least_zone > layout.zone_skew:
            continue
        for node in range(len(zone)):
            if zone[node] + 1 - least_node <= layout.node_skew:
                filled = tuple(sorted((*zone[:node], zone[node] + 1, *zone[node + 1 :])))
                yield (*state[:place], filled, *state[place + 1 :])


def _pods(board: Board) -> int:
    return sum(map(sum, board))
