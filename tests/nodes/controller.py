"""The controller that is installed on real nodes: its pods, its leader, what it evicts and what is told of it."""

import os
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from tests.cluster.controller import NAMESPACE, USER
from tests.cluster.test_pages import run
from tests.control_plane.api import Api, wait_until
from tests.control_plane.audit import Request
from tests.control_plane.layout import deployment, lay_out, spread
from tests.control_plane.manifests import ZONE
from tests.control_plane.resources import Manifest
from tests.control_plane.settling import pod_ready
from tests.nodes.images import PAUSE
from tests.nodes.machine import cgroup
from tests.nodes.real_nodes import RealNodes

SHOP: Final = "/api/v1/namespaces/shop/pods"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
LEASE_SECONDS: Final = 15 + 2 * 1.2 + 2
"""A Lease that is not renewed can be taken after 15 seconds; it is looked at every two or so, and then written."""


class ReadyWatch(threading.Thread):
    """How few pods are Ready at any moment, counted five times a second from the first on."""

    def __init__(self, count: Callable[[], int]) -> None:
        super().__init__(daemon=True)
        self._count = count
        self._fewest = count()
        self._error: Exception | None = None
        self._ended = threading.Event()
        self.start()

    def run(self) -> None:
        """Count."""
        try:
            while not self._ended.wait(0.2):
                self._fewest = min(self._fewest, self._count())
        except Exception as error:  # noqa: BLE001  # the test's own thread raises it
            self._error = error

    def end(self) -> int:
        """Return the fewest; raises what ended the counting before."""
        self._ended.set()
        self.join()
        if self._error is not None:
            raise self._error
        return self._fewest


class Installation:
    """The installed controller, and an administrator's shell beside it."""

    def __init__(self, nodes: RealNodes, variables: dict[str, str], top: Path) -> None:
        """Take the environment of the shell and the folder that it starts in."""
        self.nodes = nodes
        self.plane = nodes.plane
        self.api: Api = nodes.plane.api
        self.variables = variables
        self._top = top
        self._watches: dict[str, ReadyWatch] = {}

    def run(self, command: str) -> str:
        """Run a command as an administrator would, and return what it prints; it must succeed."""
        done = run(command, self._top, self.variables)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def pods(self) -> list[Manifest]:
        """Return the controller's pods that are not being deleted."""
        found = self.api.list(PODS, labels="app.kubernetes.io/name=rebalancer")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def holder(self) -> str:
        """Return who holds the Lease: a pod's name and what tells its processes apart; "" for nobody."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/rebalancer"
        return ((self.api.find(path) or {}).get("spec") or {}).get("holderIdentity") or ""

    def leader(self) -> Manifest:
        """Wait until a pod leads, and return it."""

        def leads() -> Manifest:
            name = self.holder().rpartition("_")[0]
            return next((pod for pod in self.pods() if pod["metadata"]["name"] == name and pod_ready(pod)), {})

        return wait_until(leads, what="a leader", timeout=60)

    def log(self, pod: Manifest) -> str:
        """Return the log of a pod's container as the kubelet gives it."""
        return self.run(f"kubectl logs -n {NAMESPACE} {pod['metadata']['name']}")

    def await_other_leader(self, before: str) -> float:
        """Wait until another process holds the Lease; return after how many seconds."""
        began = time.monotonic()
        wait_until(lambda: self.holder() not in {"", before}, what="another leader", timeout=90, interval=0.1)
        return time.monotonic() - began

    def evictions(self, app: str) -> list[Request]:
        """Return what the controller has had evicted of a workload in this test; no pod is evicted twice."""
        found = self.plane.audit.evictions(USER, code=201)
        of_app = [request for request in found if request.name.startswith(f"{app}-")]
        assert len({request.name for request in of_app}) == len(of_app)
        return of_app

    def warnings(self, namespace: str) -> list[str]:
        """Return the events of type Warning in a namespace."""
        events = self.api.list(f"/api/v1/namespaces/{namespace}/events")
        return [f"{event['reason']}: {event.get('message')}" for event in events if event["type"] == "Warning"]

    def skew(self, app: str, *, min_ready: int = 0, **container: Any) -> None:
        """Lay out six pods that have to be spread over the zones, three in a, three in b and none in c.

        Returns when five are Ready: from then on no fewer may be, and each moment is watched until `await_repair`.
        """
        pod = {key: container.pop(key) for key in ("terminationGracePeriodSeconds",) if key in container}
        resources = {"requests": {"cpu": "10m", "memory": "16Mi"}}
        first, second, _ = self.nodes.nodes
        workload = deployment(
            app,
            {first: 3, second: 3},
            namespace="shop",
            workload={"minReadySeconds": min_ready},
            topologySpreadConstraints=[spread(ZONE, labels={"app": app})],
            containers=[{"name": "app", "image": PAUSE, "resources": resources, **container}],
            **pod,
        )
        lay_out(self.plane, [workload], settle=False)
        wait_until(lambda: len(self.ready_pods(app)) >= 5, what=f"the pods of {app} to be Ready", timeout=60)
        self._watches[app] = ReadyWatch(lambda: len(self.ready_pods(app)))

    def remove(self, app: str) -> None:
        """Delete a workload, and wait until its pods are gone."""
        if watch := self._watches.pop(app, None):
            watch.end()
        self.api.delete(f"/apis/apps/v1/namespaces/shop/deployments/{app}", missing_ok=True)
        wait_until(lambda: not self.api.list(SHOP, labels=f"app={app}"), what=f"the end of {app}", timeout=90)

    def counts(self, app: str) -> list[int]:
        """Return how many Ready pods of a workload each node has, in the order of the nodes."""
        pods = self.ready_pods(app)
        return [sum(pod["spec"]["nodeName"] == node for pod in pods) for node in self.nodes.nodes]

    def ready_pods(self, app: str) -> list[Manifest]:
        """Return the pods of a workload that are Ready and are not being deleted."""
        pods = self.api.list(SHOP, labels=f"app={app}")
        return [pod for pod in pods if pod_ready(pod) and "deletionTimestamp" not in pod["metadata"]]

    def await_repair(self, app: str, *, timeout: float = 120) -> tuple[float, int]:
        """Wait until each node has two Ready pods of a workload; return after how many seconds, and the fewest.

        These are since `skew`; of a workload that somebody else has laid out, from now on.
        """
        began = time.monotonic()
        watch = self._watches.pop(app, None) or ReadyWatch(lambda: len(self.ready_pods(app)))
        try:
            wait_until(
                lambda: self.counts(app) == [2, 2, 2], what=f"the repair of {app}", timeout=timeout, interval=0.1
            )
        finally:
            fewest = watch.end()
        return time.monotonic() - began, fewest

    def install(self) -> None:
        """Bring the quick start's installation about, whatever was before, and wait until it runs."""
        self.run("kubectl create namespace shop --dry-run=client -o yaml | kubectl apply -f -")
        self.run("kubectl uncordon -l kubernetes.io/os=linux")
        self.run(f"kubectl label nodes -l zone-comes-later=true {ZONE}=c --overwrite")
        self.run("kubectl apply -k docs/examples/kind")
        self.run("kubectl set image -n rebalancer-system deployment/rebalancer rebalancer=rebalancer:0.1.0")
        self.run("kubectl rollout status deployment/rebalancer -n rebalancer-system --timeout=2m")
        self.leader()


def container_folder(controller: str, pod: Manifest) -> Path:
    """Return the cgroup of a pod's one container."""
    (status,) = pod["status"]["containerStatuses"]
    return cgroup(controller, pod["metadata"]["uid"], status["containerID"].partition("://")[2])


def process_of(pod: Manifest) -> int:
    """Return the process id of a pod's one container, as this machine counts."""
    return int((container_folder("memory", pod) / "cgroup.procs").read_text().split()[0])


def started_at(process: int) -> float:
    """Return when a process was started, in seconds since the epoch."""
    ticks = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


def logged_at(line: dict[str, Any]) -> float:
    """Return the time of a line of the log, in seconds since the epoch."""
    return datetime.fromisoformat(line["timestamp"]).timestamp()
