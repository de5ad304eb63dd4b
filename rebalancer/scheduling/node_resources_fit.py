"""NodeResourcesFit: the pod's requests must fit into what is left of the node; emptier nodes score higher.

Source: `noderesources/fit.go`, `least_allocated.go`, `most_allocated.go`. A pod's effective request (init and sidecar
containers, pod-level resources, overhead, in-place resize) is worked out when it is decoded: docs/semantics.md,
"Requests".
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, Resources
from rebalancer.scheduling.node_usage import Usage
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.profile import Profile, Strategy
from rebalancer.scheduling.verdicts import SUCCESS, Code, Verdict
from rebalancer.scheduling.view import View


class NodeResourcesFit(Filter):
    """Room for one more pod, and for each resource that it asks for. Terminating pods still hold theirs."""

    name: ClassVar = "NodeResourcesFit"

    def __init__(self, pod: Pod, view: View) -> None:
        """Prepare for a pod."""
        self._requests = _checked(pod.spec.requests, view.profile)
        self._view = view

    def verdict(self, node: str) -> Verdict:
        """Judge one node; all that is short is named.

        What exceeds even the empty node makes the rejection unresolvable (1.36; earlier ones say Unschedulable, which
        changes nothing but where preemption is tried).
        """
        target = self._view.nodes.by_name[node]
        reasons, code = [], Code.UNSCHEDULABLE
        for shortage in _shortages(self._requests, target, self._view.used(node)):
            reasons.append(shortage.reason)
            if shortage.exceeds_node:
                code = Code.UNRESOLVABLE
        return Verdict(code, tuple(reasons)) if reasons else SUCCESS

    def admitted(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return those of the nodes that pass."""
        requests = self._requests
        return nodes & self._view.with_room(requests, lambda node, used: fits(requests, node, used))


def _checked(requests: Resources, profile: Profile) -> Resources:
    """Leave out extended resources that the profile tells the plugin to ignore."""
    if not profile.ignored_resources and not profile.ignored_resource_groups:
        return requests
    kept = tuple(
        (name, amount)
        for name, amount in requests.extended
        if name not in profile.ignored_resources and name.partition("/")[0] not in profile.ignored_resource_groups
    )
    return Resources(
        cpu=requests.cpu, memory=requests.memory, ephemeral_storage=requests.ephemeral_storage, extended=kept
    )


def fits(requests: Resources, node: Node, used: Usage) -> bool:
    """Say whether one more pod with these requests has room."""
    return next(_shortages(requests, node, used), None) is None


class Shortage(NamedTuple):
    """One resource that a pod does not find on a node."""

    reason: str
    exceeds_node: bool
    """Whether even the empty node would be too small."""


def _shortages(requests: Resources, node: Node, used: Usage) -> Iterator[Shortage]:
    """Yield what does not fit, in the scheduler's order. What is not asked for is never short."""
    have = node.allocatable
    if used.pods + 1 > node.pods:
        yield Shortage("Too many pods", exceeds_node=False)
    for name, asked, capacity, taken in (
        ("cpu", requests.cpu, have.cpu, used.cpu),
        ("memory", requests.memory, have.memory, used.memory),
        ("ephemeral-storage", requests.ephemeral_storage, have.ephemeral_storage, used.ephemeral_storage),
    ):
        if asked > 0 and asked > capacity - taken:
            yield Shortage(f"Insufficient {name}", exceeds_node=asked > capacity)
    if requests.extended:
        capacities = dict(have.extended)
        for name, asked in requests.extended:
            capacity = capacities.get(name, 0)
            if asked > capacity - used.extended.get(name, 0):
                yield Shortage(f"Insufficient {name}", exceeds_node=asked > capacity)


def score(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int]:
    """Return 0 to 100: the mean of the free share (or the used one) of each resource, truncated at each step."""
    strategy = view.profile.strategy
    return {
        node: _score(strategy, pod, view.nodes.by_name[node], view.used(node), most=view.profile.most_allocated)
        for node in nodes
    }


def _score(strategy: Strategy, pod: Pod, node: Node, used: Usage, *, most: bool) -> int:
    total = weights = 0
    for name, weight in strategy:
        capacity, taken, asked = scored_amounts(name, pod, node, used)
        if capacity == 0 or (asked == 0 and name not in {"cpu", "memory", "ephemeral-storage"}):
            continue
        weights += weight
        wanted = taken + asked
        if most:
            total += weight * (min(wanted, capacity) * 100 // capacity)
        elif wanted <= capacity:
            total += weight * ((capacity - wanted) * 100 // capacity)
    return total // weights if weights else 0


def scored_amounts(name: str, pod: Pod, node: Node, used: Usage) -> tuple[int, int, int]:
    """Return (allocatable, taken, asked for) of a resource as this plugin's score counts it."""
    match name:
        case "cpu":
            return node.allocatable.cpu, used.scored_cpu, pod.spec.scored[0]
        case "memory":
            return node.allocatable.memory, used.scored_memory, pod.spec.scored[1]
        case "ephemeral-storage":
            return node.allocatable.ephemeral_storage, used.ephemeral_storage, pod.spec.requests.ephemeral_storage
        case _:
            asked = dict(pod.spec.requests.extended).get(name, 0)
            return dict(node.allocatable.extended).get(name, 0), used.extended.get(name, 0), asked
