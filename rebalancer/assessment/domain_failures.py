"""What the loss of each single node and zone would break, and whether the lost pods could be placed elsewhere.

A domain is lost with its nodes and pods. Then the replacements of these pods are placed one after the other on the
remaining nodes, as kube-scheduler most likely would. After an outage the Node objects of the lost nodes remain for a
long time, tainted, and count as domains without pods; or somebody deletes them. The worse of both results is reported.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from msgspec import structs

from rebalancer.assessment.limit_groups import LimitGroup, LimitGroupPart, desired_pods
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.creation.replacement import replacement
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.pods import Pod
from rebalancer.policy import Basis
from rebalancer.scheduling.place import most_likely, place
from rebalancer.scheduling.tie_breaking import node_order
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

MOST_PLACED: Final = 5_000
"""Pods placed in one simulation, for the worst domains first; for the other domains `unplaceable` is None."""

_MOST_SCORED: Final = 100
"""Feasible nodes scored for one pod; kube-scheduler, too, scores only a part of a large cluster's nodes."""

_NODE_OWNERS: Final = frozenset({"DaemonSet", "Node"})

_QUORUM: Final = 3
"""The smallest number of pods that must keep a majority."""


@dataclass(frozen=True, kw_only=True)
class GroupLoss:
    """What one set of pods loses: the pods of a group, or those of them that a limit selects.

    `holds`: a majority of the `total` desired pods is `left`, Ready in other domains, and no more pods are lost than
    the limits on exactly these pods allow.
    """

    group: str
    limit: str | None
    """The limit that selects the pods; None for all pods of the group."""
    namespace: str
    key: Labels
    workloads: frozenset[Reference]
    lost: int
    total: int
    left: int
    holds: bool

    @property
    def share(self) -> Fraction:
        """The lost pods as a fraction of the total."""
        return Fraction(self.lost, self.total)


@dataclass(frozen=True, kw_only=True)
class DomainFailure:
    """The loss of one domain. `unplaceable` replacements find no node, None where placing them was not tried.

    `unknown` counts the pods whose replacement cannot be predicted.
    """

    topology_key: str
    domain: str
    losses: tuple[GroupLoss, ...]
    unplaceable: int | None
    unknown: int

    @property
    def broken(self) -> int:
        """How many sets of pods do not hold the loss."""
        return sum(not loss.holds for loss in self.losses)


@dataclass(frozen=True, kw_only=True)
class DomainFailures:
    """The loss of each single domain that holds pods of the policy's groups, the worst first.

    `domains` counts the domains of these keys, with such pods or without.
    """

    domains: int
    failures: tuple[DomainFailure, ...]


@dataclass(frozen=True, kw_only=True)
class _PodSet:
    """A set of pods, the limits on it, and how many of the pods are on each node, and Ready there."""

    group: str
    limit: str | None
    namespace: str
    key: Labels
    workloads: frozenset[Reference]
    total: int
    on: Mapping[str, int]
    ready: Mapping[str, int]
    limits: list[EvaluatedLimit] = field(default_factory=list)


def simulate_failures(gathered: Sequence[LimitGroup], limits: Sequence[EvaluatedLimit], view: View) -> DomainFailures:
    """Simulate the loss of each domain that holds pods of the policy's groups, with or without a limit in force.

    The keys are the host name, those of the limits in force, and the groups' zones.
    """
    units = tuple(_pod_sets(gathered, limits))
    keys = {HOSTNAME, *(limit.topology_key for limit in limits), *(group.policy_group.zone_key for group in gathered)}
    lost_domains = [
        (key, domain, losses)
        for key in sorted(keys)
        for domain, losses in sorted(_losses_by_domain(key, units, view).items())
    ]
    lost_domains.sort(
        key=lambda domain_loss: (
            -sum(not loss.holds for loss in domain_loss[2]),
            -max(loss.share for loss in domain_loss[2]),
        )
    )
    left = MOST_PLACED
    replacements = _Replacements(view)
    made: list[DomainFailure] = []
    for key, domain, losses in lost_domains:
        nodes = view.nodes.groups(key)[domain]
        coming, unknown = replacements.coming(nodes)
        unplaceable = None
        if len(coming) <= left:
            left -= len(coming)
            unplaceable = _count_unplaceable(coming, nodes, view)
        made.append(
            DomainFailure(topology_key=key, domain=domain, losses=losses, unplaceable=unplaceable, unknown=unknown)
        )
    made.sort(key=lambda failure: (-failure.broken, -(failure.unplaceable or 0), failure.topology_key, failure.domain))
    return DomainFailures(domains=sum(len(view.nodes.groups(key)) for key in keys), failures=tuple(made))


def _count_unplaceable(coming: Sequence[Pod], nodes: frozenset[str], view: View) -> int:
    """Count the pods that find no node, with the lost nodes tainted or deleted, whichever is worse."""
    if not coming:
        return 0
    states: tuple[Callable[[Iterable[str]], View], ...] = view.with_unreachable, view.without_nodes
    return max(len(place(coming, state(nodes), _likely_nodes).pending) for state in states)


def _pod_sets(gathered: Iterable[LimitGroup], limits: Iterable[EvaluatedLimit]) -> Iterator[_PodSet]:
    """Yield each group's pods, then the other sets that limits count, each with the limits on exactly these pods.

    Limits within a larger domain are left out: the set of pods that they count changes.
    """
    of_group: dict[int, list[EvaluatedLimit]] = {}
    for limit in limits:
        if limit.rule.within is None:
            of_group.setdefault(id(limit.gathered), []).append(limit)
    for group in gathered:
        whole = _make_pod_set(group, None, group.key, group.parts)
        parted: dict[tuple[Labels, frozenset[str]], _PodSet] = {(group.key, _uids(group.parts)): whole}
        for limit in of_group.get(id(group), ()):
            unit = whole
            if limit.parts is not group.parts:
                pods = limit.key, _uids(limit.parts)
                unit = parted.get(pods) or parted.setdefault(
                    pods, _make_pod_set(group, limit.limit, limit.key, limit.parts)
                )
            unit.limits.append(limit)
        yield from parted.values()


def _uids(parts: Iterable[LimitGroupPart]) -> frozenset[str]:
    return frozenset(pod.uid for part in parts for pod in part.pods)


def _make_pod_set(group: LimitGroup, limit: str | None, key: Labels, parts: Sequence[LimitGroupPart]) -> _PodSet:
    placed = [(pod.node, pod.ready) for part in parts for pod in part.pods if pod.node is not None]
    return _PodSet(
        group=group.policy_group.name,
        limit=limit,
        namespace=group.namespace,
        key=key,
        workloads=frozenset(part.member.reference for part in parts),
        total=desired_pods(parts, Basis.DESIRED, group.population),
        on=Counter(node for node, _ in placed),
        ready=Counter(node for node, ready in placed if ready),
    )


def _losses_by_domain(key: str, units: Iterable[_PodSet], view: View) -> dict[str, tuple[GroupLoss, ...]]:
    """Return the losses in each domain of a key, the worst first."""
    values = view.nodes.values(key)
    losses_by_domain: dict[str, list[GroupLoss]] = {}
    for unit in units:
        lost: Counter[str] = Counter()
        silenced: Counter[str] = Counter()
        for node, number in unit.on.items():
            if node in values:
                lost[values[node]] += number
                silenced[values[node]] += unit.ready.get(node, 0)
        ready = sum(unit.ready.values())
        for domain, number in lost.items():
            left = ready - silenced[domain]
            loss = GroupLoss(
                group=unit.group,
                limit=unit.limit,
                namespace=unit.namespace,
                key=unit.key,
                workloads=unit.workloads,
                lost=number,
                total=max(unit.total, number),
                left=left,
                holds=_is_tolerated(unit, key, number, left),
            )
            losses_by_domain.setdefault(domain, []).append(loss)
    return {domain: tuple(sorted(losses, key=_sort_key)) for domain, losses in losses_by_domain.items()}


def _sort_key(loss: GroupLoss) -> tuple[bool, Fraction, str, str, str, list[tuple[str, str]]]:
    return loss.holds, -loss.share, loss.namespace, loss.group, loss.limit or "", sorted(loss.key.items())


def _is_tolerated(unit: _PodSet, key: str, lost: int, left: int) -> bool:
    if unit.total >= _QUORUM and 2 * left <= unit.total:
        return False
    caps = [limit.cap for limit in unit.limits if limit.topology_key == key and limit.cap is not None]
    return all(lost <= cap for cap in caps)


class _Replacements:
    """The replacements of lost pods; most owners replace all their pods by equal ones."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._by_owner: dict[str, Pod | Unpredictable] = {}

    def coming(self, nodes: Iterable[str]) -> tuple[list[Pod], int]:
        """Return the replacements of the pods on some nodes, and how many pods have no predictable replacement.

        Pods that belong to their nodes (DaemonSets, static pods) are not counted.
        """
        coming: list[Pod] = []
        unknown = 0
        for node in sorted(nodes):
            for pod in self._view.pods_on(node):
                if pod.terminating or pod.mirror or (pod.owner is not None and pod.owner.kind in _NODE_OWNERS):
                    continue
                made = self._replacement_of(pod)
                if isinstance(made, Unpredictable):
                    unknown += 1
                else:
                    coming.append(made)
        return coming, unknown

    def _replacement_of(self, pod: Pod) -> Pod | Unpredictable:
        owner = pod.owner
        if owner is None or owner.kind == "StatefulSet" or pod.claims:
            return replacement(pod, self._view)
        known = self._by_owner.get(owner.uid)
        if known is None:
            known = self._by_owner[owner.uid] = replacement(pod, self._view)
        return structs.replace(known, uid=f"{pod.uid}+") if isinstance(known, Pod) else known


def _likely_nodes(pod: Pod, view: View, nodes: frozenset[str]) -> Collection[str]:
    """Return the nodes that kube-scheduler most likely chooses, of the first `_MOST_SCORED` feasible nodes."""
    if len(nodes) > _MOST_SCORED:
        inside = (node for node in node_order(view) if node in nodes)
        nodes = frozenset(node for node, _ in zip(inside, range(_MOST_SCORED), strict=False))
    return most_likely(pod, view, nodes)
