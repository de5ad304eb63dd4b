"""What the loss of a domain leaves of each workload: at once, guaranteed, and at best."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from rebalancer.model.facts import Fact
from rebalancer.model.loss_phase import Phase
from rebalancer.model.moves import Reference
from rebalancer.resilience.bounds import Bounds, find_bounds, find_most
from rebalancer.resilience.loss import Loss, Service, lose
from rebalancer.resilience.reason import Reasons
from rebalancer.resilience.sizes import SIZES, Sizes
from rebalancer.scheduling.view import View

MOST_DOMAINS: Final = 100
"""At most this many domains of a key are lost in turn: in a cluster of 5,000 nodes each takes a second."""


class Verdict(StrEnum):
    """Whether all pods of a workload come back after a loss."""

    YES = "yes"
    NO = "no"
    ORDER = "order"


class Remaining(Struct, frozen=True, kw_only=True, gc=False):
    """What is left of one workload: of `wanted` pods `now` at once, and later between `guaranteed` and `possible`.

    `reason` says why not all are guaranteed; it is None if all are.
    """

    workload: Reference
    wanted: int
    now: int
    guaranteed: int
    possible: int
    reason: Fact | None

    @property
    def verdict(self) -> Verdict:
        """Whether the workload becomes whole again: certainly, certainly not, or depending on the placement order."""
        if self.guaranteed >= self.wanted:
            return Verdict.YES
        return Verdict.NO if self.possible < self.wanted else Verdict.ORDER


class LostDomain(Struct, frozen=True, kw_only=True, gc=False):
    """The loss of one domain in one phase, with the workloads that lose pods or are not whole afterwards."""

    key: str
    value: str
    phase: Phase
    nodes: int
    rows: tuple[Remaining, ...]


def choose_domains(key: str, view: View) -> Mapping[str, frozenset[str]]:
    """Return the nodes of the domains of a key that are lost in turn. If there are many domains, return the fullest."""
    groups = view.nodes.groups(key)
    if len(groups) <= MOST_DOMAINS:
        return dict(sorted(groups.items()))
    held = {value: sum(len(view.pods_on(node)) for node in nodes) for value, nodes in groups.items()}
    return {value: groups[value] for value in sorted(sorted(groups, key=lambda one: -held[one])[:MOST_DOMAINS])}


def find_resilience(
    view: View,
    keys: Iterable[str],
    phases: Iterable[Phase],
    includes: Callable[[Reference], bool],
    *,
    briefly: bool = False,
    sizes: Sizes = SIZES,
) -> Iterator[LostDomain]:
    """Yield the loss of each chosen domain of these keys in each phase, for the included workloads.

    `briefly`: programs run only for these workloads, and a row has a reason only where no better bound is guaranteed.
    """
    for key in keys:
        for value, nodes in choose_domains(key, view).items():
            for phase in phases:
                loss = lose(view, nodes, phase)
                rows = tuple(find_remaining(loss, includes, sizes, briefly=briefly))
                yield LostDomain(key=key, value=value, phase=phase, nodes=len(nodes), rows=rows)


def find_remaining(
    loss: Loss, includes: Callable[[Reference], bool], sizes: Sizes = SIZES, *, briefly: bool = False
) -> Iterator[Remaining]:
    """Yield what is left of the included workloads that lose pods by a loss, or are not whole after it."""
    by_workload: defaultdict[Reference, list[tuple[Service, Bounds]]] = defaultdict(list)
    asked = (lambda one: one.workload is not None and includes(one.workload)) if briefly else None
    found = find_bounds(loss, sizes=sizes, asked=asked)
    for service, bounds in zip(loss.services, found, strict=True):
        if service.workload is not None and includes(service.workload):
            by_workload[service.workload].append((service, bounds))
    reasons: Reasons | None = None
    for workload, parts in sorted(by_workload.items()):
        row = _join(workload, parts)
        if not briefly and row.verdict is not Verdict.YES and row.reason is None:
            reasons = reasons or Reasons(loss)
            row = _join(workload, parts, reasons.find(workload))
        if row.verdict is not Verdict.YES or any(service.lost for service, _ in parts):
            yield row


def find_short(loss: Loss, includes: Callable[[Reference], bool]) -> Iterator[Remaining]:
    """Yield the included workloads that no order of placements makes whole.

    Sums suffice for that, so thousands of workloads take little time. Neither guarantees nor reasons are found.
    """
    found = defaultdict[Reference, list[tuple[Service, Bounds]]](list)
    for service, most in zip(loss.services, find_most(loss), strict=True):
        if service.workload is not None and includes(service.workload):
            found[service.workload].append((service, Bounds(0, most)))
    rows = (_join(workload, parts) for workload, parts in found.items())
    return (row for row in rows if row.verdict is Verdict.NO)


def _join(workload: Reference, parts: Sequence[tuple[Service, Bounds]], reason: Fact | None = None) -> Remaining:
    """Add up the pods that the owners of one workload keep: during a rollout a Deployment has several ReplicaSets."""
    unknown = next((bounds.unknown for _, bounds in parts if bounds.unknown is not None), None)
    return Remaining(
        workload=workload,
        wanted=sum(service.wanted for service, _ in parts),
        now=sum(service.now for service, _ in parts),
        guaranteed=sum(bounds.guaranteed for _, bounds in parts),
        possible=sum(bounds.possible for _, bounds in parts),
        reason=unknown or reason,
    )
