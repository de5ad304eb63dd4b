"""How many more of a group's pods each node would take, as far as everything but the group's own spreading goes."""

from collections.abc import Iterable, Mapping, Sequence

from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, Resources
from rebalancer.scheduling.affinity_terms import selects
from rebalancer.scheduling.feasibility import static_feasible
from rebalancer.scheduling.spread_constraints import HOSTNAME
from rebalancer.scheduling.usage import Usage
from rebalancer.scheduling.view import View


class Claims:
    """Room that earlier groups of the same plan may still take, so that no two count on it.

    Nobody knows on which of its nodes a replacement lands: every node it may land on is charged for all of them.
    """

    def __init__(self) -> None:
        self._taken: dict[str, list[tuple[Resources, int]]] = {}

    def charge(self, nodes: Iterable[str], requests: Resources, times: int) -> None:
        """Reserve room for `times` pods on each of the nodes."""
        for node in nodes:
            self._taken.setdefault(node, []).append((requests, times))

    def on(self, node: str) -> Sequence[tuple[Resources, int]]:
        """Return what is reserved on a node: requests, and for how many pods."""
        return self._taken.get(node, ())


def rooms(sample: Pod, own: Sequence[Pod], view: View, claims: Claims) -> Mapping[str, int]:
    """Return for each node that would take one more such pod how many it would take; the others are absent.

    `own` are the group's pods. A pod that keeps its own kind off its node, by anti-affinity or a host port, finds room
    for one at the most, and for none where one of its own stands.
    """
    single = bool(sample.spec.host_ports) or keeps_apart(sample, view)
    state = view.without(own) if single else view
    found = {}
    for name in static_feasible(sample, state, own):
        node = view.nodes.by_name[name]
        room = _fitting(sample.spec.requests, node, state.used(name), claims.on(name))
        if room > 0:
            found[name] = min(room, 1) if single else room
    return found


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


def _fitting(requests: Resources, node: Node, used: Usage, claimed: Sequence[tuple[Resources, int]]) -> int:
    have = node.allocatable
    room = node.pods - used.pods - sum(times for _, times in claimed)
    for asked, capacity, taken, reserved in (
        (requests.cpu, have.cpu, used.cpu, sum(each.cpu * times for each, times in claimed)),
        (requests.memory, have.memory, used.memory, sum(each.memory * times for each, times in claimed)),
        (
            requests.ephemeral_storage,
            have.ephemeral_storage,
            used.ephemeral_storage,
            sum(each.ephemeral_storage * times for each, times in claimed),
        ),
    ):
        if asked > 0:
            room = min(room, (capacity - taken - reserved) // asked)
    if requests.extended:
        capacities = dict(have.extended)
        reserved_extended: dict[str, int] = {}
        for each, times in claimed:
            for name, amount in each.extended:
                reserved_extended[name] = reserved_extended.get(name, 0) + amount * times
        for name, asked in requests.extended:
            free = capacities.get(name, 0) - used.extended.get(name, 0) - reserved_extended.get(name, 0)
            room = min(room, free // asked)
    return max(0, room)
