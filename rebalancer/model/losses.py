"""Lost nodes of domains, and what they held, stored in the memory because no snapshot has them."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain

from msgspec import Struct

from rebalancer.model.moments import Moment
from rebalancer.model.nodes import Node


class LostNode(Struct, frozen=True, gc=False, array_like=True, order=True):
    """A node that took pods and no longer does, without an autoscaler's or an operator's mark on it.

    `at` is when it was lost, `pods` how many it held then, without pods of DaemonSets and of the kubelet.
    """

    name: str
    at: Moment
    pods: int


class DomainLoss(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A domain with lost nodes that are not back."""

    key: str
    value: str
    had: int
    """How many of its nodes took pods before the first loss."""
    nodes: tuple[LostNode, ...]
    """The first lost nodes."""
    others: tuple[LostNode, ...] = ()
    """Further lost nodes by `short_name`."""
    more: int = 0
    """The number of lost nodes that cannot be told apart."""
    more_pods: int = 0
    """How many pods those nodes held."""
    more_at: Moment | None = None
    """When the last of those nodes was lost."""

    @property
    def told(self) -> Iterator[LostNode]:
        """The lost nodes that are identified."""
        return chain(self.nodes, self.others)

    @property
    def since(self) -> Moment:
        """When the first of the lost nodes was lost."""
        return min(self._times)

    @property
    def until(self) -> Moment:
        """When the last of the lost nodes was lost."""
        return max(self._times)

    @property
    def _times(self) -> Iterator[Moment]:
        yield from (node.at for node in self.told)
        if self.more_at is not None:
            yield self.more_at

    @property
    def number(self) -> int:
        """How many nodes it has lost."""
        return len(self.nodes) + len(self.others) + self.more

    @property
    def whole(self) -> bool:
        """Whether the domain has lost every node that took pods."""
        return self.number >= self.had

    @property
    def pods(self) -> int:
        """How many pods the lost nodes held."""
        return sum(node.pods for node in self.told) + self.more_pods

    def find_told(self, nodes: Iterable[Node]) -> dict[str, Node]:
        """Return which of some nodes are or were lost, by the name that identifies them here."""
        found = {node.name: node for node in nodes}
        if self.others:
            found |= {short_name(node.name): node for node in found.values()}
        return {lost.name: found[lost.name] for lost in self.told if lost.name in found}


def short_name(node: str) -> str:
    """Return a short name for a node whose full name is not stored, since a zone may have hundreds."""
    return blake2b(node.encode(), digest_size=4).hexdigest()
