"""Nodes."""

from rebalancer.decoding import resources, wire
from rebalancer.decoding.errors import one_of
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.metadata import annotations, created, labels
from rebalancer.model.affinity import Taint, TaintEffect
from rebalancer.model.nodes import Node


def node(found: wire.Node, intern: Interner) -> Node:
    """Turn a node into the model's."""
    metadata, status = found.metadata, found.status
    allocatable = resources.amounts(status.allocatable, "status.allocatable")
    pods = allocatable.pop("pods", 0)
    condition = next((each for each in status.conditions or () if each.type == "Ready"), None)
    ready = condition is not None and condition.status == "True"
    taints = tuple(
        Taint(each.key, one_of(TaintEffect, each.effect, f"spec.taints[{position}].effect"), each.value)
        for position, each in enumerate(found.spec.taints or ())
    )
    return Node(
        name=metadata.name,
        uid=metadata.uid,
        labels=labels(metadata.labels),
        annotations=annotations(metadata.annotations),
        unschedulable=found.spec.unschedulable,
        taints=intern(taints),
        allocatable=intern(resources.resources(allocatable)),
        pods=pods,
        images=intern(tuple((name, each.size_bytes) for each in status.images or () for name in each.names or ())),
        ready=ready,
        ready_since=condition.last_transition_time if condition is not None and ready else None,
        created=created(metadata),
        deleted=metadata.deletion_timestamp,
        resource_version=metadata.resource_version,
    )
