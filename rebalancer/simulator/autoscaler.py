"""An autoscaler: it creates nodes for pods that no node admits, and removes nodes that have been empty for a while.

All its nodes are alike and in some zones, as those of a Karpenter NodePool with one instance type. A pod gets a node in
the zone of its node selector. If the autoscaler cannot create the node (a limit, a zone without machines), the pod
stays pending.
"""

from collections.abc import Callable, Collection
from typing import Final

from msgspec import Struct

from rebalancer.model.labels import Labels
from rebalancer.model.nodes import HOSTNAME, ZONE, Node
from rebalancer.model.pods import Pod, Resources
from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling.place import place
from rebalancer.scheduling.view import View
from rebalancer.simulator.node_changes import NodeChanges
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.timings import Span

_GIBIBYTE: Final = 2**30
_CHECK: Final = 1.0
_EMPTY_CHECK: Final = 10.0


class Autoscaling(Struct, frozen=True, kw_only=True):
    """How an autoscaler behaves."""

    zones: tuple[str, ...]
    """The zones in which nodes are created."""
    cpu: int = 4_000
    """The size of a node, in thousandths of a core."""
    most: int = 20
    """The most nodes that the autoscaler has at a time."""
    creating: Span = Span(2.0, 60.0)
    """How long a new node takes to become Ready."""
    empty_for: float = 30.0
    """How many seconds a node must be empty before it is removed."""


class NodeAutoscaler:
    """An autoscaler that watches the pods of one cluster.

    `refuses` returns whether a zone has no machines for new nodes now.
    """

    def __init__(
        self,
        state: ClusterState,
        nodes: NodeChanges,
        rules: Autoscaling,
        refuses: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._state = state
        self._nodes = nodes
        self._rules = rules
        self.refuses = refuses
        self._created = 0
        self._coming: dict[str, Node] = {}
        self._mine: dict[str, float] = {}
        """The nodes that the autoscaler has created, with the last time at which each had a pod."""
        state.store.pods.listeners.append(self._pod_changed)
        state.event_queue.after(_EMPTY_CHECK, self._remove_empty)

    def _pod_changed(self, _: Pod | None, after: Pod | None) -> None:
        if after is not None and after.waiting:
            self._state.event_queue.after(_CHECK, self._provision, key="autoscaler")

    def _provision(self) -> None:
        """Create nodes for the pods that no node admits, not even a node that is being created."""
        waiting = [pod for pod in self._state.store.pods if pod.waiting]
        if not waiting:
            return
        left = self._place(waiting)
        for zone in self._zones_of(left):
            if len(self._mine) + len(self._coming) >= self._rules.most or self.refuses(zone):
                continue
            self._create(zone)
        self._state.event_queue.after(_CHECK, self._provision, key="autoscaler")

    def _place(self, waiting: Collection[Pod]) -> Collection[Pod]:
        snapshot = self._state.store.snapshot(self._state.event_queue.now)
        future = Snapshot(
            taken_at=snapshot.taken_at,
            pods=snapshot.pods,
            nodes=(*snapshot.nodes, *self._coming.values()),
            workloads=snapshot.workloads,
            namespaces=snapshot.namespaces,
        )
        return place(waiting, View(future)).pending

    def _zones_of(self, pods: Collection[Pod]) -> list[str]:
        """Return the zones in which the pods need a new node, if it is large enough for them.

        Each zone gets one node at a time.
        """
        wanted: dict[str, None] = {}
        for pod in pods:
            zone = pod.spec.node_affinity.selector.get(ZONE, self._rules.zones[0])
            if zone in self._rules.zones and pod.spec.requests.cpu <= self._rules.cpu:
                wanted[zone] = None
        return list(wanted)

    def _create(self, zone: str) -> None:
        self._created += 1
        name = f"auto-{zone}-{self._created}"
        node = Node(
            name=name,
            labels=Labels({HOSTNAME: name, ZONE: zone}),
            allocatable=Resources(cpu=self._rules.cpu, memory=64 * _GIBIBYTE, ephemeral_storage=100 * _GIBIBYTE),
            created=self._state.stamp,
        )
        self._coming[name] = node
        self._state.event_queue.after(self._rules.creating.draw(self._state.random), lambda: self._arrive(name))

    def _arrive(self, name: str) -> None:
        self._nodes.add(self._coming.pop(name))
        self._mine[name] = self._state.event_queue.now.timestamp()

    def _remove_empty(self) -> None:
        now = self._state.event_queue.now.timestamp()
        for name in list(self._mine):
            if self._state.store.nodes.get(name) is None:
                del self._mine[name]
            elif self._state.store.pods.on(name):
                self._mine[name] = now
            elif now - self._mine[name] >= self._rules.empty_for:
                del self._mine[name]
                self._nodes.remove(name)
        self._state.event_queue.after(_EMPTY_CHECK, self._remove_empty)
