"""NodeResourcesFit: the pod's requests must fit into what is left of the node; emptier nodes score higher.

Source: `noderesources/fit.go`, `least_allocated.go`, `most_allocated.go`. A pod's effective request (init and sidecar
containers, pod-level resources, overhead, in-place resize) is computed when it is decoded: `model.requests`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, Resources
from rebalancer.scheduling.node_usage import Usage
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.profile import Profile, Strategy
from rebalancer.scheduling.verdicts import SUCCESS, Code, Verdict
from rebalancer.scheduling.view import View


class NodeResourcesFit(Filter):
    """Capacity for one more pod, and for each resource that it requests. Terminating pods still use resources."""

    name: ClassVar = "NodeResourcesFit"

    def __init__(self, pod: Pod, view: View) -> None:
        self._requests = drop_ignored_resources(pod.spec.requests, view.profile)
        self._view = view

    def verdict(self, node: str) -> Verdict:
        """Evaluate one node; the reasons name every resource that is short.

        A request that exceeds even the empty node makes the rejection unresolvable (1.36; earlier versions say
        Unschedulable, which only changes where preemption is tried).
        """
        target = self._view.nodes.by_name[node]
        reasons, code = [], Code.UNSCHEDULABLE
        for shortage in _find_shortages(self._requests, target, self._view.used(node)):
            reasons.append(shortage.reason)
            if shortage.exceeds_node:
                code = Code.UNRESOLVABLE
        return Verdict(code, tuple(reasons)) if reasons else SUCCESS

    def count_reasons(self, nodes: Iterable[str]) -> Mapping[str, int]:
        """Count the nodes by reasons; nodes that offer and use the same are evaluated once.

        Evaluating each node takes 3.3 times as long if a third of 5,000 nodes is full.
        """
        by_name, used_on = self._view.nodes.by_name, self._view.used
        counts: Counter[str] = Counter()
        numbers: dict[tuple[int, int, int], int] = {}
        first: dict[tuple[int, int, int], tuple[str, Usage]] = {}
        for name in nodes:
            node, used = by_name[name], used_on(name)
            alike = id(node.allocatable), node.pods, id(used)
            numbers[alike] = numbers.get(alike, 0) + 1
            first.setdefault(alike, (name, used))  # keeping a reference keeps the object's id valid
        for alike, number in numbers.items():
            for reason in self.verdict(first[alike][0]).reasons:
                counts[reason] += number
        return counts

    def admit(self, nodes: frozenset[str]) -> frozenset[str]:
        requests = self._requests
        return nodes & self._view.fitting_nodes(requests, lambda node, used: fits(requests, node, used))


def drop_ignored_resources(requests: Resources, profile: Profile) -> Resources:
    """Leave out extended resources that the profile tells the plugin to ignore."""
    if not profile.ignored_resources and not profile.ignored_resource_groups:
        return requests
    counted = tuple(
        (name, amount)
        for name, amount in requests.extended
        if name not in profile.ignored_resources and name.partition("/")[0] not in profile.ignored_resource_groups
    )
    return Resources(
        cpu=requests.cpu, memory=requests.memory, ephemeral_storage=requests.ephemeral_storage, extended=counted
    )


def fits(requests: Resources, node: Node, used: Usage) -> bool:
    """Say whether the node has capacity for one more pod with these requests."""
    have = node.allocatable
    if (
        used.pods >= node.pods
        or requests.cpu > max(0, have.cpu - used.cpu)
        or requests.memory > max(0, have.memory - used.memory)
        or requests.ephemeral_storage > max(0, have.ephemeral_storage - used.ephemeral_storage)
    ):
        return False
    return not requests.extended or next(_find_shortages(requests, node, used), None) is None


class Shortage(NamedTuple):
    """One resource that a node has too little of for a pod, and how much is missing."""

    resource: str
    missing: int
    exceeds_node: bool
    """Whether even the empty node would be too small."""

    @property
    def reason(self) -> str:
        """The scheduler's reason for this shortage."""
        return "Too many pods" if self.resource == "pods" else f"Insufficient {self.resource}"


def amount_of(requests: Resources, resource: str) -> int:
    """Return how much of a resource is requested."""
    match resource:
        case "cpu":
            return requests.cpu
        case "memory":
            return requests.memory
        case "ephemeral-storage":
            return requests.ephemeral_storage
        case _:
            return dict(requests.extended).get(resource, 0)


def find_shortages(pod: Pod, node: str, view: View) -> Sequence[Shortage]:
    """Return what a node lacks for a pod."""
    requests = drop_ignored_resources(pod.spec.requests, view.profile)
    return tuple(_find_shortages(requests, view.nodes.by_name[node], view.used(node)))


def _find_shortages(requests: Resources, node: Node, used: Usage) -> Iterator[Shortage]:
    """Yield the resources that do not fit, in order. A resource that is not requested is never short."""
    have = node.allocatable
    if used.pods + 1 > node.pods:
        yield Shortage("pods", used.pods + 1 - node.pods, exceeds_node=False)
    for name, requested, capacity, taken in (
        ("cpu", requests.cpu, have.cpu, used.cpu),
        ("memory", requests.memory, have.memory, used.memory),
        ("ephemeral-storage", requests.ephemeral_storage, have.ephemeral_storage, used.ephemeral_storage),
    ):
        if requested > 0 and requested > capacity - taken:
            yield Shortage(name, requested - (capacity - taken), exceeds_node=requested > capacity)
    if requests.extended:
        capacities = dict(have.extended)
        for name, requested in requests.extended:
            capacity = capacities.get(name, 0)
            left = capacity - used.extended.get(name, 0)
            if requested > left:
                yield Shortage(name, requested - left, exceeds_node=requested > capacity)


def score(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int]:
    """Return 0 to 100: the mean of the free share (or the used one) of each resource, truncated at each step."""
    strategy = view.profile.strategy
    return {
        node: _score_node(strategy, pod, view.nodes.by_name[node], view.used(node), most=view.profile.most_allocated)
        for node in nodes
    }


def _score_node(strategy: Strategy, pod: Pod, node: Node, used: Usage, *, most: bool) -> int:
    total = weights = 0
    for name, weight in strategy:
        capacity, taken, requested = get_scored_amounts(name, pod, node, used)
        if capacity == 0 or (requested == 0 and name not in {"cpu", "memory", "ephemeral-storage"}):
            continue
        weights += weight
        wanted = taken + requested
        if most:
            total += weight * (min(wanted, capacity) * 100 // capacity)
        elif wanted <= capacity:
            total += weight * ((capacity - wanted) * 100 // capacity)
    return total // weights if weights else 0


def get_scored_amounts(name: str, pod: Pod, node: Node, used: Usage) -> tuple[int, int, int]:
    """Return (allocatable, used, requested) of a resource as this plugin's score counts it."""
    match name:
        case "cpu":
            return node.allocatable.cpu, used.scored_cpu, pod.spec.scored[0]
        case "memory":
            return node.allocatable.memory, used.scored_memory, pod.spec.scored[1]
        case "ephemeral-storage":
            return node.allocatable.ephemeral_storage, used.ephemeral_storage, pod.spec.requests.ephemeral_storage
        case _:
            requested = dict(pod.spec.requests.extended).get(name, 0)
            return dict(node.allocatable.extended).get(name, 0), used.extended.get(name, 0), requested
