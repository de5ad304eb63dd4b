"""Placeholders: pods that do nothing but hold capacity, each of a Job of its own, and snapshots without them.

Each is a Job because the control plane ends a Job at its deadline even without the controller. The pods are outside of
every count: they belong to no workload, and are deleted before any pod is moved into their capacity.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from msgspec import Struct, structs

from rebalancer.model.affinity import NodeAffinity, Toleration
from rebalancer.model.moves import CapacityRequest, CapacityState
from rebalancer.model.pods import Pod, Resources
from rebalancer.model.snapshot import Snapshot

REQUEST_LABEL: Final = "rebalancer.dev/capacity-request"
"""On Jobs and their pods: the token of the request."""

PLACEHOLDER_LABEL: Final = "rebalancer.dev/placeholder"
"""On Jobs and their pods: the name of the Job."""

LIFETIME: Final = 3
"""A Job ends after this many times `capacity.timeout`: one for the nodes to come, two for the repair."""


class Placeholder(Struct, frozen=True, kw_only=True):
    """A placeholder to create: it requests what the future pod requests, and may go to the same nodes.

    At most `per_node` placeholders of a request may be on a node, 0: any number; the placeholders of its domain need
    `nodes` nodes.
    """

    name: str
    token: str
    requests: Resources
    node_affinity: NodeAffinity
    tolerations: tuple[Toleration, ...] = ()
    per_node: int = 0
    nodes: int = 0
    scheduler: str = "default-scheduler"


def placeholder_pods(snapshot: Snapshot, namespace: str) -> tuple[Pod, ...]:
    """Return the pods that hold capacity, terminating ones too."""
    return tuple([pod for pod in snapshot.pods_in.get(namespace, ()) if is_placeholder(pod, namespace)])


def is_placeholder(pod: Pod, namespace: str) -> bool:
    """Return whether a pod holds capacity; a label alone does not exclude pods of other namespaces from the counts."""
    return pod.namespace == namespace and PLACEHOLDER_LABEL in pod.labels


def placeholder_name(pod: Pod) -> str:
    """Return the name of a placeholder's Job."""
    return pod.labels[PLACEHOLDER_LABEL]


def without_placeholders(snapshot: Snapshot, namespace: str) -> Snapshot:
    """Return the snapshot without the pods that hold capacity."""
    gone = {pod.uid for pod in placeholder_pods(snapshot, namespace)}
    if not gone:
        return snapshot
    return replace(snapshot, pods=tuple([pod for pod in snapshot.pods if pod.uid not in gone]))


def settle_nodes(snapshot: Snapshot, requests: Iterable[CapacityRequest]) -> Snapshot:
    """Return the snapshot in which the nodes of ready requests count as settled: `capacity.settle` has passed."""
    settled = {name for request in requests if request.state is CapacityState.READY for name in request.nodes}
    if settled.isdisjoint(snapshot.node):
        return snapshot
    nodes = tuple(
        structs.replace(node, ready_since=None) if node.name in settled and node.ready else node
        for node in snapshot.nodes
    )
    return replace(snapshot, nodes=nodes)


def lifetime(timeout: timedelta) -> timedelta:
    """Return after which time the control plane ends a Job."""
    return LIFETIME * timeout
