"""Nodes that a domain has lost, and what they held, as the memory stores them: of what is gone no snapshot says it."""

from msgspec import Struct

from rebalancer.model.moments import Moment


class LostNode(Struct, frozen=True, gc=False, array_like=True, order=True):
    """A node that took pods and does no more, without an autoscaler's or an operator's mark on it.

    `at` is when it was lost, `pods` how many it held then, without those of DaemonSets and of the kubelet.
    """

    name: str
    at: Moment
    pods: int


class DomainLoss(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A domain that has lost nodes which are not back. `had` is how many of its nodes took pods before the first loss.

    `nodes` are those by name, as many as are stored; `more` is the number of others, which held `more_pods`.
    """

    key: str
    value: str
    had: int
    nodes: tuple[LostNode, ...]
    more: int = 0
    more_pods: int = 0

    @property
    def since(self) -> Moment:
        """When the first of them was lost."""
        return min(node.at for node in self.nodes)

    @property
    def until(self) -> Moment:
        """When the last of them was lost."""
        return max(node.at for node in self.nodes)

    @property
    def number(self) -> int:
        """How many nodes it has lost."""
        return len(self.nodes) + self.more

    @property
    def pods(self) -> int:
        """How many pods they held."""
        return sum(node.pods for node in self.nodes) + self.more_pods
