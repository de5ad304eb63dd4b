"""Which spread constraints enforce a share limit, whether they guarantee it, and which sizes cannot satisfy it.

A skew bound is no cap. With maxSkew s, the fullest of d domains holds at most s of n pods for certain only if
d >= n - s + 1; with fewer domains a smaller maxSkew may do (docs/semantics.md, 5.1).
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from rebalancer.advice.deadlock_games import GameResult, GameTooLargeError, play_game
from rebalancer.assessment.guarantees import most_under
from rebalancer.assessment.sizes.changes import SizeNames, find_change
from rebalancer.assessment.sizes.layout import NO_RULE, Filling, Rule, SizeProblem, SizeVerdict, Zone, evaluate_sizes
from rebalancer.model.nodes import ZONE
from rebalancer.planning.scope.bounds import FREE, Bound
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.single_class.minimum import min_evictions
from rebalancer.planning.single_class.placement import make_inner
from rebalancer.policy import Share

_MOST_GAMES: Final = 4
"""So many values of maxSkew are tried, each one larger than the last."""


@dataclass(frozen=True, kw_only=True)
class SuggestionRequest:
    """A share limit over `size` pods.

    `zones` are the numbers of domains in each larger domain; one number where there is none larger. `group_size` asks
    for the deadlock search over groups of so many pods. `zone_max_skew` is that of a hard constraint over the larger
    domains, None for no such constraint.
    """

    share: Share
    size: int
    zones: tuple[int, ...]
    key: str
    group_size: int | None = None
    zone_max_skew: int | None = None

    @property
    def domains(self) -> int:
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
    """The constraints for a limit, the loosest that can be enough first; `unscalable` are unattainable sizes.

    `sizes` are those up to `size` that the constraints themselves leave without a placement, `change` is the smallest
    change after which there are none, "" without.
    """

    cap: int
    constraints: tuple[HardConstraint, ...]
    deadlock: DeadlockSearch | None
    unscalable: tuple[int, ...]
    sizes: SizeVerdict
    change: str

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
    problem = _size_problem(request, max_skew)
    sizes = evaluate_sizes(problem)
    names = SizeNames(request.key, ZONE, "the smallest zone")
    return Suggestion(
        cap=cap,
        constraints=tuple(constraints),
        deadlock=_search_deadlocks(request, max_skew),
        unscalable=tuple(unattainable_sizes(request, (request.zone_max_skew, max_skew))),
        sizes=sizes,
        change=find_change(problem, None, names) if sizes.number else "",
    )


def _size_problem(request: SuggestionRequest, max_skew: int) -> SizeProblem:
    """Return the constraints over the domains, and over the larger ones, before any pod is there."""
    zones = Filling(tuple(Zone(((0, number),)) for number in sorted(request.zones)))
    coarse = NO_RULE if request.zone_max_skew is None else Rule(request.zone_max_skew, len(request.zones))
    fine = Rule(max_skew, request.domains)
    return SizeProblem(fine, coarse, now=zones, foreign=zones, placed=0, first=1, last=request.size)


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
            games.append(play_game(zones, groups, request.group_size, max_skew + len(games), request.zone_max_skew))
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
