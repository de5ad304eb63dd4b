"""A small cluster to test the ports on, simulated or real, behind one interface."""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from rebalancer.adapters.kubernetes.cluster import KubernetesCluster
from rebalancer.adapters.kubernetes.configmaps import CONTROL, ControlMap, StatusMap
from rebalancer.adapters.kubernetes.lease import KubernetesLease
from rebalancer.adapters.kubernetes.listing import server_version
from rebalancer.adapters.kubernetes.transport import Transport, connect
from rebalancer.admission.pause import KEY, Pause
from rebalancer.controller.switches import watch_pauses
from rebalancer.model.snapshot import Snapshot
from rebalancer.ports import Cluster, Document, Lease
from rebalancer.simulator import ClusterBuilder, SimulatedCluster, SimulatedLease, Span, Timings
from tests.control_plane.accounts import ensure_namespace
from tests.control_plane.layout import deployment, lay_out, node, pdb, stateful_set
from tests.control_plane.plane import ControlPlane
from tests.control_plane.stages import GONE_AFTER

NAMESPACE = "rebalancer-system"
PATIENCE = 150.0
"""Seconds until something must have happened, real or simulated."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Nodes with so many cores by name, and one workload `web` in the namespace `shop` with pods of one core.

    `budgets` are `maxUnavailable` of disruption budgets by name; `stopping` is how long a pod takes to end, in seconds.
    """

    nodes: Mapping[str, int] = field(default_factory=lambda: {"a": 8, "b": 8})
    on: Mapping[str, int] = field(default_factory=lambda: {"a": 2, "b": 1})
    kind: str = "Deployment"
    budgets: Mapping[str, int] = field(default_factory=dict)
    stopping: float = 1.0

    @property
    def pods(self) -> int:
        """The number of replicas."""
        return sum(self.on.values())


class Bench(Protocol):
    """A cluster, and an operator who changes it."""

    def lay_out(self, scene: Scene) -> None:
        """Make it so, at rest."""

    @property
    def port(self) -> Cluster:
        """The port under test."""

    def snapshot(self) -> Snapshot:
        """Return what the port shows now."""

    def until(self, condition: Callable[[Snapshot], bool], what: str) -> Snapshot:
        """Let time pass until a snapshot meets a condition, and return it."""

    def scale(self, kind: str, replicas: int) -> None:
        """Scale the workload."""

    def remove_node(self, name: str) -> None:
        """Delete a node."""

    def pause(self, reason: str) -> None:
        """Write the kill switch."""

    def save_as_another(self, document: Document) -> None:
        """Store a document as another process."""

    def lease(self) -> Lease:
        """Return the Lease as one process sees it; each call is another process."""


class Simulated:
    """The bench in memory."""

    def __init__(self) -> None:
        self._cluster: SimulatedCluster
        self._lease = SimulatedLease()

    def lay_out(self, scene: Scene) -> None:
        """Build the snapshot."""
        blueprint = ClusterBuilder()
        for name, cores in scene.nodes.items():
            blueprint.node(name, cpu=cores * 1000, zone=name)
        add = blueprint.deployment if scene.kind == "Deployment" else blueprint.stateful_set
        add("web", on=scene.on, namespace="shop", cpu=1000)
        for name, unavailable in scene.budgets.items():
            blueprint.budget(name, max_unavailable=unavailable, app="web", namespace="shop")
        timings = Timings(stopping=Span(scene.stopping, scene.stopping), collecting=5)
        self._cluster = SimulatedCluster(blueprint.snapshot(), timings=timings)
        self._cluster.advance(5)

    @property
    def port(self) -> Cluster:
        """The simulated cluster itself."""
        return self._cluster

    def snapshot(self) -> Snapshot:
        """Return it at the simulated time."""
        return self._cluster.snapshot(self._cluster.now)

    def until(self, condition: Callable[[Snapshot], bool], what: str) -> Snapshot:
        """Advance the time in small steps."""
        for _ in range(int(PATIENCE / 0.05)):
            snapshot = self.snapshot()
            if condition(snapshot):
                return snapshot
            self._cluster.advance(0.05)
        raise AssertionError(f"waited in vain for: {what}")

    def scale(self, kind: str, replicas: int) -> None:
        self._cluster.scale("shop", kind, "web", replicas)

    def remove_node(self, name: str) -> None:
        self._cluster.nodes.remove(name)

    def pause(self, reason: str) -> None:
        """Set it."""
        self._cluster.pause = Pause(reason=reason)

    def save_as_another(self, document: Document) -> None:
        """Store it."""
        self._cluster.documents = {document.key: document.text}

    def lease(self) -> Lease:
        """Return the one Lease: it has no state of a process."""
        return self._lease


class Real:
    """The bench on a control plane."""

    def __init__(self, plane: ControlPlane, cleanup: contextlib.ExitStack) -> None:
        self._plane = plane
        self._cleanup = cleanup
        ensure_namespace(plane.api, NAMESPACE)
        self._cluster = KubernetesCluster(
            transport := self._connect(),
            namespace=NAMESPACE,
            instance="contract",
            version=server_version(transport),
            control=watch_pauses(transport, NAMESPACE, lambda _: None),
        )

    def _connect(self) -> Transport:
        transport = connect(kubeconfig=str(self._plane.kubeconfig()))
        self._cleanup.callback(transport.close)
        return transport

    def lay_out(self, scene: Scene) -> None:
        """Lay it out and begin to watch."""
        annotations = {GONE_AFTER: f"{scene.stopping:g}s"}
        build = deployment if scene.kind == "Deployment" else stateful_set
        web = build("web", dict(scene.on), namespace="shop", cpu="1", annotations=annotations)
        budgets = [
            pdb(name, {"app": "web"}, namespace="shop", max_unavailable=unavailable)
            for name, unavailable in scene.budgets.items()
        ]
        machines = [node(name, cpu=str(cores), zone=name) for name, cores in scene.nodes.items()]
        # Of several budgets for a pod the disruption controller updates one only, so that two never settle.
        lay_out(self._plane, [*machines, web, *budgets[:1]])
        self._plane.api.create_all(budgets[1:])
        self._cleanup.callback(self._cluster.stop)
        self._cluster.start()
        self.until(lambda snapshot: len(snapshot.pods) == scene.pods and not self._cluster.staleness(), "the watches")

    @property
    def port(self) -> Cluster:
        """The adapter under test."""
        return self._cluster

    def snapshot(self) -> Snapshot:
        """Return what the watches have received."""
        return self._cluster.snapshot(datetime.now(UTC))

    def until(self, condition: Callable[[Snapshot], bool], what: str) -> Snapshot:
        """Wait."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            snapshot = self.snapshot()
            if condition(snapshot):
                return snapshot
            time.sleep(0.02)
        raise AssertionError(f"waited in vain for: {what}")

    def scale(self, kind: str, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/shop/{kind.lower()}s/web"
        self._plane.api.patch(path, {"spec": {"replicas": replicas}})

    def remove_node(self, name: str) -> None:
        self._plane.api.delete(f"/api/v1/nodes/{name}")

    def pause(self, reason: str) -> None:
        """Write the ConfigMap, which the installation has, as `rebalancer pause` does."""
        metadata = {"name": CONTROL, "namespace": NAMESPACE}
        self._plane.api.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}])
        ControlMap(self._connect(), NAMESPACE).put(KEY, f"reason: {reason}\n")

    def save_as_another(self, document: Document) -> None:
        """Store it over a connection of its own."""
        other = StatusMap(self._connect(), NAMESPACE)
        other.load(document.key)
        assert not other.save((document,)).problem

    def lease(self) -> Lease:
        """Connect once more."""
        return KubernetesLease(self._connect(), namespace=NAMESPACE, timeout=10)
