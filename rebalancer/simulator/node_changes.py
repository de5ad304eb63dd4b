"""Changes of nodes by an operator or an outage."""

from msgspec import structs

from rebalancer.model.affinity import Taint
from rebalancer.model.nodes import Node
from rebalancer.scheduling.node_unschedulable import CORDONED
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.trace import TraceKind


class NodeChanges:
    """Adds, removes, restores, cordons, uncordons and taints nodes."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._removed: dict[str, Node] = {}

    def add(self, node: Node) -> None:
        """Add a new node that is Ready at once; ValueError if a node of that name exists."""
        if self._state.store.nodes.get(node.name) is not None:
            raise ValueError(f"node {node.name} already exists")
        now = self._state.stamp
        fresh = structs.replace(
            node,
            uid=self._state.uid(),
            created=now,
            ready=True,
            ready_since=now,
            unschedulable=False,
            taints=tuple(taint for taint in node.taints if taint != CORDONED),
        )
        self._removed.pop(node.name, None)
        self._state.note(TraceKind.NODE_ADDED, f"Node {node.name}")
        self._state.store.nodes.put(fresh)

    def remove(self, name: str) -> None:
        """Remove a node; garbage collection removes its pods later. ValueError if it does not exist."""
        node = self._named(name)
        self._removed[name] = node
        self._state.note(TraceKind.NODE_REMOVED, f"Node {name}")
        self._state.store.nodes.drop(name)

    def restore(self, name: str) -> None:
        """Add a removed node again; ValueError if no node of that name has been removed."""
        if name not in self._removed:
            raise ValueError(f"no node {name} was removed")
        self.add(self._removed[name])

    def cordon(self, name: str) -> None:
        """Cordon a node; ValueError if it does not exist."""
        node = self._named(name)
        if not node.unschedulable:
            self._state.note(TraceKind.NODE_CORDONED, f"Node {name}")
            taints = (*node.taints, CORDONED)
            self._state.store.nodes.put(structs.replace(node, unschedulable=True, taints=taints))

    def uncordon(self, name: str) -> None:
        """Uncordon a node; ValueError if it does not exist."""
        node = self._named(name)
        if node.unschedulable:
            self._state.note(TraceKind.NODE_UNCORDONED, f"Node {name}")
            taints = tuple(taint for taint in node.taints if taint != CORDONED)
            self._state.store.nodes.put(structs.replace(node, unschedulable=False, taints=taints))

    def taint(self, name: str, taint: Taint) -> None:
        """Add a taint to a node; ValueError if it does not exist."""
        node = self._named(name)
        if taint not in node.taints:
            self._state.note(TraceKind.NODE_TAINTED, f"Node {name}", taint.key)
            self._state.store.nodes.put(structs.replace(node, taints=(*node.taints, taint)))

    def remove_domain(self, key: str, value: str) -> None:
        """Remove every node that has a label; ValueError if no node has it."""
        names = [node.name for node in self._state.store.nodes if node.labels.get(key) == value]
        if not names:
            raise ValueError(f"no node has the label {key}={value}")
        for name in names:
            self.remove(name)

    def restore_domain(self, key: str, value: str) -> None:
        """Add every removed node that had a label again; ValueError if there is none."""
        names = [name for name, node in self._removed.items() if node.labels.get(key) == value]
        if not names:
            raise ValueError(f"no node with the label {key}={value} was removed")
        for name in names:
            self.restore(name)

    def _named(self, name: str) -> Node:
        node = self._state.store.nodes.get(name)
        if node is None:
            raise ValueError(f"node {name} not found")
        return node
