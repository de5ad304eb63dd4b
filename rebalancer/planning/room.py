"""How many more of a group's pods each node would take, as far as everything but the group's own spreading goes."""

from collections.abc import Iterable, Mapping, Sequence

from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, Resources
from rebalancer.scheduling.affinity_terms import selects
from rebalancer.scheduling.feasibility import static_feasible
from rebalancer.scheduling.spread_constraints import HOSTNAME
from rebalancer.scheduling.usage import Usage, used_by
from rebalancer.scheduling.view import View


class Rooms:
    """The room in one view, less what earlier groups of the same plan may still take of it.

    Nobody knows on which of its nodes a replacement lands: every node it may land on is charged for all of them.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._used: dict[str, Usage] = {}
        self._known: dict[Resources, dict[str, int]] = {}

    def charge(self, nodes: Iterable[str], sample: Pod, times: int) -> None:
        """Reserve room for `times` such pods on each of the nodes."""
        for node in nodes:
            self._used[node] = used_by([(sample, times)], self._used.get(node) or self._view.used(node))

    def of(self, sample: Pod, own: Sequence[Pod]) -> Mapping[str, int]:
        """Return for each node that would take one more such pod how many it would take; the others are absent.

        `own` are the group's pods. A pod that keeps its own kind off its node, by anti-affinity or a host port, finds
        room for one at the most, and for none where one of its own stands.
        """
        if sample.spec.host_ports or keeps_apart(sample, self._view):
            state = self._view.without(own)
            feasible = static_feasible(sample, state, own)
            standing = {pod.node for pod in own}
            return {name: 1 for name in feasible if name not in standing and self._room(sample, name) > 0}
        # Most groups share a few sizes of pods: room is worked out once for each size and node.
        known = self._known.setdefault(sample.spec.requests, {})
        found = {}
        for name in static_feasible(sample, self._view, own):
            if name in self._used:
                room = self._room(sample, name)
            else:
                room = known[name] if name in known else known.setdefault(name, self._room(sample, name))
            if room > 0:
                found[name] = room
        return found

    def _room(self, sample: Pod, name: str) -> int:
        used = self._used.get(name) or self._view.used(name)
        return _fitting(sample.spec.requests, self._view.nodes.by_name[name], used)


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
