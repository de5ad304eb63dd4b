"""NodePools of Karpenter."""

from typing import Final

from rebalancer.decoding import wire
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.metadata import decode_labels, decode_requirement
from rebalancer.decoding.nodes import decode_taints
from rebalancer.model.labels import Operator
from rebalancer.model.node_pools import NodePool

_OPERATORS: Final = frozenset(map(str, Operator))
"""Newer releases of Karpenter have further operators on numbers; no domain depends on them."""


def decode_node_pool(source: wire.NodePool, _: Interner) -> NodePool:
    """Convert a NodePool to the model's; `startupTaints` are gone before a pod is placed."""
    template = source.spec.template
    spec = template.spec
    return NodePool(
        name=source.metadata.name,
        labels=decode_labels(template.metadata.labels if template.metadata else None),
        requirements=tuple(
            decode_requirement(expression, f"spec.template.spec.requirements[{position}]")
            for position, expression in enumerate(spec.requirements or ())
            if expression.operator in _OPERATORS
        ),
        taints=decode_taints(spec.taints, "spec.template.spec.taints"),
        deleted=source.metadata.deletion_timestamp is not None,
    )
