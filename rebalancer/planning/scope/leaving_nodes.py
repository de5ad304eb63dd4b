"""Nodes that must not take replacements, even if these tolerate it: leaving, in maintenance, or out of order.

Such a node stays in the model, since its pods count and the scheduler may place pods on it that tolerate its taint. So
a step waits only if one of its replacements may be placed on such a node. A node that rejects a pod, as most do by a
taint, does not hold up the pod's step.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property

from rebalancer.model.facts import Refusal
from rebalancer.model.nodes import HOSTNAME, LEAVING_TAINTS, UNSERVICEABLE_TAINTS, Node
from rebalancer.model.reasons import Reason
from rebalancer.model.words import name_of_key
from rebalancer.scheduling.view import View


class NodeBeingDeleted(Refusal):
    """A node that may take a replacement is being deleted."""

    reason = Reason.NODE_LEAVING
    ends = "when node {self.node} is gone"
    node: str

    @property
    def of_node(self) -> str:
        """What is wrong with the node."""
        return "it is being deleted"

    def __str__(self) -> str:
        return _may_take(self.node, self.of_node)


class NodeToBeRemoved(Refusal):
    """A taint of a node that may take a replacement says that it leaves or is repaired; `what` has its meaning."""

    reason = Reason.NODE_LEAVING
    ends = "when node {self.node} or its taint {self.taint} is gone"
    node: str
    taint: str
    what: str

    @property
    def of_node(self) -> str:
        """What is wrong with the node."""
        return f"{self.what} (taint {self.taint})"

    def __str__(self) -> str:
        return _may_take(self.node, self.of_node)


class NodeDraining(Refusal):
    """A condition of a node that may take a replacement says that the node is being drained."""

    reason = Reason.NODE_LEAVING
    ends = "when node {self.node} is cordoned, or its condition {self.condition} is no longer True"
    node: str
    condition: str

    @property
    def of_node(self) -> str:
        """What is wrong with the node."""
        return f"its condition {self.condition} says that it is drained. Cordon the node, or clear the condition"

    def __str__(self) -> str:
        return _may_take(self.node, self.of_node)


class NodeCordoned(Refusal):
    """A node that may take a replacement is cordoned, and the pods tolerate the cordon."""

    reason = Reason.NODE_LEAVING
    ends = "when node {self.node} is uncordoned, or gone"
    node: str

    @property
    def of_node(self) -> str:
        """What is wrong with the node."""
        return "it is cordoned, which the pods tolerate"

    def __str__(self) -> str:
        return _may_take(self.node, self.of_node)


class DomainsCordoned(Refusal):
    """Every node of these domains is cordoned: a zone in maintenance."""

    reason = Reason.ZONE_IN_MAINTENANCE
    ends = "when nodes of {self.named} are uncordoned"
    key: str
    domains: tuple[str, ...]

    @property
    def named(self) -> str:
        """The domains with their key."""
        return name_of_key(self.key, self.domains)

    def __str__(self) -> str:
        return f"every node of {self.named} is cordoned; waiting until they are uncordoned"


class NodeOutOfOrder(Refusal):
    """A node that may take a replacement does not serve pods now: `what` is the trouble, `sign` shows it."""

    reason = Reason.NODE_SETTLING
    ends = "when node {self.node} no longer has its {self.sign}"
    node: str
    what: str
    sign: str

    @property
    def of_node(self) -> str:
        """What is wrong with the node."""
        return f"{self.what} ({self.sign}). Wait, or repair the node"

    def __str__(self) -> str:
        return _may_take(self.node, self.of_node)


NoTarget = NodeBeingDeleted | NodeToBeRemoved | NodeDraining | NodeCordoned | NodeOutOfOrder
"""Why a node must not take replacements, whatever they tolerate."""


def _may_take(node: str, of_node: str) -> str:
    return f"node {node} may take a replacement, and {of_node}"


_Landings = Callable[[frozenset[str]], Collection[str]]


class LeavingNodes:
    """The nodes of one view that must not take replacements, whatever these tolerate."""

    def __init__(self, view: View) -> None:
        self._nodes = view.nodes

    @cached_property
    def refusals(self) -> Mapping[str, NoTarget]:
        """Why each of these nodes must not take replacements, by name."""
        found = ((node.name, _refuse(node)) for node in self._nodes.by_name.values())
        return {name: refusal for name, refusal in sorted(found, key=lambda row: row[0]) if refusal is not None}

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.refusals)

    def refuse(self, keys: Collection[str], find_landings: _Landings) -> Refusal | None:
        """Return why a step waits; None if it need not.

        `keys` are the topology keys of the repaired violations; `find_landings` returns which of some nodes may take a
        replacement.
        """
        landings = find_landings(self._names) if self._names else ()
        for name in sorted(landings):
            refusal = self.refusals[name]
            return next(self._find_cordoned(name, keys), refusal) if isinstance(refusal, NodeCordoned) else refusal
        return None

    def _find_cordoned(self, node: str, keys: Collection[str]) -> Iterator[DomainsCordoned]:
        """Yield a node's domains in which every node is cordoned, for keys with several nodes a domain."""
        for key in sorted(set(keys) - {HOSTNAME}):
            value = self._nodes.by_name[node].labels.get(key)
            members = self._nodes.groups(key).get(value, frozenset()) if value is not None else frozenset()
            if value is not None and all(self._nodes.by_name[name].unschedulable for name in members):
                yield DomainsCordoned(key, (value,))


def _refuse(node: Node) -> NoTarget | None:
    if node.deleted is not None:
        return NodeBeingDeleted(node.name)
    if node.leaving:
        named = "the policy names its taint as that of a node that leaves (nodes.leavingTaints)"
        return NodeToBeRemoved(node.name, node.leaving, LEAVING_TAINTS.get(node.leaving, named))
    if node.draining:
        return NodeDraining(node.name, node.draining)
    if node.unschedulable:
        return NodeCordoned(node.name)
    for taint in node.taints:
        if taint.key in UNSERVICEABLE_TAINTS:
            return NodeOutOfOrder(node.name, UNSERVICEABLE_TAINTS[taint.key], f"taint {taint.key}")
    if node.problem:
        return NodeOutOfOrder(node.name, "it says that it has a lasting problem", f"condition {node.problem}")
    return None
