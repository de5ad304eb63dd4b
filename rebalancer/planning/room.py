"""How many more of a group's pods each node would take, as far as everything but the group's own spreading goes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, Resources
from rebalancer.scheduling.affinity_terms import selects
from rebalancer.scheduling.feasibility import static_feasible
from rebalancer.scheduling.spread_constraints import HOSTNAME
from rebalancer.scheduling.usage import Usage, used_by
from rebalancer.scheduling.view import View


class Rooms:
    """The room in one view, less what is spoken for.

    Nobody knows on which of its nodes a pod without a place will land: every node that it may land on is charged for
    it. That are waiting pods, pods that their owners have still to create, and the replacements of earlier groups of
    the same plan. What a group's own pods will take is counted by its own problem.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._used: dict[str, Usage] = {}
        self._known: dict[Resources, dict[str, int]] = {}
        self._coming: dict[str, tuple[frozenset[str], Pod, int]] = {}
        for owner, sample, times in _coming(view):
            nodes = static_feasible(sample, view)
            self._coming[owner] = (nodes, sample, times)
            self.charge(nodes, sample, times)

    def charge(self, nodes: Iterable[str], sample: Pod, times: int) -> None:
        """Reserve room for `times` such pods on each of the nodes."""
        for node in nodes:
            self._used[node] = used_by([(sample, times)], self._used.get(node) or self._view.used(node))

    def of(self, sample: Pod, own: Sequence[Pod], owners: Iterable[str] = ()) -> Mapping[str, int]:
        """Return for each node that would take one more such pod how many it would take; the others are absent.

        `own` are the group's pods, `owners` the UIDs of their owners. A pod that keeps its own kind off its node, by
        anti-affinity or a host port, finds room for one at the most, and for none where one of its own stands.
        """
        ours = [self._coming[owner] for owner in owners if owner in self._coming]
        if sample.spec.host_ports or keeps_apart(sample, self._view):
            state = self._view.without(own)
            feasible = static_feasible(sample, state, own)
            standing = {pod.node for pod in own}
            return {name: 1 for name in feasible if name not in standing and self._room(sample, name, ours) > 0}
        # Most groups share a few sizes of pods: room is worked out once for each size and node.
        known = self._known.setdefault(sample.spec.requests, {})
        found = {}
        for name in static_feasible(sample, self._view, own):
            if name in self._used:
                room = self._room(sample, name, ours)
            else:
                room = known[name] if name in known else known.setdefault(name, self._room(sample, name, ours))
            if room > 0:
                found[name] = room
        return found

    def _room(self, sample: Pod, name: str, ours: Sequence[tuple[frozenset[str], Pod, int]]) -> int:
        used = self._used.get(name) or self._view.used(name)
        back = [(pod, -times) for nodes, pod, times in ours if name in nodes]
        return _fitting(sample.spec.requests, self._view.nodes.by_name[name], used_by(back, used) if back else used)


def _coming(view: View) -> Iterator[tuple[str, Pod, int]]:
    """Yield the pods without a place: (UID of the owner or of the pod itself, one of them, how many)."""
    snapshot = view.snapshot
    waiting: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        if pod.waiting:
            waiting.setdefault(pod.owner.uid if pod.owner is not None else pod.uid, []).append(pod)
    for owner in snapshot.workloads:
        if owner.kind == "Deployment":
            continue
        pods = [pod for pod in snapshot.pods_of.get(owner.uid, ()) if not pod.terminating and not pod.finished]
        missing = owner.replicas - len(pods)
        samples = waiting.pop(owner.uid, None) or snapshot.pods_of.get(owner.uid, ())
        times = missing + sum(1 for pod in pods if pod.waiting)
        if times > 0 and samples:
            yield owner.uid, structs.replace(samples[0], node=None), times
    for key, pods in sorted(waiting.items()):
        yield key, pods[0], len(pods)


def keeps_apart(sample: Pod, view: View) -> bool:
    """Say whether required anti-affinity by host name keeps such pods off each other's nodes."""
    terms = sample.spec.pod_affinity.anti_required
    return any(term.topology_key == HOSTNAME and selects(term, sample.namespace, sample, view) for term in terms)


def foreseeable(sample: Pod, view: View) -> bool:
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
