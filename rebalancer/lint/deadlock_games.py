"""Can groups of pods with anti-affinity deadlock each other? Exhaustive search over placements, for small sizes.

Problem: groups (shards) of equal size arrive, one pod of each group after the other. Each pod goes to any node that its
rules admit: a spread constraint over the nodes, perhaps another over the zones, and anti-affinity within the group over
the zones. A pod without a feasible node stays pending: a deadlock.

Idea: depth-first search over the scheduler's choices. A state records for each node which groups have a pod there.
Equal nodes and equal zones are sorted, so that symmetric states are counted once and reused.

Example: zones of 2, 2 and 2 nodes, three groups of two pods, maxSkew 1 over the nodes and 2 over the zones: 96 of 480
outcomes end in a deadlock.

Cost: at most `MOST_WORK` / nodes² states, each with as many successors as there are nodes.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

MOST_WORK: Final = 30_000_000
"""The most work of one search, where the work for each state is the square of the number of nodes.

A larger game is refused.
"""

MOST_PODS: Final = 400
"""The most pods of a game; the search recurses once for each pod."""

_State = tuple[tuple[int, ...], ...]
"""A bit set of the groups with a pod on the node, by zone and node. It is sorted, because nodes and zones are alike."""


class GameTooLargeError(ValueError):
    """The game has too many pods or states to search."""


class GameResult(NamedTuple):
    """The number of scheduler outcomes, and how many of them end in a deadlock."""

    ways: int
    stuck: int


def play_game(
    nodes: Sequence[int], groups: int, group_size: int, skew: int, zone_skew: int | None = None
) -> GameResult:
    """Count the outcomes of placing `groups` groups of `group_size` pods; `nodes` are the numbers of nodes by zone.

    `skew` is the maxSkew over the nodes. `zone_skew` is the maxSkew over the zones, None if there is no such
    constraint. Raises GameTooLargeError.
    """
    results: dict[_State, GameResult] = {}
    most_states = MOST_WORK // sum(nodes) ** 2
    if groups * group_size > MOST_PODS:
        raise GameTooLargeError(f"more than {MOST_PODS} pods")

    def count_outcomes(state: _State, placed: int) -> GameResult:
        if placed == groups * group_size:
            return GameResult(1, 0)
        result = results.get(state)
        if result is None:
            ways = stuck = 0
            for successor in _placements(state, 1 << placed % groups, skew, zone_skew):
                further = count_outcomes(successor, placed + 1)
                ways, stuck = ways + further.ways, stuck + further.stuck
            if len(results) >= most_states:
                raise GameTooLargeError(f"more than {most_states} states")
            result = results[state] = GameResult(ways, stuck) if ways else GameResult(1, 1)
        return result

    return count_outcomes(tuple(sorted((0,) * number for number in nodes)), 0)


def _placements(state: _State, group: int, skew: int, zone_skew: int | None) -> Iterator[_State]:
    """Yield the states after a pod of a group is placed, one for each node that admits it."""
    least = min(node.bit_count() for zone in state for node in zone)
    zone_counts = [sum(node.bit_count() for node in zone) for zone in state]
    for zone_index, zone in enumerate(state):
        closed = zone_skew is not None and zone_counts[zone_index] + 1 - min(zone_counts) > zone_skew
        if closed or any(node & group for node in zone):
            continue
        for node_index, node in enumerate(zone):
            if node.bit_count() + 1 - least <= skew:
                new_zone = tuple(sorted((*zone[:node_index], node | group, *zone[node_index + 1 :])))
                yield tuple(sorted((*state[:zone_index], new_zone, *state[zone_index + 1 :])))
