"""The worst loss of each workload, for each key and phase, compared with the pods that must be left."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec import Struct

from rebalancer.assessment.controllers import controllers_without_pods, members
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.resilience.demands import Demands
from rebalancer.resilience.rows import MOST_DOMAINS, LostDomain, Remaining, find_resilience
from rebalancer.scheduling.view import View


class WorstLoss(Struct, frozen=True, kw_only=True, gc=False):
    """The loss of a domain of this key that leaves the fewest guaranteed pods of a workload, in one phase.

    Of `wanted` pods `now` are left at once, later between `guaranteed` and `possible`; `required` must be left.
    `reason` says why not all are guaranteed, or is "".
    """

    workload: Reference
    key: str
    phase: Phase
    domain: str
    wanted: int
    now: int
    guaranteed: int
    possible: int
    required: int
    reason: str

    @property
    def holds(self) -> bool:
        """Whether at least the required pods are guaranteed."""
        return self.guaranteed >= self.required

    @property
    def badness(self) -> tuple[object, ...]:
        """A sort key, worst first, by the shares of `wanted` that are guaranteed, possible, and left at once."""
        wanted = max(1, self.wanted)
        return self.holds, self.guaranteed / wanted, self.possible / wanted, self.now / wanted, self.workload


class Worst(Struct, frozen=True, kw_only=True, gc=False):
    """The worst losses of these workloads in one cluster, if any loss takes pods from them.

    `left_out` counts the domains whose loss was not computed, because their keys have too many domains.
    """

    workloads: frozenset[Reference]
    losses: tuple[WorstLoss, ...]
    left_out: int


_NOTHING: Final = Worst(workloads=frozenset(), losses=(), left_out=0)


@dataclass(frozen=True, kw_only=True)
class ResilienceReport:
    """The losses as known at the time `as_of`, None before the first answer.

    `problem` says why there is no newer answer.
    """

    as_of: datetime | None = None
    worst: Worst = _NOTHING
    problem: str = ""

    @property
    def by_workload(self) -> Mapping[Reference, WorstLoss]:
        """The worst loss of each workload, over all keys and phases."""
        worst: dict[Reference, WorstLoss] = {}
        for loss in self.worst.losses:
            if loss.workload not in worst or loss.badness < worst[loss.workload].badness:
                worst[loss.workload] = loss
        return worst


NOTHING_COMPUTED: Final = ResilienceReport()


def find_workloads(view: View) -> frozenset[Reference]:
    """Return the workloads that must keep pods, including those that have none now."""
    owned = (*members(view), *controllers_without_pods(view))
    return frozenset(member.reference for member in owned if member.owner is not None)


def find_worst(view: View, demands: Demands) -> Worst:
    """Return the worst loss of every workload that loses pods in any of them."""
    workloads = find_workloads(view)
    losses = tuple(loss for key in demands.keys for loss in _find_for_key(key, view, demands))
    left_out = sum(max(0, len(view.nodes.groups(key)) - MOST_DOMAINS) for key in demands.keys)
    return Worst(workloads=workloads, losses=losses, left_out=left_out)


def _find_for_key(key: str, view: View, demands: Demands) -> Iterator[WorstLoss]:
    worst: dict[tuple[Reference, Phase], WorstLoss] = {}
    for lost in find_resilience(view, [key], demands.phases, lambda workload: key in demands.find(workload).keys):
        for row in lost.rows:
            demand, at = demands.find(row.workload), (row.workload, lost.phase)
            if lost.phase in demand.phases:
                one = _judge(row, lost, demand.resolve(row.wanted))
                if at not in worst or _order(one) < _order(worst[at]):
                    worst[at] = one
    yield from worst.values()


def _order(loss: WorstLoss) -> tuple[int, int, int]:
    return loss.guaranteed, loss.possible, loss.now


def _judge(row: Remaining, lost: LostDomain, required: int) -> WorstLoss:
    return WorstLoss(
        workload=row.workload,
        key=lost.key,
        phase=lost.phase,
        domain=lost.value,
        wanted=row.wanted,
        now=row.now,
        guaranteed=row.guaranteed,
        possible=row.possible,
        required=required,
        reason="" if row.reason is None else str(row.reason),
    )
