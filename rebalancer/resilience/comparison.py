"""How evictions change what is left of the workloads that they move, when a domain is lost.

A workload has many losses, before and after. Two are reported: the worst of those before, and the worst of those after,
which are mostly the same loss. So neither what is gained nor what remains, or gets worse, is left out.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from rebalancer.model.facts import Fact
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import ZONE
from rebalancer.planning.carried_out import carry_out
from rebalancer.planning.fates import Fates, Never
from rebalancer.resilience.programs import TooLarge
from rebalancer.resilience.rows import LostDomain, Remaining, find_resilience
from rebalancer.resilience.sizes import SIZES, Sizes
from rebalancer.scheduling.view import View

MOST_PODS: Final = 5_000
MOST_EVICTIONS: Final = 500
"""Above this many evictions the effect is not computed: it would take 2 s for a plan that took 0.2 s."""

MOST_ZONES: Final = 10
"""Above this many zones the effect is not computed: each zone needs a loss of its own."""


class TooManyToCompare(Fact):
    """The cluster or the plan is too large to compute numbers that are shown only beside other information."""

    what: str
    number: int
    most: int

    def __str__(self) -> str:
        return f"there are {self.number:,} {self.what}, more than {self.most:,}"


class LandingsUnknown(Fact):
    """Where the replacements go cannot be predicted."""

    def __str__(self) -> str:
        return "where the replacements will be placed is not known"


class Left(NamedTuple):
    """How many pods run once a loss has settled: guaranteed, and at best."""

    guaranteed: int
    possible: int


class ChangedLoss(Struct, frozen=True, kw_only=True, gc=False):
    """What a domain's loss leaves of a workload, before and after evictions: pods out of `wanted`."""

    workload: Reference
    key: str
    value: str
    phase: Phase
    wanted: int
    before: Left
    after: Left


class Effect(Struct, frozen=True, kw_only=True, gc=False):
    """How evictions change what losses leave of the moved workloads. `unknown` says why some of it is not known."""

    rows: tuple[ChangedLoss, ...] = ()
    unknown: Fact | None = None


def find_effect(view: View, fates: Fates, sizes: Sizes = SIZES) -> Effect:
    """Return how all decided evictions of a plan, once carried out, change what the loss of a zone leaves."""
    evictions = [fate.eviction for fate in fates.rows if not isinstance(fate, Never)]
    if not evictions:
        return Effect()
    if len(evictions) > MOST_EVICTIONS:
        return Effect(unknown=TooManyToCompare("evictions", len(evictions), MOST_EVICTIONS))
    if len(view.snapshot.pods) > MOST_PODS:
        return Effect(unknown=TooManyToCompare("pods", len(view.snapshot.pods), MOST_PODS))
    zones = len(view.nodes.groups(ZONE))
    if zones > MOST_ZONES:
        return Effect(unknown=TooManyToCompare("zones", zones, MOST_ZONES))
    following = carry_out(view, evictions)
    if following is None:
        return Effect(unknown=LandingsUnknown())
    return compare_losses(view, View(following, view.profile), {eviction.workload for eviction in evictions}, sizes)


def compare_losses(before: View, after: View, workloads: Collection[Reference], sizes: Sizes = SIZES) -> Effect:
    """Return what has changed in the losses of zones that both states have, for these workloads.

    If one of the states is too large for programs, its bounds come from sums and cannot be compared with the other's.
    """
    pods = max(len(before.snapshot.pods), len(after.snapshot.pods))
    if not workloads:
        return Effect()
    if pods > MOST_PODS:
        return Effect(unknown=TooManyToCompare("pods", pods, MOST_PODS))
    losses, following = (
        {(one.key, one.value, one.phase): one for one in _lose_zones(view, workloads, sizes)}
        for view in (before, after)
    )
    both = [(losses[where], following[where]) for where in losses if where in following]
    loose = {row.workload: row.reason for pair in both for one in pair for row in one.rows if _is_loose(row)}
    found: dict[Reference, list[ChangedLoss]] = {}
    for first, last in both:
        for row in _join(first, last):
            if row.workload not in loose:
                found.setdefault(row.workload, []).append(row)
    rows = tuple(row for workload in sorted(found) for row in _choose(found[workload]))
    return Effect(rows=rows, unknown=next(iter(loose.values()), None))


def _lose_zones(view: View, workloads: Collection[Reference], sizes: Sizes) -> Iterator[LostDomain]:
    return find_resilience(view, [ZONE], Phase, workloads.__contains__, briefly=True, sizes=sizes)


def _is_loose(row: Remaining) -> bool:
    return isinstance(row.reason, TooLarge)


def _join(before: LostDomain, after: LostDomain) -> Iterator[ChangedLoss]:
    """Yield the loss of a domain for each workload; a workload that the loss does not list keeps all its pods."""
    once, then = _by_workload(before.rows), _by_workload(after.rows)
    for workload in {**once, **then}:
        wanted = (then.get(workload) or once[workload]).wanted
        yield ChangedLoss(
            workload=workload,
            key=before.key,
            value=before.value,
            phase=before.phase,
            wanted=wanted,
            before=_left(once.get(workload), wanted),
            after=_left(then.get(workload), wanted),
        )


def _by_workload(rows: Iterable[Remaining]) -> Mapping[Reference, Remaining]:
    return {row.workload: row for row in rows}


def _left(row: Remaining | None, wanted: int) -> Left:
    return Left(wanted, wanted) if row is None else Left(row.guaranteed, row.possible)


def _choose(rows: Sequence[ChangedLoss]) -> Iterator[ChangedLoss]:
    """Yield the worst loss before and the worst loss after, each once, if they changed or leave pods without a node."""
    last = min(rows, key=lambda row: (row.after, row.before))
    first = min(rows, key=lambda row: (row.before, row.after))
    for row in (first, last) if first is not last else (last,):
        if row.before != row.after or row.after.guaranteed < row.wanted:
            yield row
