"""How many more of a group's pods each node can take, without regard to the group's own spread constraints.

It is not known on which node a pending pod will be placed. So its capacity is reserved on every node that admits it,
and on every node that it may take by preemption. Pending pods are pods that wait for a node, pods that owners have
still to create, and the replacements of earlier components of the same plan. A group's own pods are counted by its own
problem.

After a minute nothing more is reserved for some pods: pods of another scheduler or with device claims although nodes
have capacity for them, and pods that their own spread or affinity keeps from all such nodes. Otherwise anybody who may
create pods in one namespace could stop every repair by pods that are never placed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from itertools import repeat
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.assessment.controllers import members
from rebalancer.creation.replacement import replacement
from rebalancer.model.affinity import PodAffinity
from rebalancer.model.nodes import HOSTNAME, Node
from rebalancer.model.pods import Pod, Resources
from rebalancer.planning.scope.preempting import Preempting
from rebalancer.planning.scope.topology import DomainPath, DomainTree
from rebalancer.scheduling.affinity_terms import selects
from rebalancer.scheduling.feasibility import feasible, is_on, static_feasible
from rebalancer.scheduling.inter_pod_affinity import InterPodAffinity
from rebalancer.scheduling.node_ports import NodePorts
from rebalancer.scheduling.node_resources_fit import NodeResourcesFit, drop_ignored_resources
from rebalancer.scheduling.node_usage import Usage
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View


class NodeCapacity:
    """The nodes that can take one more pod of a class, and how many each can take if nothing else is placed.

    `places` is the number of pods by node; a node that can take none is absent. It is computed once for all groups
    whose pods have equal requests.
    """

    def __init__(self, places: Mapping[str, int]) -> None:
        self.places = places
        self.nodes = frozenset(places)
        # If a tenth of the nodes is full, a plan of 150,000 pods takes 2.3 times as long without the first of these
        # caches, and 1.14 times without the last.
        self._paths_with: dict[tuple[DomainTree, int], Mapping[str, DomainPath]] = {}
        self._lacking: dict[tuple[DomainTree, int], frozenset[str]] = {}
        self._node_counts: dict[tuple[DomainTree, int, int], dict[DomainPath, dict[int, int]]] = {}

    @cached_property
    def _ordered(self) -> list[int]:
        return sorted(self.places.values())

    def median(self) -> int:
        """Return the median capacity of the nodes."""
        return self._ordered[len(self._ordered) // 2] if self._ordered else 0

    def least_places(self, enough: int) -> int:
        """Return the least capacity of the nodes that have capacity for this many pods; 0 if none has."""
        position = bisect_left(self._ordered, enough)
        return self._ordered[position] if position < len(self._ordered) else 0

    def count_nodes_with(self, least: int) -> int:
        """Return how many of the nodes have capacity for at least this many pods."""
        return len(self._ordered) - bisect_left(self._ordered, least)

    def paths_with(self, topology: DomainTree, least: int) -> Mapping[str, DomainPath]:
        """Return the paths of the topology's nodes with capacity for at least this many pods."""
        known = self._paths_with.get((topology, least))
        if known is None:
            paths: Mapping[str, DomainPath] = topology.path
            if self.count_nodes_with(least) < len(self.places) or self.nodes != topology.nodes:
                paths = {name: paths[name] for name, places in self.places.items() if places >= least and name in paths}
            known = self._paths_with[topology, least] = paths
        return known

    def lacking(self, topology: DomainTree, least: int) -> frozenset[str]:
        """Return the topology's nodes with capacity for fewer than this many pods."""
        known = self._lacking.get((topology, least))
        if known is None:
            paths = self.paths_with(topology, least)
            lacking = () if paths is topology.path else topology.path.keys() - paths.keys()
            known = self._lacking[topology, least] = frozenset(lacking)
        return known

    def node_counts(self, topology: DomainTree, useful: int, reserved: int) -> Mapping[DomainPath, Mapping[int, int]]:
        """Return for each domain of the topology how many of its nodes have which capacity, less `reserved` of each.

        Capacity above `useful` counts as `useful`, so that most nodes are alike.
        """
        key = (topology, useful, reserved)
        known = self._node_counts.get(key)
        if known is None:
            known = self._node_counts[key] = {}
            for path, members in topology.members.items():
                counts = known[path] = {}
                for places, nodes in Counter(map(self.places.get, members, repeat(0))).items():
                    left = min(useful, max(0, places - reserved))
                    counts[left] = counts.get(left, 0) + nodes
        return known


class ReservedCapacity(NamedTuple):
    """Reserved capacity in pods: `on` some nodes by name, `everywhere` on all others."""

    everywhere: int
    on: Mapping[str, int]

    def of(self, node: str) -> int:
        """Return the reserved capacity of a node."""
        return self.on.get(node, self.everywhere)


class _Demand:
    """The sum of what pods without a node request."""

    __slots__ = ("_cpu", "_extended", "_memory", "_pods", "_storage")

    def __init__(self) -> None:
        self._pods = self._cpu = self._memory = self._storage = 0
        self._extended: dict[str, int] = {}

    def copy(self) -> _Demand:
        """Return an equal, independent demand."""
        copied = _Demand()
        copied.include(self)
        return copied

    def add(self, requests: Resources, times: int) -> None:
        """Add `times` equal pods."""
        self._pods += times
        self._cpu += times * requests.cpu
        self._memory += times * requests.memory
        self._storage += times * requests.ephemeral_storage
        for name, amount in requests.extended:
            self._extended[name] = self._extended.get(name, 0) + times * amount

    def include(self, other: _Demand) -> None:
        """Add the pods of another demand."""
        self._pods += other._pods
        self._cpu += other._cpu
        self._memory += other._memory
        self._storage += other._storage
        for name, amount in other._extended.items():
            self._extended[name] = self._extended.get(name, 0) + amount

    def count_displaced(self, own: Resources) -> int:
        """Return how many fewer pods with the requests `own` a node can take once all pods of the demand are on it."""
        most = self._pods
        for wanted, amount in (
            (own.cpu, self._cpu),
            (own.memory, self._memory),
            (own.ephemeral_storage, self._storage),
        ):
            if wanted > 0:
                most = max(most, -(-amount // wanted))
        for name, wanted in own.extended:
            most = max(most, -(-self._extended.get(name, 0) // wanted))
        return most


class CapacityIndex:
    """The capacity in one view, and the reservations on it."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.preempting: Final = Preempting(view)
        self._charged: dict[frozenset[str], _Demand] = {}
        # A plan of 150,000 pods whose workloads have equal requests takes 22 times as long without this cache.
        self._capacities: dict[Hashable, NodeCapacity] = {}
        self._unaffected: dict[str, bool] = {}
        self._pending: dict[str, tuple[frozenset[str], Pod, int]] = {}
        for owner, sample, times in _pending_pods(view):
            nodes = frozenset() if _is_stuck(sample, view) else static_feasible(sample, view)
            nodes |= self.preempting.find_nodes(sample)
            self._pending[owner] = (nodes, sample, times)
            self.charge(nodes, sample, times)

    def charge(self, nodes: frozenset[str], sample: Pod, times: int) -> None:
        """Reserve capacity for `times` pods like `sample` on each of the nodes."""
        demand = self._charged.get(nodes)
        if demand is None:
            demand = self._charged[nodes] = _Demand()
        demand.add(sample.spec.requests, times)

    def charge_preempted(self) -> None:
        """Reserve capacity for the replacements of pods that pending pods may preempt."""
        for pod in self._view.snapshot.pods if self.preempting.victims else ():
            made = replacement(pod, self._view) if pod.uid in self.preempting.victims else None
            if made is not None and not isinstance(made, Unpredictable):
                self.charge(static_feasible(made, self._view), made, 1)

    def count_pending(self) -> int:
        """Return how many pods, which some node may take, wait for a node or have still to be created."""
        snapshot = self._view.snapshot
        without_any = (
            owner.replicas
            for owner in snapshot.workloads
            if owner.template is not None and not snapshot.creates_no_pods(owner) and owner.uid not in snapshot.pods_of
        )
        return sum(times for nodes, _, times in self._pending.values() if nodes) + sum(without_any)

    def capacity_for(self, sample: Pod, own: Sequence[Pod]) -> NodeCapacity:
        """Return how many such pods each node can take; reserved capacity is not subtracted.

        `own` are the group's pods. If pods keep others of their class off their node, by anti-affinity or a host port,
        a node takes one, or none if such a pod is there.
        """
        if (sample.spec.host_ports and is_on(NodePorts, self._view)) or repels_own_class(sample, self._view):
            feasible = static_feasible(sample, self._view.without(own), own)
            occupied = {pod.node for pod in own}
            places = {name: 1 for name in self._view.nodes.in_order(feasible) if name not in occupied}
            return NodeCapacity({name: 1 for name in places if self._count_fitting(sample, name) > 0})
        if _filters(sample.spec.pod_affinity) or sample.claims or not self._is_unaffected(sample.namespace):
            return self._compute(sample, own)
        spec = sample.spec
        affinity = spec.node_affinity
        key = (spec.node_name, spec.tolerations, affinity.selector, affinity.required, spec.requests)
        known = self._capacities.get(key)
        if known is None:
            known = self._capacities[key] = self._compute(sample, own)
        return known

    def without_own(self, sample: Pod, own: Sequence[Pod]) -> NodeCapacity:
        """Return how many such pods each node can take, without regard to anti-affinity among the group's own pods."""
        if not _filters(sample.spec.pod_affinity) and self._is_unaffected(sample.namespace):
            return self.capacity_for(sample, own)
        return self._compute(sample, own)

    def emptied(self, sample: Pod, own: Sequence[Pod]) -> Mapping[str, int]:
        """Return how many such pods each node could hold without the component's own pods."""
        state = self._view.without(own)
        feasible = self._view.nodes.in_order(static_feasible(sample, state, own))
        return {name: count_places(sample, name, state) for name in feasible}

    def reserved(self, capacity: NodeCapacity, sample: Pod, owners: Iterable[str] = ()) -> ReservedCapacity:
        """Return how many pods of this size pending pods may displace on each node, as an upper bound.

        `owners` are the UIDs of the group's own owners: their pending pods are not counted.
        """
        charged = self._charged
        ours = [self._pending[owner] for owner in owners if owner in self._pending]
        if ours:
            charged = {nodes: demand.copy() for nodes, demand in charged.items()}
            for nodes, pod, times in ours:
                charged[nodes].add(pod.spec.requests, -times)
        everywhere = _Demand()
        somewhere: list[tuple[frozenset[str], _Demand]] = []
        for nodes, demand in charged.items():
            if nodes is capacity.nodes or nodes >= capacity.nodes:
                everywhere.include(demand)
            elif not nodes.isdisjoint(capacity.nodes):
                somewhere.append((nodes & capacity.nodes, demand))
        requests = sample.spec.requests
        on = _displaced_by_node(requests, everywhere, somewhere) if somewhere else {}
        return ReservedCapacity(everywhere.count_displaced(requests), on)

    def _is_unaffected(self, namespace: str) -> bool:
        """Return whether no pod's required terms can keep pods of a namespace off a node."""
        known = self._unaffected.get(namespace)
        if known is None:
            terms = (affinity for _, affinity, _ in self._view.affine_towards(namespace))
            known = self._unaffected[namespace] = not any(map(_filters, terms))
        return known

    def _compute(self, sample: Pod, own: Sequence[Pod]) -> NodeCapacity:
        feasible = self._view.nodes.in_order(static_feasible(sample, self._view, own))
        places = {name: self._count_fitting(sample, name) for name in feasible}
        return NodeCapacity({name: number for name, number in places.items() if number > 0})

    def _count_fitting(self, sample: Pod, name: str) -> int:
        return count_places(sample, name, self._view)


def _filters(affinity: PodAffinity) -> bool:
    """Return whether affinity excludes nodes; preferred terms only score them.

    In a plan of 150,000 pods whose workloads all prefer to be apart, this computes a node's places once. Computing them
    for each workload takes 20 times as long.
    """
    return bool(affinity.required or affinity.anti_required or affinity.unread is not None)


def _displaced_by_node(
    requests: Resources,
    everywhere: _Demand,
    somewhere: Sequence[tuple[frozenset[str], _Demand]],
) -> Mapping[str, int]:
    """Return the reserved capacity of the nodes where more than `everywhere` is reserved.

    Capacity is reserved in a few sets of nodes, such as zones: nodes in equal sets have equal sums.
    """
    numbers: dict[str, tuple[int, ...]] = {}
    for number, (nodes, _) in enumerate(somewhere):
        for name in nodes:
            numbers[name] = (*numbers.get(name, ()), number)
    displaced: dict[tuple[int, ...], int] = {}
    for sets in numbers.values():
        if sets not in displaced:
            total = everywhere.copy()
            for number in sets:
                total.include(somewhere[number][1])
            displaced[sets] = total.count_displaced(requests)
    return {name: displaced[sets] for name, sets in numbers.items()}


_WITHOUT_BOUND: Final = 1_000_000
"""The number of places if free capacity sets no bound."""

_BURST: Final = 500
"""Pods that the ReplicaSet controller creates at once, at most (`BurstReplicas` in `pkg/controller/replicaset`)."""


_PLACED_WITHIN: Final = timedelta(minutes=1)
"""Within this time a scheduler places a pod if nodes have capacity for it."""


def _is_left_waiting(pod: Pod, view: View) -> bool:
    """Return whether a pod has waited for long for another scheduler, or for something that is not read."""
    others = pod.spec.scheduler != view.profile.name or bool(pod.spec.unpredictable)
    return others and view.clock.has_lasted(pod.created, _PLACED_WITHIN)


def _is_stuck(pod: Pod, view: View) -> bool:
    """Return whether a pod has waited for long because only its own spread or affinity keeps it from the nodes.

    It takes none of the nodes' capacity until pods that its constraints count move, mostly its own workload's pods.
    """
    # The age is checked last, because a plan holds only until an answer of the clock changes.
    return pod.waiting and not feasible(pod, view) and view.clock.has_lasted(pod.created, _PLACED_WITHIN)


def _pending_pods(view: View) -> Iterator[tuple[str, Pod, int]]:
    """Yield the pods without a node: (UID of the owner or of the pod itself, an example pod, how many)."""
    snapshot = view.snapshot
    waiting: dict[str, list[Pod]] = {}
    for pod in snapshot.queued:
        if _is_left_waiting(pod, view):
            continue
        waiting.setdefault(pod.owner.uid if pod.owner is not None else pod.uid, []).append(pod)
    living = {member.owner.uid: len(member.pods) for member in members(view) if member.owner is not None}
    for owner in snapshot.workloads:
        if snapshot.creates_no_pods(owner):
            continue
        unplaced = waiting.pop(owner.uid, None) or ()
        missing = owner.replicas - living.get(owner.uid, 0)
        # Nothing is created if the API server refuses it; the pods created so far tell how fast the rest comes.
        coming = 0 if owner.creation_failure else min(missing, max(_BURST, living.get(owner.uid, 0)))
        times = coming + len(unplaced)
        if times > 0:
            samples = unplaced or snapshot.pods_of.get(owner.uid, ())
            if samples:
                yield owner.uid, structs.replace(samples[0], node=None), times
    for key, pods in sorted(waiting.items()):
        yield key, pods[0], len(pods)


def repels_own_class(sample: Pod, view: View) -> bool:
    """Return whether required anti-affinity by host name keeps such pods off each other's nodes."""
    terms = sample.spec.pod_affinity.anti_required if is_on(InterPodAffinity, view) else ()
    return any(term.topology_key == HOSTNAME and selects(term, sample.namespace, sample, view) for term in terms)


def has_countable_affinity(sample: Pod, view: View) -> bool:
    """Return whether the group's capacity can be counted by node despite its affinity to pods.

    Required affinity changes the feasible nodes with every placement, and anti-affinity to its own class over a key
    other than the host name restricts whole domains: neither can be counted by node.
    """
    if not is_on(InterPodAffinity, view):
        return True
    affinity = sample.spec.pod_affinity
    return not affinity.required and all(
        term.topology_key == HOSTNAME or not selects(term, sample.namespace, sample, view)
        for term in affinity.anti_required
    )


def count_places(sample: Pod, node: str, view: View) -> int:
    """Return how many such pods the scheduler, as it is configured, may still place on a node by its free capacity."""
    if not is_on(NodeResourcesFit, view):
        return _WITHOUT_BOUND
    requests = drop_ignored_resources(sample.spec.requests, view.profile)
    return count_fitting(requests, view.nodes.by_name[node], view.used(node))


def count_fitting(requests: Resources, node: Node, used: Usage) -> int:
    """Return how many pods with these requests fit into the free capacity of a node."""
    have = node.allocatable
    places = node.pods - used.pods
    for amount, free in (
        (requests.cpu, have.cpu - used.cpu),
        (requests.memory, have.memory - used.memory),
        (requests.ephemeral_storage, have.ephemeral_storage - used.ephemeral_storage),
    ):
        if amount > 0:
            places = min(places, free // amount)
    if requests.extended:
        capacities = dict(have.extended)
        for name, amount in requests.extended:
            places = min(places, (capacities.get(name, 0) - used.extended.get(name, 0)) // amount)
    return max(0, places)
