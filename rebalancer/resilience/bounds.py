"""Proved bounds, for any choices of kube-scheduler, on the running pods of each service once a loss has settled.

Problem: pods that lost their node compete for what is left, in an order and with ties that nobody knows. Idea: every
reachable state satisfies some inequalities, all services jointly. Some sums of these bound most services of a large
cluster at once (`room`, `takers`). For what they leave open there are two integer programs for each service: the fewest
and the most of its pods over all states that satisfy the inequalities. Their dual bounds hold even where they are not
solved to the end.

Example: 4, 4 and 4 pods, maxSkew 1, the third zone is silent. At first its pods still count, so that the first zone may
take one (4 + 1 <= 1 + 4); but that replaces a pod that was deleted (4 + 1 > 1 + 3). So 8 of 12 are left.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from rebalancer.model.facts import Fact
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.resilience.competition import Competition
from rebalancer.resilience.exclusions import DependsOnPods
from rebalancer.resilience.loss import Loss, Service
from rebalancer.resilience.preempting import find_obstacle, look_from, sees_lower
from rebalancer.resilience.programs import Programs
from rebalancer.resilience.room import find_least
from rebalancer.resilience.sizes import SIZES, Sizes
from rebalancer.resilience.takers import Takers
from rebalancer.scheduling.preemption import has_lower_pods

__all__ = ["Bounds", "DependsOnPods", "PreemptionDecides", "find_bounds", "find_guarantees", "find_most"]

_LIMITS: Final = SearchLimits()

Asked = Callable[[Service], bool]
"""Whether the bounds of a service are requested."""


class PreemptionDecides(Fact):
    """Pods of a higher priority may take the place of others."""

    by: str

    def __str__(self) -> str:
        return f"pending pods of {self.by} may preempt pods of lower priority"


class Bounds(NamedTuple):
    """The fewest and the most running pods of a service after a loss. `unknown` says why the fewest is not higher."""

    guaranteed: int
    possible: int
    unknown: Fact | None = None


def find_guarantees(loss: Loss, only: Collection[int] | None = None) -> Sequence[int]:
    """Return how many pods of each service are guaranteed: as `find_bounds` does, without what is possible.

    With `only`, other services get trivial bounds, unless pods may preempt others: then all bounds depend on each
    other.
    """
    competition = Competition(loss)
    if _may_preempt(competition):
        return [found.guaranteed for found in find_bounds(loss)]
    chosen = range(len(loss.services)) if only is None else only
    return [found.guaranteed for found in _bound_all(competition, _LIMITS.solve_work, SIZES, only=chosen)]


def find_most(loss: Loss) -> Sequence[int]:
    """Return the most pods of each service, from sums only: at least the `possible` of `find_bounds`."""
    competition = Competition(loss)
    if not competition.active or _may_preempt(competition):
        return [service.bound + service.pending for service in competition.services]
    takers = Takers(competition, SIZES)
    return [
        service.bound + (takers.most[number].total if service.pending else 0)
        for number, service in enumerate(competition.services)
    ]


def find_bounds(
    loss: Loss, work: int = _LIMITS.solve_work, sizes: Sizes = SIZES, asked: Asked | None = None
) -> Sequence[Bounds]:
    """Return the bounds of each service of a loss, in their order; bounds that are not requested may be looser."""
    competition = Competition(loss)
    found = _bound_all(competition, work, sizes, None if _may_preempt(competition) else asked)
    preemptor = _find_preemptor(competition, found)
    if preemptor is None:
        return found
    priority, reason = preemptor
    above = Competition(look_from(loss, priority))
    seen = iter(enumerate(_bound_all(above, work, sizes)))
    return [
        Bounds(0, service.bound + service.pending, reason)
        if service.sample.spec.priority < priority
        else _bound_preempting(number, competition, above, *next(seen), reason)
        for number, service in enumerate(loss.services)
    ]


def _bound_preempting(
    number: int, whole: Competition, above: Competition, at: int, found: Bounds, reason: Fact
) -> Bounds:
    """Return the bounds of a service that no pod preempts, from its bounds without pods of lower priority."""
    service = whole.services[number]
    if not service.pending:
        return found
    if sees_lower(number, whole, at, above):
        return Bounds(service.bound, service.bound + service.pending, reason)
    obstacle = find_obstacle(number, whole)
    return found if obstacle is None else Bounds(service.bound, found.possible, obstacle)


def _bound_all(
    competition: Competition,
    work: int,
    sizes: Sizes,
    asked: Asked | None = None,
    only: Collection[int] | None = None,
) -> Sequence[Bounds]:
    """Return the bounds of each service; bounds that are not requested come from sums alone.

    With `only`, programs bound these services alone, and their `possible` comes from sums.
    """
    if not competition.active:
        return [Bounds(service.bound, service.bound, service.unknown) for service in competition.services]
    takers = Takers(competition, sizes)
    programs = Programs(competition, takers, work)
    return [
        _bound(number, service, takers, programs if asked is None or asked(service) else None, fewest=only is not None)
        if only is None or number in only
        else Bounds(service.bound, service.bound + service.pending, service.unknown)
        for number, service in enumerate(competition.services)
    ]


def _bound(number: int, service: Service, takers: Takers, programs: Programs | None, *, fewest: bool) -> Bounds:
    """Return the bounds of a service; without programs they come from sums only. `fewest` is None for the most."""
    if not service.pending:
        return Bounds(service.bound, service.bound, service.unknown)
    competition, most = takers.competition, takers.most[number].total
    unknown = competition.unknown[number]
    if unknown is not None:
        most = most if fewest or programs is None else programs.find_most(number, most)
        return Bounds(service.bound, service.bound + most, unknown)
    least = find_least(number, competition, takers) if takers.alone[number] else 0
    if least < most and programs is not None:
        most = most if fewest else programs.find_most(number, most)
        least, unknown = programs.find_fewest(number, least, most)
    return Bounds(service.bound + least, service.bound + most, unknown)


def _find_preemptor(competition: Competition, found: Sequence[Bounds]) -> tuple[int, Fact] | None:
    """Return the highest priority of a service that may preempt others, None where none ever does.

    A service never fails to be scheduled if all its pods find a node, however many other pods are placed first, and no
    rule closes that node for a time.
    """
    if not _may_preempt(competition):
        return None
    services = [competition.services[number] for number in competition.active]
    lowest = min((placed.pod.spec.priority for placed in competition.loss.after.placed_pods()), default=0)
    lowest = min([lowest, *[service.sample.spec.priority for service in services]])
    preempting = [
        competition.services[number]
        for number in competition.active
        if competition.services[number].sample.spec.preempts
        and competition.services[number].sample.spec.priority > lowest
        and _may_fail(number, competition, found[number])
    ]
    if not preempting:
        return None
    first = max(preempting, key=lambda service: service.sample.spec.priority)
    return first.sample.spec.priority, PreemptionDecides(str(first.workload or first.sample))


def _may_preempt(competition: Competition) -> bool:
    """Return whether any pod to be placed may find pods of lower priority on its nodes."""
    before = competition.loss.before
    return any(has_lower_pods(competition.services[number].sample, before) for number in competition.active)


def _may_fail(number: int, competition: Competition, found: Bounds) -> bool:
    service = competition.services[number]
    ruled = competition.rules[number] or competition.exclusions[number]
    return bool(ruled) or found.guaranteed < service.bound + service.pending
