"""Nodes."""

import sys
from collections.abc import Sequence

from rebalancer.decoding import resources, wire
from rebalancer.decoding.errors import parse_choice
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.metadata import decode_annotations, decode_labels, get_creation_time
from rebalancer.model.affinity import Taint, TaintEffect
from rebalancer.model.nodes import Node


def decode_node(source: wire.Node, intern: Interner) -> Node:
    """Convert a node to the model's."""
    metadata, status = source.metadata, source.status
    allocatable = resources.decode_amounts(status.allocatable, "status.allocatable")
    pods = allocatable.pop("pods", 0)
    condition = next((condition for condition in status.conditions or () if condition.type == "Ready"), None)
    ready = condition is not None and condition.status == "True"
    return Node(
        name=sys.intern(metadata.name),  # as the pods' `node`: look-ups by name compare no text, then
        uid=metadata.uid,
        labels=decode_labels(metadata.labels),
        annotations=decode_annotations(metadata.annotations),
        unschedulable=source.spec.unschedulable,
        taints=intern(decode_taints(source.spec.taints, "spec.taints")),
        allocatable=intern(resources.make_resources(allocatable)),
        pods=pods,
        images=intern(tuple((name, image.size_bytes) for image in status.images or () for name in image.names or ())),
        ready=ready,
        ready_since=condition.last_transition_time if condition is not None and ready else None,
        created=get_creation_time(metadata),
        deleted=metadata.deletion_timestamp,
    )


def decode_taints(source: Sequence[wire.Taint] | None, field: str) -> tuple[Taint, ...]:
    """Convert taints to the model's."""
    return tuple(
        Taint(taint.key, parse_choice(TaintEffect, taint.effect, f"{field}[{position}].effect"), taint.value)
        for position, taint in enumerate(source or ())
    )
