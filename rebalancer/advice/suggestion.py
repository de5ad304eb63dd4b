"""Which spread constraints enforce a share limit, whether they guarantee it, and which sizes cannot satisfy it.

A skew bound is no cap. With maxSkew s, the fullest of d domains holds at most s of n pods for certain only if
d >= n - s + 1; with fewer domains a smaller maxSkew may do (docs/semantics.md, 5.1).

Can groups of pods with anti-affinity deadlock each other? Exhaustive search over placements, for small sizes.

Problem: groups (shards) of equal size arrive one pod of each group after the other. Each pod goes to any node that its
rules admit: a spread constraint over the nodes, perhaps one over the zones, and anti-affinity within the group over the
zones. A pod without a feasible node stays pending: a deadlock (docs/semantics.md, 5.2).
Idea: depth-first search over the scheduler's choices. A state records for each node which groups have a pod there;
equal nodes and equal zones are sorted, so that symmetric states are counted once and reused.
Example: zones of 2, 2 and 2 nodes, three groups of two pods, maxSkew 1 over the nodes and 2 over the zones: 96 of 480
outcomes end in a deadlock.
Cost: at most `MOST_WORK` / nodes² states, each with as many successors as there are nodes.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from rebalancer.assessment.guarantees import most_under
from rebalancer.planning.scope.bounds import FREE, Bound
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import make_inner
from rebalancer.policy import Share

MOST_WORK: Final = 30_000_000
"""Bounds the search: a state costs the square of its nodes. A larger game is refused."""

MOST_PODS: Final = 400
"""Pods of a game: the search recurses once for each pod."""

_State = tuple[tuple[int, ...], ...]
"""For each zone and node of it a bit set of the groups that have a pod there; sorted, since equal places are alike."""


class GameTooLargeError(ValueError):
    """The game has too many pods or states to search."""


class GameResult(NamedTuple):
    """The number of scheduler outcomes, and how many of these end in a deadlock."""

    ways: int
    stuck: int


def play_game(
    nodes: Sequence[int], groups: int, group_size: int, skew: int, zone_skew: int | None = None
) -> GameResult:
    """Count the outcomes of placing `groups` groups of `group_size` pods; `nodes` are the numbers of nodes by zone.

    `skew` is the maxSkew over the nodes, `zone_skew` that over the zones, None for no such constraint. Raises
    GameTooLargeError.
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
    """Yield the states after placing a pod of a group, one for each node that admits it."""
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


_MOST_GAMES: Final = 4
"""So many values of maxSkew are tried, each one larger than the last."""


@dataclass(frozen=True, kw_only=True)
class SuggestionRequest:
    """A share limit over `size` pods.

    `zones` are the numbers of domains in each larger domain; one number where there is none larger. `group_size` asks
    for the deadlock search over groups of so many pods.
    """

    share: Share
    size: int
    zones: tuple[int, ...]
    key: str
    group_size: int | None = None

    @property
    def domains(self) -> int:
        """The number of domains."""
        return sum(self.zones)


class HardConstraint(NamedTuple):
    """A hard constraint with this maxSkew.

    `most` pods can be in one domain while it is satisfied. `guaranteed`: that is within the limit; it is from
    `domains_needed` domains on, None where no number of domains is enough.
    """

    max_skew: int
    most: int
    guaranteed: bool
    domains_needed: int | None


class DeadlockSearch(NamedTuple):
    """Groups with anti-affinity under the tightest constraint: outcomes, deadlocks, and the maxSkew without any.

    A number is None where the search was too large.
    """

    group_size: int
    max_skew: int
    ways: int | None
    stuck: int | None
    free_from: int | None


class Suggestion(NamedTuple):
    """The constraints for a limit, the loosest that can be enough first; `unscalable` are unattainable sizes."""

    cap: int
    constraints: tuple[HardConstraint, ...]
    deadlock: DeadlockSearch | None
    unscalable: tuple[int, ...]

    @property
    def tightest(self) -> HardConstraint:
        """The constraint to use."""
        return self.constraints[-1]


def suggest(request: SuggestionRequest) -> Suggestion:
    """Compute the constraints that enforce a limit."""
    cap = request.share.cap(request.size)
    loosest = max(1, cap)
    constraints = [_hard_constraint(request, loosest, cap)]
    tighter = next(
        (skew for skew in range(loosest - 1, 0, -1) if most_under(request.size, request.domains, skew) <= cap), None
    )
    if not constraints[0].guaranteed and tighter is not None:
        constraints.append(_hard_constraint(request, tighter, cap))
    max_skew = constraints[-1].max_skew
    return Suggestion(
        cap=cap,
        constraints=tuple(constraints),
        deadlock=_search_deadlocks(request, max_skew),
        unscalable=tuple(unattainable_sizes(request, (None, max_skew))),
    )


def _hard_constraint(request: SuggestionRequest, max_skew: int, cap: int) -> HardConstraint:
    most = most_under(request.size, request.domains, max_skew)
    # The least number of domains d with max_skew + (n - max_skew) // d <= cap.
    needed = (request.size - max_skew) // (cap - max_skew + 1) + 1 if cap >= max_skew else None
    return HardConstraint(max_skew=max_skew, most=most, guaranteed=most <= cap, domains_needed=needed)


def _search_deadlocks(request: SuggestionRequest, max_skew: int) -> DeadlockSearch | None:
    if request.group_size is None:
        return None
    zones = request.zones if len(request.zones) > 1 else (1,) * request.domains
    groups = request.size // request.group_size
    games: list[GameResult] = []
    with suppress(GameTooLargeError):
        while len(games) < _MOST_GAMES and (not games or games[-1].stuck):
            games.append(play_game(zones, groups, request.group_size, max_skew + len(games)))
    free = bool(games) and not games[-1].stuck
    return DeadlockSearch(
        group_size=request.group_size,
        max_skew=max_skew,
        ways=games[0].ways if games else None,
        stuck=games[0].stuck if games else None,
        free_from=max_skew + len(games) - 1 if free else None,
    )


def unattainable_sizes(request: SuggestionRequest, skews: tuple[int | None, int]) -> Iterator[int]:
    """Yield the numbers of pods up to `size` that no placement keeps within limit and constraints.

    `skews` are the maxSkew over the larger domains, None for no such constraint, and over the domains themselves.
    """
    outer, inner = skews
    cache = SearchCache()
    for pods in range(1, request.size + 1):
        bounds = (FREE if outer is None else Bound(max_skew=outer), Bound(max_skew=inner, cap=request.share.cap(pods)))
        tree = make_inner(make_inner(((0, 0, pods, 0),) * number) for number in request.zones)
        if min_evictions(tree, bounds, pods, cache) is None:
            yield pods
