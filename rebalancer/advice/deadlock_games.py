"""Can groups of pods that keep apart from each other block themselves? Every placement tried, for small sizes.

Groups (shards) of equal size come one pod of each after the other, each pod on any node that its rules admit: a spread
constraint over the nodes, perhaps one over the zones, and anti-affinity within the group over the zones. Where a pod
finds no node, it waits for ever: a deadlock (docs/semantics.md, 5.2).
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

MOST_WORK: Final = 30_000_000
"""Bounds what is looked at: a state costs the square of its nodes. A larger game is not played."""

MOST_PODS: Final = 400
"""Pods of a game: its turns are nested."""

_State = tuple[tuple[int, ...], ...]
"""For each zone and node of it the groups that have a pod there, as bits; sorted, since equal places are as good."""


class TooLargeError(ValueError):
    """The game is too much to play."""


class GameResult(NamedTuple):
    """Ways in which the scheduler may place the pods, one node after the other, and those that end in a deadlock."""

    ways: int
    stuck: int


def play(nodes: Sequence[int], groups: int, each: int, skew: int, zone_skew: int | None = None) -> GameResult:
    """Try every placement of `groups` groups of `each` pods over zones of so many nodes; TooLargeError says too many.

    `skew` is the maxSkew over the nodes, `zone_skew` that over the zones, None for no such constraint.
    """
    known: dict[_State, GameResult] = {}
    most_states = MOST_WORK // sum(nodes) ** 2
    if groups * each > MOST_PODS:
        raise TooLargeError(f"more than {MOST_PODS} pods")

    def outcome(state: _State, placed: int) -> GameResult:
        if placed == groups * each:
            return GameResult(1, 0)
        found = known.get(state)
        if found is None:
            ways = stuck = 0
            for following in _placements(state, 1 << placed % groups, skew, zone_skew):
                further = outcome(following, placed + 1)
                ways, stuck = ways + further.ways, stuck + further.stuck
            if len(known) >= most_states:
                raise TooLargeError(f"more than {most_states} states")
            found = known[state] = GameResult(ways, stuck) if ways else GameResult(1, 1)
        return found

    return outcome(tuple(sorted((0,) * number for number in nodes)), 0)


def _placements(state: _State, group: int, skew: int, zone_skew: int | None) -> Iterator[_State]:
    """Yield the states after a pod of a group, one for each node that admits it."""
    least = min(node.bit_count() for zone in state for node in zone)
    held = [sum(node.bit_count() for node in zone) for zone in state]
    for at, zone in enumerate(state):
        closed = zone_skew is not None and held[at] + 1 - min(held) > zone_skew
        if closed or any(node & group for node in zone):
            continue
        for place, node in enumerate(zone):
            if node.bit_count() + 1 - least <= skew:
                after = tuple(sorted((*zone[:place], node | group, *zone[place + 1 :])))
                yield tuple(sorted((*state[:at], after, *state[at + 1 :])))
