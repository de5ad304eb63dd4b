"""Which maxSkew guarantees a limit with how many domains, which sizes cannot satisfy both, and which groups deadlock.

A maxSkew limits the difference between domains, not how many pods a domain holds. With maxSkew s, the fullest of d
domains is certain to hold at most s of n pods only if d >= n - s + 1. With fewer domains, a smaller maxSkew may be
enough.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

from rebalancer.assessment.guarantees import most_under
from rebalancer.assessment.sizes.layout import NO_RULE, Filling, Rule, SizeProblem, Zone
from rebalancer.lint.deadlock_games import GameResult, GameTooLargeError, play_game
from rebalancer.planning.scope.bounds import FREE, Bound
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import make_inner
from rebalancer.policy import Condition, Share

_MOST_GAMES: Final = 4
"""At most this many values of maxSkew are tried, in ascending order."""

_MOST_CACHED: Final = 1_024


class Cap(NamedTuple):
    """The most pods that one domain may hold: a share of all pods, or a number; `total` says when this applies."""

    share: Share | None
    most: int = 0
    total: Condition | None = None

    def of(self, pods: int) -> int:
        """Return the most pods that one domain may hold; all pods if the limit does not apply."""
        if self.total is not None and not self.total.holds(pods):
            return pods
        return self.share.cap(pods) if self.share is not None else self.most


class Domains(NamedTuple):
    """A number of domains, with the maxSkew of the hard constraints over them and over larger domains.

    `zones` are the numbers of domains in each larger domain, or one number if there are no larger domains.
    `zone_max_skew` is None if there is no constraint over the larger domains.
    """

    zones: tuple[int, ...]
    max_skew: int
    zone_max_skew: int | None = None

    @property
    def number(self) -> int:
        return sum(self.zones)


class HardConstraint(NamedTuple):
    """A hard constraint with this maxSkew, under which one domain can hold `most` pods.

    With at least `domains_needed` domains, each domain is within the limit; None if no number of domains is enough.
    """

    max_skew: int
    most: int
    domains_needed: int | None


class DeadlockSearch(NamedTuple):
    """The result of placing groups with anti-affinity: the outcomes, the deadlocks, and a maxSkew without deadlocks.

    `free_from` is None if no such maxSkew was found.
    """

    ways: int
    stuck: int
    free_from: int | None


def needed_domains(pods: int, cap: int, max_skew: int) -> int | None:
    """Return how many domains a maxSkew needs to keep each domain within a cap; None if no number is enough."""
    # The least d with max_skew + (pods - max_skew) // d <= cap.
    return max(0, pods - max_skew) // (cap - max_skew + 1) + 1 if cap >= max_skew else None


def find_constraints(pods: int, cap: int, domains: int) -> Sequence[HardConstraint]:
    """Return the loosest constraint that guarantees the cap with some number of domains.

    If that differs, also return the loosest constraint that guarantees the cap with this number of domains.
    """

    def make(max_skew: int) -> HardConstraint:
        return HardConstraint(max_skew, most_under(pods, domains, max_skew), needed_domains(pods, cap, max_skew))

    loosest = max(1, cap)
    enough = next((skew for skew in range(loosest, 0, -1) if most_under(pods, domains, skew) <= cap), loosest)
    return [make(loosest)] if enough == loosest else [make(loosest), make(enough)]


def size_problem(pods: int, domains: Domains) -> SizeProblem:
    """Return the constraints for an empty cluster, for all sizes up to a number of pods."""
    zones = Filling(tuple(Zone(((0, number),)) for number in sorted(domains.zones)))
    coarse = NO_RULE if domains.zone_max_skew is None else Rule(domains.zone_max_skew, len(domains.zones))
    fine = Rule(domains.max_skew, domains.number)
    return SizeProblem(fine, coarse, now=zones, foreign=zones, placed=0, first=1, last=pods)


@lru_cache(_MOST_CACHED)
def search_deadlocks(groups: int, group_size: int, domains: Domains) -> DeadlockSearch | None:
    """Simulate groups whose pods are kept apart, over the larger domains if there are any.

    Return None if the search is too large.
    """
    zones = domains.zones if len(domains.zones) > 1 else (1,) * domains.number
    games: list[GameResult] = []
    with suppress(GameTooLargeError):
        while len(games) < _MOST_GAMES and (not games or games[-1].stuck):
            max_skew = domains.max_skew + len(games)
            games.append(play_game(zones, groups, group_size, max_skew, domains.zone_max_skew))
    if not games:
        return None
    is_free = not games[-1].stuck
    return DeadlockSearch(games[0].ways, games[0].stuck, domains.max_skew + len(games) - 1 if is_free else None)


@lru_cache(_MOST_CACHED)
def unattainable_sizes(pods: int, cap: Cap, domains: Domains) -> tuple[int, ...]:
    """Return the sizes, up to a number of pods, that no placement keeps within both limit and constraints."""
    return tuple(_unattainable(pods, cap, domains))


def _unattainable(most: int, cap: Cap, domains: Domains) -> Iterator[int]:
    cache = SearchCache()
    outer = FREE if domains.zone_max_skew is None else Bound(max_skew=domains.zone_max_skew)
    for pods in range(1, most + 1):
        bounds = outer, Bound(max_skew=domains.max_skew, cap=cap.of(pods))
        tree = make_inner(make_inner(((0, 0, pods, 0),) * number) for number in domains.zones)
        if min_evictions(tree, bounds, pods, cache) is None:
            yield pods
