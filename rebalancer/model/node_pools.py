"""Karpenter's NodePools: which nodes an autoscaler would create."""

from msgspec import Struct

from rebalancer.model.affinity import Taint
from rebalancer.model.labels import NO_LABELS, Labels, SelectorRequirement


class NodePool(Struct, frozen=True, gc=False, kw_only=True):
    """A NodePool: labels and taints of its future nodes, and what it requires of their other labels.

    `deleted` is set while it is being deleted: it creates no nodes any more.
    """

    name: str
    labels: Labels = NO_LABELS
    requirements: tuple[SelectorRequirement, ...] = ()
    taints: tuple[Taint, ...] = ()
    deleted: bool = False
