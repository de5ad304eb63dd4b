"""Drawn clusters side by side on the real control plane, one zone of each silenced, then deleted.

A silent zone: its nodes' Ready conditions are Unknown, so that the node controller taints them and evicts their pods
after their tolerationSeconds, one node after the other; their kubelets are silent, too, so that pods stay terminating.
A deleted zone: its Node objects are deleted one by one, each with its pods.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from rebalancer.adapters.kubernetes.listing import read_once
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.model.loss_phase import Phase
from rebalancer.model.nodes import ZONE
from rebalancer.model.pods import PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload as Owner
from rebalancer.scheduling.view import View
from tests.closed_loop.scenario import LABEL
from tests.closed_loop.trial import wait_at_rest
from tests.control_plane.api import TimedOutError, in_parallel, wait_until
from tests.control_plane.layout import Workload, deployment, lay_out, node, stateful_set
from tests.control_plane.manifests import IMAGE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.control_plane.settling import condition
from tests.control_plane.stages import GONE_AFTER, LOST

QUIET: Final = 15.0
"""A pod that no node admits is tried again after ten seconds at the latest when something has changed."""

PATIENCE: Final = 300.0


@dataclass(frozen=True)
class Laid:
    """A cluster in a namespace and on nodes of its own; `zone` is lost."""

    name: str
    snapshot: Snapshot
    zone: str

    @classmethod
    def draw(cls, name: str, snapshot: Snapshot, seed: int) -> "Laid":
        """Choose a zone with pods."""
        held = {snapshot.node[pod.node].labels[ZONE] for pod in snapshot.pods if pod.node is not None}
        return cls(name, snapshot, Random(seed).choice(sorted(held)))

    @property
    def nodes(self) -> Sequence[str]:
        """The names of the nodes that are lost, on the real server."""
        return [f"{self.name}-{one.name}" for one in self.snapshot.nodes if one.labels[ZONE] == self.zone]

    @property
    def wanted(self) -> Mapping[str, int]:
        """The replicas of each workload."""
        return {owner.name: owner.replicas for owner in self.owners}

    @property
    def owners(self) -> Sequence[Owner]:
        """Deployments and StatefulSets."""
        return [owner for owner in self.snapshot.workloads if owner.owner is None and owner.template is not None]

    def parts(self) -> Iterator[Manifest | Workload]:
        """Yield its nodes and its workloads."""
        for one in self.snapshot.nodes:
            yield node(
                f"{self.name}-{one.name}",
                zone=f"{self.name}-{one.labels[ZONE]}",
                cpu=f"{one.allocatable.cpu}m",
                memory=str(one.allocatable.memory),
                labels={LABEL: self.name},
            )
        for owner in self.owners:
            yield self._workload(owner)

    def _workload(self, owner: Owner) -> Workload:
        assert owner.template is not None
        pods = [pod for pod in self.snapshot.pods if pod.labels["app"] == owner.name]
        labels = {key: value for key, value in owner.template.labels.items() if key in {"app", "of"}}
        make = stateful_set if owner.kind == "StatefulSet" else deployment
        return make(
            f"{self.name}-{owner.name}",
            [f"{self.name}-{pod.node}" for pod in pods],
            namespace=self.name,
            labels=labels,
            replicas=owner.replicas,
            nodeSelector={LABEL: self.name},
            **_spec(owner.template.spec, Random(self.name + owner.name).randint(1, 3)),
        )

    def read(self, snapshot: Snapshot) -> View:
        """Return its part of what the server says."""
        nodes = tuple(one for one in snapshot.nodes if one.labels.get(LABEL) == self.name)
        pods = tuple(pod for pod in snapshot.pods if pod.namespace == self.name)
        workloads = tuple(owner for owner in snapshot.workloads if owner.namespace == self.name)
        return View(replace(snapshot, nodes=nodes, pods=pods, workloads=workloads))


def _spec(spec: PodSpec, seconds: int) -> dict[str, Any]:
    """Return the spec of pods as a manifest has it; they tolerate a silent node for some seconds."""
    container: dict[str, Any] = {
        "name": "app",
        "image": IMAGE,
        "resources": {"requests": {"cpu": f"{spec.requests.cpu}m", "memory": str(spec.requests.memory)}},
        "ports": [{"containerPort": port.port, "hostPort": port.port} for port in spec.host_ports],
    }
    spread = [
        {
            "topologyKey": one.topology_key,
            "maxSkew": one.max_skew,
            "whenUnsatisfiable": str(one.when_unsatisfiable),
            "nodeTaintsPolicy": str(one.node_taints_policy),
            "labelSelector": {"matchLabels": _labels(one.selector)},
            **({} if one.min_domains is None else {"minDomains": one.min_domains}),
        }
        for one in spec.spread
    ]
    anti = [
        {"topologyKey": one.topology_key, "labelSelector": {"matchLabels": _labels(one.selector)}}
        for one in spec.pod_affinity.anti_required
    ]
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key in ("unreachable", "not-ready")
    ]
    made: dict[str, Any] = {"containers": [container], "topologySpreadConstraints": spread, "tolerations": tolerations}
    if anti:
        made["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": anti}}
    if spec.priority or not spec.preempts:
        made["priorityClassName"] = _priority_class(spec.priority, spec.preempts)
    return made


def _labels(selector: Any) -> dict[str, str]:
    return {one.key: one.values[0] for one in selector.requirements}


def _priority_class(priority: int, preempts: bool) -> str:
    return f"of-{priority}-{'preempting' if preempts else 'waiting'}"


def _priority_classes() -> list[Manifest]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": _priority_class(priority, preempts)},
            "value": priority,
            "preemptionPolicy": "PreemptLowerPriority" if preempts else "Never",
        }
        for priority in (0, 5, 10)
        for preempts in (True, False)
    ]


Ready = Mapping[str, Mapping[str, int]]
"""How many pods of each workload are Ready outside the lost zone, by cluster."""


class LostZones:
    """The clusters, laid out."""

    def __init__(self, plane: ControlPlane, clusters: Sequence[Laid]) -> None:
        self.plane: Final = plane
        self.clusters: Final = clusters
        self._lost: Final = frozenset(name for one in clusters for name in one.nodes)
        parts = [part for one in clusters for part in one.parts()]
        lay_out(plane, [*_priority_classes(), *parts], settle=False, timeout=240)
        wait_at_rest(plane)
        snapshot = read_once(connect(kubeconfig=str(plane.kubeconfig())), datetime.now(UTC))
        self.views: Final = {one.name: one.read(snapshot) for one in clusters}

    def lose(self, phase: Phase) -> Ready:
        """Silence the zones, or delete them, and return what is left once nothing moves any more."""
        if phase is Phase.SILENT:
            self._silence()
        else:
            self._delete()
        self._wait_at_rest()
        return self._count()

    def _silence(self) -> None:
        api = self.plane.api
        there = [pod for pod in api.list("/api/v1/pods") if pod["spec"].get("nodeName") in self._lost]
        in_parallel(lambda pod: api.patch(_path(pod), {"metadata": {"annotations": {GONE_AFTER: "10h"}}}), there)
        for name in sorted(self._lost):
            api.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {LOST: ""}}})

        def is_evicted() -> bool:
            pods = [pod for pod in api.list("/api/v1/pods") if pod["spec"].get("nodeName") in self._lost]
            return all("deletionTimestamp" in pod["metadata"] for pod in pods)

        wait_until(is_evicted, what="the evictions from silent nodes", timeout=PATIENCE, interval=0.5)

    def _delete(self) -> None:
        api = self.plane.api
        for name in Random(len(self._lost)).sample(sorted(self._lost), len(self._lost)):
            api.delete(f"/api/v1/nodes/{name}")
            for pod in api.list("/api/v1/pods", fields=f"spec.nodeName={name}"):
                api.delete(_path(pod), grace_seconds=0, missing_ok=True)

    def _wait_at_rest(self) -> None:
        """Wait until nothing moves any more, but for pods that stay terminating on silent nodes."""
        deadline = time.monotonic() + PATIENCE
        seen, since = Counter[object](), time.monotonic()
        while time.monotonic() - since < QUIET:
            if time.monotonic() > deadline:
                raise TimedOutError(f"not at rest after {PATIENCE:g} s")
            time.sleep(0.5)
            pods = self.plane.api.list("/api/v1/pods")
            now = Counter[object](
                (pod["metadata"]["uid"], pod["spec"].get("nodeName"), condition(pod, "Ready"), _is_ending(pod))
                for pod in pods
            )
            if now != seen or any(self._moves(pod) for pod in pods):
                seen, since = now, time.monotonic()

    def _moves(self, pod: Manifest) -> bool:
        """Return whether a pod is about to be scheduled, to become Ready or to go."""
        on = pod["spec"].get("nodeName", "")
        if _is_ending(pod):
            return on not in self._lost
        return condition(pod, "Ready" if on else "PodScheduled") != ("True" if on else "False")

    def _count(self) -> Ready:
        ready = {one.name: Counter[str]() for one in self.clusters}
        for pod in self.plane.api.list("/api/v1/pods"):
            name = pod["metadata"]["namespace"]
            on = pod["spec"].get("nodeName")
            if (
                name in ready
                and on
                and on not in self._lost
                and condition(pod, "Ready") == "True"
                and not _is_ending(pod)
            ):
                ready[name][pod["metadata"]["labels"]["app"]] += 1
        return ready


def _is_ending(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _path(pod: Manifest) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
