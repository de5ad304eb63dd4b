"""How many more of a group's pods each node would take, as far as everything but the group's own spreading goes."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec import structs

from rebalancer.assessment.controllers import members
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, Resources
from rebalancer.planning.scope.topology import DomainPath, Topology
from rebalancer.planning.single_class.placement import Leaf
from rebalancer.scheduling.affinity_terms import selects
from rebalancer.scheduling.feasibility import static_feasible
from rebalancer.scheduling.node_usage import Usage
from rebalancer.scheduling.population import NO_AFFINITY
from rebalancer.scheduling.spread_constraints import HOSTNAME
from rebalancer.scheduling.view import View


class NodeCapacity:
    """The nodes that would take one more pod of a kind, and how many they have room for, nothing being on its way.

    `room` is by node; a node that takes none is absent. Made once for all groups whose pods ask for the same.
    """

    def __init__(self, room: Mapping[str, int]) -> None:
        self.room = room
        self.nodes = frozenset(room)
        self._roomy: dict[int, frozenset[str]] = {}
        self._background: dict[tuple[int, int, int], Mapping[DomainPath, dict[Leaf, int]]] = {}

    @cached_property
    def _ordered(self) -> list[int]:
        return sorted(self.room.values())

    def usual(self) -> int:
        """Return the middle one of the nodes' rooms."""
        return self._ordered[len(self._ordered) // 2] if self._ordered else 0

    def least(self, enough: int) -> int:
        """Return the least room of the nodes that have room for so many; 0 where none has."""
        position = bisect_left(self._ordered, enough)
        return self._ordered[position] if position < len(self._ordered) else 0

    def slots(self, most: int) -> int:
        """Return how many of the nodes have room for at least `most`."""
        return len(self._ordered) - bisect_left(self._ordered, most)

    def roomy(self, least: int) -> frozenset[str]:
        """Return the nodes with room for at least so many."""
        found = self._roomy.get(least)
        if found is None:
            found = self._roomy[least] = frozenset(name for name, room in self.room.items() if room >= least)
        return found

    def background(self, ground: Topology, useful: int, taken: int) -> Mapping[DomainPath, dict[Leaf, int]]:
        """Return for each part of the ground its nodes as leaves without pods, if `taken` is gone from each one's room.

        Room above `useful` looks like `useful`, so that most nodes are alike.
        """
        key = (id(ground), useful, taken)
        found = self._background.get(key)
        if found is None:
            found = self._background[key] = {
                path: dict(Counter((0, 0, min(useful, max(0, self.room.get(name, 0) - taken)), 0) for name in members))
                for path, members in ground.members.items()
            }
        return found


class ReservedCapacity(NamedTuple):
    """What may be gone of the room of nodes, in pods: of every node, or of those that are named."""

    everywhere: int
    on: Mapping[str, int]

    def of(self, node: str) -> int:
        """Return what may be gone of a node's room."""
        return self.on.get(node, self.everywhere)


class CapacityIndex:
    """The room in one view, less what is spoken for.

    Nobody knows on which of its nodes a pod without a place will land: every node that it may land on is charged for
    it. That are waiting pods, pods that their owners have still to create, and the replacements of earlier groups of
    the same plan. What a group's own pods will take is counted by its own problem.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._charged: dict[frozenset[str], Counter[Resources]] = {}
        self._receptions: dict[Hashable, NodeCapacity] = {}
        self._quiet: dict[str, bool] = {}
        self._coming: dict[str, tuple[frozenset[str], Pod, int]] = {}
        for owner, sample, times in _coming(view):
            nodes = static_feasible(sample, view)
            self._coming[owner] = (nodes, sample, times)
            self.charge(nodes, sample, times)

    def charge(self, nodes: frozenset[str], sample: Pod, times: int) -> None:
        """Reserve room for `times` such pods on each of the nodes."""
        self._charged.setdefault(nodes, Counter())[sample.spec.requests] += times

    def of(self, sample: Pod, own: Sequence[Pod]) -> NodeCapacity:
        """Return what the nodes would take of such pods, before anything that is on its way.

        `own` are the group's pods. A pod that keeps its own kind off its node, by anti-affinity or a host port, finds
        room for one at the most, and for none where one of its own stands.
        """
        if sample.spec.host_ports or repels_own_class(sample, self._view):
            feasible = static_feasible(sample, self._view.without(own), own)
            standing = {pod.node for pod in own}
            room = {name: 1 for name in sorted(feasible) if name not in standing}
            return NodeCapacity({name: 1 for name in room if self._fitting(sample, name) > 0})
        if sample.spec.pod_affinity != NO_AFFINITY or sample.claims or not self._undisturbed(sample.namespace):
            return self._made(sample, own)
        spec = sample.spec
        affinity = spec.node_affinity
        key = (spec.node_name, spec.tolerations, affinity.selector, affinity.required, spec.requests)
        found = self._receptions.get(key)
        if found is None:
            found = self._receptions[key] = self._made(sample, own)
        return found

    def without_own(self, sample: Pod, own: Sequence[Pod]) -> NodeCapacity:
        """Return what the nodes would take of such pods if the group's own pods kept nobody away."""
        if sample.spec.pod_affinity == NO_AFFINITY and self._undisturbed(sample.namespace):
            return self.of(sample, own)
        return self._made(sample, own)

    def emptied(self, sample: Pod, own: Sequence[Pod]) -> Mapping[str, int]:
        """Return how many such pods each node would hold if the component's own pods were not there."""
        state = self._view.without(own)
        by_name = self._view.nodes.by_name
        return {
            name: _fitting(sample.spec.requests, by_name[name], state.used(name))
            for name in sorted(static_feasible(sample, state, own))
        }

    def taken(self, reception: NodeCapacity, sample: Pod, owners: Iterable[str] = ()) -> ReservedCapacity:
        """Return how many pods of this size what is on its way may take from each node at the most.

        `owners` are the UIDs of the group's own owners: what is on its way for these is not counted.
        """
        charged = self._charged
        ours = [self._coming[owner] for owner in owners if owner in self._coming]
        if ours:
            charged = {nodes: total.copy() for nodes, total in charged.items()}
            for nodes, pod, times in ours:
                charged[nodes][pod.spec.requests] -= times
        everywhere: Counter[Resources] = Counter()
        somewhere: list[tuple[frozenset[str], Counter[Resources]]] = []
        for nodes, total in charged.items():
            if nodes is reception.nodes or nodes >= reception.nodes:
                everywhere.update(total)
            elif not nodes.isdisjoint(reception.nodes):
                somewhere.append((nodes & reception.nodes, total))
        asked = sample.spec.requests
        return ReservedCapacity(_displaced(asked, everywhere), _by_node(asked, everywhere, somewhere))

    def _undisturbed(self, namespace: str) -> bool:
        """Say whether no pod's affinity terms can mean pods of a namespace."""
        found = self._quiet.get(namespace)
        if found is None:
            found = self._quiet[namespace] = not any(True for _ in self._view.affine_towards(namespace))
        return found

    def _made(self, sample: Pod, own: Sequence[Pod]) -> NodeCapacity:
        found = {name: self._fitting(sample, name) for name in sorted(static_feasible(sample, self._view, own))}
        return NodeCapacity({name: room for name, room in found.items() if room > 0})

    def _fitting(self, sample: Pod, name: str) -> int:
        return _fitting(sample.spec.requests, self._view.nodes.by_name[name], self._view.used(name))


def _by_node(
    asked: Resources,
    everywhere: Counter[Resources],
    somewhere: Sequence[tuple[frozenset[str], Counter[Resources]]],
) -> Mapping[str, int]:
    found: dict[str, Counter[Resources]] = {}
    for nodes, total in somewhere:
        for name in nodes:
            found.setdefault(name, everywhere.copy()).update(total)
    return {name: _displaced(asked, total) for name, total in found.items()}


def _displaced(asked: Resources, total: Mapping[Resources, int]) -> int:
    """Return how many pods with these requests the others may keep out of a node, all of them landing on it."""
    pods = cpu = memory = storage = 0
    extended: Counter[str] = Counter()
    for requests, times in total.items():
        pods += times
        cpu += times * requests.cpu
        memory += times * requests.memory
        storage += times * requests.ephemeral_storage
        for name, amount in requests.extended:
            extended[name] += times * amount
    most = pods
    for wanted, amount in ((asked.cpu, cpu), (asked.memory, memory), (asked.ephemeral_storage, storage)):
        if wanted > 0:
            most = max(most, -(-amount // wanted))
    for name, wanted in asked.extended:
        most = max(most, -(-extended[name] // wanted))
    return most


def _coming(view: View) -> Iterator[tuple[str, Pod, int]]:
    """Yield the pods without a place: (UID of the owner or of the pod itself, one of them, how many)."""
    snapshot = view.snapshot
    waiting: dict[str, list[Pod]] = {}
    for pod in snapshot.unplaced:
        waiting.setdefault(pod.owner.uid if pod.owner is not None else pod.uid, []).append(pod)
    living = {member.owner.uid: len(member.pods) for member in members(view) if member.owner is not None}
    for owner in snapshot.workloads:
        if owner.kind == "Deployment":
            continue
        unplaced = waiting.pop(owner.uid, None) or ()
        times = owner.replicas - living.get(owner.uid, 0) + len(unplaced)
        if times > 0:
            samples = unplaced or snapshot.pods_of.get(owner.uid, ())
            if samples:
                yield owner.uid, structs.replace(samples[0], node=None), times
    for key, pods in sorted(waiting.items()):
        yield key, pods[0], len(pods)


def repels_own_class(sample: Pod, view: View) -> bool:
    """Say whether required anti-affinity by host name keeps such pods off each other's nodes."""
    terms = sample.spec.pod_affinity.anti_required
    return any(term.topology_key == HOSTNAME and selects(term, sample.namespace, sample, view) for term in terms)


def has_countable_affinity(sample: Pod, view: View) -> bool:
    """Say whether the pod's affinity to pods leaves the group's room a matter of counting by node.

    Affinity moves the feasible nodes with every placement, and anti-affinity to its own kind over a key other than
    the host name binds whole domains: both need more than one class of pods.
    """
    affinity = sample.spec.pod_affinity
    return not affinity.required and all(
        term.topology_key == HOSTNAME or not selects(term, sample.namespace, sample, view)
        for term in affinity.anti_required
    )


def _fitting(requests: Resources, node: Node, used: Usage) -> int:
    """Return how many pods with these requests fit into what is left of a node."""
    have = node.allocatable
    room = node.pods - used.pods
    for asked, free in (
        (requests.cpu, have.cpu - used.cpu),
        (requests.memory, have.memory - used.memory),
        (requests.ephemeral_storage, have.ephemeral_storage - used.ephemeral_storage),
    ):
        if asked > 0:
            room = min(room, free // asked)
    if requests.extended:
        capacities = dict(have.extended)
        for name, asked in requests.extended:
            room = min(room, (capacities.get(name, 0) - used.extended.get(name, 0)) // asked)
    return max(0, room)
