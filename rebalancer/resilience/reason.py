"""Why a replacement finds no node once a loss has settled: the filter that rejects most, with its numbers.

One order of placements is simulated, the order that kube-scheduler would most likely follow. Where all pods of a
service find a node in that order, another order leaves a pod without a node.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec import structs

from rebalancer.model.facts import Fact
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.words import plural, short_key
from rebalancer.resilience.loss import Loss, Service
from rebalancer.scheduling.place import most_likely, place
from rebalancer.scheduling.pod_topology_spread import Counts, PodTopologySpread, constraints_of, counts
from rebalancer.scheduling.rejections import count_rejections, describe_rejections, reject_nodes
from rebalancer.scheduling.view import View

_MOST: Final = 3
"""Up to this many domains are named."""

_MOST_PLAYED: Final = 1_000
"""An order is simulated only for up to this many pods, because each is scored on all nodes that admit it."""


class OrderDecides(Fact):
    """All pods of a service find a node in some orders of placement, but not in others."""

    def __str__(self) -> str:
        return (
            "the outcome depends on the order of the pending pods, and on the nodes that kube-scheduler picks for them"
        )


class TooManyToPlay(Fact):
    """Too many pods are pending to simulate an order."""

    most: int

    def __str__(self) -> str:
        return f"more than {self.most:,} pods wait for a node: too many to find out why no node takes them"


class StaysTerminating(Fact):
    """A StatefulSet replaces a pod only once it is deleted, and a pod on a silent node stays terminating."""

    pods: int

    def __str__(self) -> str:
        text = f"a StatefulSet does not replace pods that are terminating: its {plural(self.pods, 'lost pod')}"
        if self.pods == 1:
            return f"{text} stays so until its Node object is deleted (kubectl delete node, once it is off for certain)"
        return (
            f"{text} stay so until their Node objects are deleted (kubectl delete node, once these are off for certain)"
        )


class ClosedBySpread(Fact):
    """A constraint keeps pods out of domains, because the emptiest domain has too few.

    `empty` says if that domain is lost or drained.
    """

    key: str
    max_skew: int
    least: str
    held: int
    others: tuple[tuple[str, int], ...]
    empty: str = ""

    def __str__(self) -> str:
        more = ", ".join(f"{domain} {number}" for domain, number in self.others)
        emptiest = f"{f'the {self.empty} ' if self.empty else ''}{self.least} {self.held}"
        way = " (with nodeTaintsPolicy: Honor it does not count)" if self.empty else ""
        return f"maxSkew {self.max_skew} over {short_key(self.key)}: {more}, {emptiest}{way}"


class BelowMinDomains(Fact):
    """There are fewer domains than minDomains, and the global minimum is 0 as long as that is true."""

    key: str
    max_skew: int
    min_domains: int
    domains: int

    def __str__(self) -> str:
        return (
            f"{short_key(self.key)} has {plural(self.domains, 'domain')} and minDomains is {self.min_domains}, so each "
            f"may hold at most maxSkew ({self.max_skew}) pods"
        )


class NoNodeHasRoom(Fact):
    """No node admits another pod. `rejected` counts the nodes by reason; `spread` has the numbers of a constraint."""

    rejected: str
    spread: ClosedBySpread | BelowMinDomains | None = None

    def __str__(self) -> str:
        return f"{self.rejected}{f': {self.spread}' if self.spread is not None else ''}"


class Reasons:
    """The reasons of one loss."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self._is_played = sum(service.pending for service in loss.services) <= _MOST_PLAYED
        waiting = [(service, pod) for service in loss.services for pod in _make_pods(service) if self._is_played]
        played = place([pod for _, pod in waiting], loss.after, most_likely)
        stuck = {pod.uid for pod in played.pending}
        self._view = played.view
        self._stuck: dict[Reference | None, Pod] = {
            service.workload: pod for service, pod in waiting if pod.uid in stuck
        }

    @property
    def stuck(self) -> Collection[Reference] | None:
        """The workloads with a pod that finds no node in the simulated order; None if no order was simulated."""
        return {workload for workload in self._stuck if workload is not None} if self._is_played else None

    @property
    def after(self) -> View:
        """The state after the simulated order."""
        return self._view

    def find(self, workload: Reference) -> Fact:
        """Return why it is not certain that all pods of a workload come back."""
        kept = sum(one.wanted - one.bound - one.pending for one in self._loss.services if one.workload == workload)
        if kept > 0:
            return StaysTerminating(kept)
        pod = self._stuck.get(workload)
        if pod is None:
            return OrderDecides() if self._is_played else TooManyToPlay(_MOST_PLAYED)
        nodes = self._view.nodes.names - self._loss.nodes
        rejected = reject_nodes(pod, self._view, nodes=nodes)
        spread = any(isinstance(one.plugin, PodTopologySpread) for one in rejected)
        closed = self._find_closed(pod, self._view) if spread else None
        if closed is not None and len(rejected) == 1:
            return closed
        return NoNodeHasRoom(describe_rejections(len(nodes), count_rejections(rejected)), closed)

    def _find_closed(self, pod: Pod, view: View) -> ClosedBySpread | BelowMinDomains | None:
        """Return the first constraint that closes a domain."""
        for constraint in constraints_of(pod, view).hard:
            counted = counts(constraint, pod, view)
            closed = [value for value in counted.by_domain if not counted.admits(value)]
            if closed:
                return self._describe(counted, closed)
        return None

    def _describe(self, counted: Counts, closed: Sequence[str]) -> ClosedBySpread | BelowMinDomains:
        constraint, held = counted.constraint, counted.by_domain
        if counted.floor_at_zero:
            there = counted.eligible.there
            return BelowMinDomains(constraint.key, constraint.max_skew, constraint.min_domains, there)
        least = min(held, key=lambda value: (held[value], value))
        lost = held.domains[least] <= self._loss.nodes
        empty = ("drained" if self._loss.drained else "lost") if lost else ""
        others = tuple((value, held[value]) for value in sorted(closed)[:_MOST])
        return ClosedBySpread(constraint.key, constraint.max_skew, least, counted.minimum, others, empty)


def _make_pods(service: Service) -> Iterable[Pod]:
    for number in range(service.pending):
        yield structs.replace(service.sample, uid=f"{service.sample.uid}/{number}", node=None)
