"""Which nodes are interchangeable for the pods of a rollout; a search tries only one of each kind.

Nodes are alike if they have equal labels, except for their names, and if the other pods there mean the same to the new
pods: free capacity, and what their rules count. If a node has capacity for all pods of a rollout, its free amount does
not matter.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from rebalancer.model.nodes import HOSTNAME, Node
from rebalancer.model.pods import Pod
from rebalancer.scheduling.feasibility import admissible
from rebalancer.scheduling.node_usage import Usage
from rebalancer.scheduling.view import View


def number_alike(view: View, old: Iterable[Pod], sample: Pod, pods: int) -> Mapping[str, int]:
    """Return a number for each node, equal for interchangeable nodes.

    The rollout replaces the `old` pods by this many pods like `sample`.
    """
    numbers: dict[Hashable, int] = {}
    if sample.claims or sample.drivers:  # a volume is on one node and not on others
        return {name: number for number, name in enumerate(view.nodes.by_name)}
    admitted, own, others = admissible(sample, view), {pod.uid for pod in old}, view.without(old)
    found = {}
    for name, node in view.nodes.by_name.items():
        key: Hashable = name
        if node.labels.get(HOSTNAME, name) == name:
            labels = frozenset(one for one in node.labels.items() if one[0] != HOSTNAME)
            there = [pod for pod in view.pods_on(name) if pod.uid not in own]
            room = None if is_ample(node, view.used(name), sample, pods) else _measure(node, others.used(name))
            key = labels, node.taints, name in admitted, room, _find_counted(there, sample)
        found[name] = numbers.setdefault(key, len(numbers))
    return found


def is_ample(node: Node, used: Usage, sample: Pod, pods: int) -> bool:
    """Return whether this many new pods fit on a node beside all pods that are already there."""
    have, needs = node.allocatable, sample.requests
    amounts = [
        (node.pods, used.pods, 1),
        (have.cpu, used.cpu, needs.cpu),
        (have.memory, used.memory, needs.memory),
        (have.ephemeral_storage, used.ephemeral_storage, needs.ephemeral_storage),
        *((dict(have.extended).get(key, 0), used.extended.get(key, 0), many) for key, many in needs.extended),
    ]
    return all(there - taken >= pods * one for there, taken, one in amounts if one)


def _measure(node: Node, used: Usage) -> Hashable:
    amounts = used.pods, used.cpu, used.memory, used.ephemeral_storage, frozenset(used.extended.items())
    return node.allocatable, node.pods, amounts


def _find_counted(there: Sequence[Pod], sample: Pod) -> Hashable:
    """Return the rules whose counts matter: those of the new pods, and the anti-affinity of other pods against them."""
    affinity = sample.spec.pod_affinity
    terms = (*affinity.required, *affinity.anti_required)
    selectors = [one.selector for one in terms] + [one.selector for one in sample.spec.spread]
    ports = bool(sample.spec.host_ports)
    counts = Counter[Hashable]()
    for pod in there:
        counted = any(one is not None and one.matches(pod.labels) for one in selectors)
        if counted or ports or pod.spec.pod_affinity.anti_required:
            known = pod.namespace, pod.labels, pod.spec.pod_affinity.anti_required, pod.spec.host_ports, pod.terminating
            counts[known] += 1
    return frozenset(counts.items())
