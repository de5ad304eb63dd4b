"""Short episodes on a real control plane, several at a time, each in a namespace with nodes of its own."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import Any

from rebalancer.adapters.kubernetes.listing import read_once
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.model.snapshot import Snapshot
from tests.control_plane.credentials import SERVER_USERS
from tests.control_plane.layout import deployment, lay_out, node, pdb, replica_set, spread, stateful_set
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.settling import condition, wait_settled
from tests.control_plane.workloads import Workload
from tests.traces.changes import Trace, read_changes

_KINDS = {"deployment": deployment, "replicaset": replica_set, "statefulset": stateful_set}
_WATCHED = ("/api/v1/pods", "/api/v1/nodes", "/apis/apps/v1/replicasets", "/apis/apps/v1/statefulsets")
_LABEL = "episode"
_OWNERS = SERVER_USERS["kube-controller-manager"]


@dataclass
class Episode:
    """One seed: a workload, and what is done to it."""

    seed: int
    evicted: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.namespace = f"episode-{self.seed}"
        self.kind = self.random.choice(sorted(_KINDS))
        self.nodes = [f"{self.namespace}-{name}" for name in "abc"]
        self.replicas = self.random.randint(3, 5)
        self.name = f"web-{self.seed}"

    def parts(self) -> list[dict[str, Any] | Workload]:
        """Return the nodes, the workload, and in half of the episodes a budget of one."""
        random = self.random
        machines = [node(name, zone=name[-1], labels={_LABEL: str(self.seed)}) for name in self.nodes]
        keys = random.sample([ZONE, HOSTNAME], k=random.choice((0, 1, 2)))
        constraints = [spread(key, labels={"app": self.name}, soft=random.random() < 0.5) for key in keys]
        web = _KINDS[self.kind](
            self.name,
            [self.nodes[number % 3] for number in range(self.replicas)],
            namespace=self.namespace,
            nodeSelector={_LABEL: str(self.seed)},
            topologySpreadConstraints=constraints,
        )
        budgets = [pdb("web", {"app": self.name}, namespace=self.namespace, max_unavailable=1)]
        return [*machines, web, *(budgets if random.random() < 0.5 else [])]

    def act(self, plane: ControlPlane) -> None:
        """Do two or three things, with pauses in between."""
        for _ in range(self.random.randint(2, 3)):
            self.random.choice((self._evict, self._evict, self._delete, self._scale, self._cordon))(plane)
            time.sleep(self.random.choice((0, 0.1, 0.5, 1.0)))

    def _pod(self, plane: ControlPlane) -> dict[str, Any] | None:
        """Return one of the Ready pods, None where there is none."""
        pods = plane.api.list(f"/api/v1/namespaces/{self.namespace}/pods")
        running = [
            pod for pod in pods if "deletionTimestamp" not in pod["metadata"] and condition(pod, "Ready") == "True"
        ]
        return self.random.choice(sorted(running, key=lambda pod: str(pod["metadata"]["name"]))) if running else None

    def _evict(self, plane: ControlPlane) -> None:
        pod = self._pod(plane)
        if pod is None:
            return
        metadata = pod["metadata"]
        if plane.api.evict(self.namespace, metadata["name"], preconditions={"uid": metadata["uid"]}) == 201:
            self.evicted.add(metadata["uid"])

    def _delete(self, plane: ControlPlane) -> None:
        pod = self._pod(plane)
        if pod is None:
            return
        metadata = pod["metadata"]
        self.deleted.add(metadata["uid"])
        plane.api.delete(f"/api/v1/namespaces/{self.namespace}/pods/{metadata['name']}", missing_ok=True)

    def _scale(self, plane: ControlPlane) -> None:
        self.replicas = max(1, self.replicas + self.random.choice((-2, -1, 1, 2)))
        path = f"/apis/apps/v1/namespaces/{self.namespace}/{self.kind}s/{self.name}"
        plane.api.patch(path, {"spec": {"replicas": self.replicas}})

    def _cordon(self, plane: ControlPlane) -> None:
        plane.api.patch(f"/api/v1/nodes/{self.random.choice(self.nodes)}", {"spec": {"unschedulable": True}})

    def of(self, snapshot: Snapshot) -> Snapshot:
        """Return the episode's part of a snapshot."""
        return replace(
            snapshot,
            nodes=tuple(machine for machine in snapshot.nodes if machine.name in self.nodes),
            pods=tuple(pod for pod in snapshot.pods if pod.namespace == self.namespace),
            workloads=tuple(owner for owner in snapshot.workloads if owner.namespace == self.namespace),
            budgets=tuple(budget for budget in snapshot.budgets if budget.namespace == self.namespace),
        )

    def concerns(self, thing: dict[str, Any]) -> bool:
        """Say whether an object belongs to the episode."""
        metadata = thing["metadata"]
        return metadata.get("namespace") == self.namespace or metadata["name"] in self.nodes


def record(plane: ControlPlane, seeds: range) -> list[Trace]:
    """Lay out the episodes of these seeds, play them at the same time, and return their traces."""
    episodes = [Episode(seed) for seed in seeds]
    lay_out(plane, [part for episode in episodes for part in episode.parts()], timeout=300)
    since = plane.api.get("/api/v1/pods")["metadata"]["resourceVersion"]
    transport = connect(kubeconfig=str(plane.kubeconfig()))
    before = read_once(transport, datetime.now(UTC))
    transport.close()
    with ThreadPoolExecutor(max_workers=8) as threads:
        list(threads.map(lambda episode: episode.act(plane), episodes))
    wait_settled(plane, timeout=180, unschedulable=None)
    events = [event for path in _WATCHED for event in _history(plane, path, since)]
    by_kwok = _deleted_by_kwok_only(plane, events)
    traces = []
    for episode in episodes:
        own = episode.of(before)
        changes = read_changes([event for event in events if episode.concerns(event["object"])], own)
        deleted = frozenset(episode.deleted | (by_kwok - episode.evicted))
        traces.append(Trace(own, frozenset(episode.evicted), deleted, changes))
    return traces


def _deleted_by_kwok_only(plane: ControlPlane, events: list[dict[str, Any]]) -> frozenset[str]:
    """Return the UIDs of pods that no owner has deleted, but the one that plays their kubelet, and by mistake.

    KWOK deletes a pod that has terminated by its name, sometimes twice: the second request may meet the next pod of the
    name. A kubelet names the UID.
    """
    deletions = plane.audit.requests(verb="delete", resource="pods", where=lambda request: request.code == 200)
    by_owner = {(request.namespace, request.name) for request in deletions if request.user == _OWNERS}
    gone: dict[tuple[str, str], list[str]] = {}
    for event in events:
        metadata = event["object"]["metadata"]
        if event["object"]["kind"] == "Pod" and event["type"] == "DELETED":
            gone.setdefault((metadata["namespace"], metadata["name"]), []).append(metadata["uid"])
    return frozenset(uid for name, uids in gone.items() if name not in by_owner for uid in uids[1:])


def _history(plane: ControlPlane, path: str, since: str) -> list[dict[str, Any]]:
    """Return every watch event of a collection since a version: the server sends them at once."""
    lines = plane.api.stream(path, {"watch": "1", "resourceVersion": since, "timeoutSeconds": "2"})
    return [json.loads(line) for line in lines]
