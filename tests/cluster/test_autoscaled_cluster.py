"""A real autoscaled cluster, three times as fast as in life: violated workloads are repaired although nothing rests.

Every 20 seconds a node joins and the least used one leaves, as the cluster-autoscaler removes it; every second node
joins the zone that is filled. Single pods are restarted, and a Deployment is scaled up and down all the time.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest

from tests.cluster.controller import USER, Controller, install, policy
from tests.control_plane.api import Api, ApiError, in_parallel, wait_until
from tests.control_plane.audit import Request
from tests.control_plane.layout import deployment, lay_out, node, nodes, pdb, spread
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.settling import have_been_ready, pod_ready

SETTLE = 60.0
EVERY = 20.0
"""Seconds from one node that joins, and one that leaves, to the next."""
LONGEST = 240.0
"""Seconds until all is repaired: a third of ten minutes, and `nodes.settle`, which is not three times as short."""
TIMES: Mapping[str, Any] = {
    "interval": "10s",
    "spread": {"for": "40s"},
    "eligibility": {"minAge": "100s"},
    "nodes": {"settle": "60s"},
}
"""A third of the default times, but for `nodes.settle`: within it three nodes join."""
TAINT = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}
FEWEST = 4
"""Nodes of each zone, at least."""
VIOLATED = ("web", "cart")
RECENT = timedelta(seconds=4)
"""All pods of a workload were Ready within this time before each eviction: others may restart one at any moment."""


def lay_out_shop(plane: ControlPlane) -> None:
    """Zone c came back for web; too many pods of cart are in zone a; api and search satisfy their constraints."""

    def constraints(app: str, *keys: str) -> list[dict[str, Any]]:
        return [spread(key, labels={"app": app}) for key in keys]

    six = ["a-0", "b-0", "c-0", "a-1", "b-1", "c-1"]
    lay_out(
        plane,
        [
            *nodes({"a": 5, "b": 5, "c": 4}),
            deployment(
                "web",
                {"a-0": 2, "a-1": 2, "a-2": 2, "b-0": 2, "b-1": 2, "b-2": 2},
                namespace="shop",
                topologySpreadConstraints=constraints("web", ZONE),
            ),
            deployment(
                "cart",
                ["a-0", "a-1", "a-2", "a-3", "b-3", "c-3"],
                namespace="shop",
                topologySpreadConstraints=constraints("cart", ZONE, HOSTNAME),
            ),
            deployment("api", six, namespace="search", topologySpreadConstraints=constraints("api", ZONE)),
            deployment(
                "index", six, namespace="search", topologySpreadConstraints=constraints("index", ZONE, HOSTNAME)
            ),
            pdb("web", {"app": "web"}, namespace="shop", max_unavailable=1),
            pdb("index", {"app": "index"}, namespace="search", max_unavailable=1),
        ],
    )


class Sample(NamedTuple):
    """What a look at the cluster shows."""

    at: datetime
    skew: Mapping[str, int]
    """The skew over zones of each violated workload."""
    whole: frozenset[str]
    """Those of which every pod is Ready."""


class Autoscaled:
    """What goes on in the cluster while the block lasts, and what it looks like meanwhile."""

    def __init__(self, api: Api, seed: int) -> None:
        self._api, self._random = api, Random(seed)
        self._ended = threading.Event()
        self._errors: list[Exception] = []
        self._born = {one["metadata"]["name"]: float("-inf") for one in api.list("/api/v1/nodes")}
        """When each node joined."""
        self.joined = self.left = self.restarted = 0
        self.samples: list[Sample] = []
        works = ((self._join, EVERY), (self._leave, EVERY), (self._restart_pod, EVERY), (self._breathe, 30.0))
        self._threads = [threading.Thread(target=self._repeat, args=work) for work in (*works, (self._sample, 0.2))]

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End; what went wrong in between is an error."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        assert self._errors == []

    def _repeat(self, work: Callable[[int], None], seconds: float) -> None:
        for number in count():
            try:
                work(number)
            except ApiError as error:
                if error.code not in {404, 409}:  # somebody else has changed or deleted it meanwhile
                    self._errors.append(error)
                    return
            if self._ended.wait(seconds):
                return

    def _join(self, number: int) -> None:
        zone = "cacb"[number % 4]
        name = f"{zone}-new-{number}"
        self._api.create(node(name, zone=zone))
        self._born[name] = time.monotonic()
        self.joined += 1

    def _leave(self, _: int) -> None:
        """Remove the least used node that is older than a minute, of a zone that has enough others."""
        there = {one["metadata"]["name"]: one for one in self._api.list("/api/v1/nodes")}
        zones = Counter(one["metadata"]["labels"][ZONE] for one in there.values())
        used = Counter(pod["spec"].get("nodeName") for pod in self._api.list("/api/v1/pods"))
        old = [name for name in sorted(there) if self._born[name] < time.monotonic() - 60]
        names = [name for name in old if zones[there[name]["metadata"]["labels"][ZONE]] > FEWEST]
        if not names:
            return
        self._random.shuffle(names)
        name = min(names, key=lambda name: used[name])
        path = f"/api/v1/nodes/{name}"
        self._api.patch(path, {"spec": {"taints": [*there[name]["spec"].get("taints", ()), TAINT]}})
        for _ in range(8):
            left = self._api.list("/api/v1/pods", fields=f"spec.nodeName={name}")
            in_parallel(lambda pod: self._api.evict(pod["metadata"]["namespace"], pod["metadata"]["name"]), left)
            if self._ended.wait(1.0):
                return
        self._api.delete(path)
        self.left += 1

    def _restart_pod(self, _: int) -> None:
        pod = self._random.choice(self._api.list("/api/v1/pods"))["metadata"]
        self._api.delete(f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}", missing_ok=True)
        self.restarted += 1

    def _breathe(self, number: int) -> None:
        path = "/apis/apps/v1/namespaces/search/deployments/api"
        self._api.patch(path, {"spec": {"replicas": (6, 9, 7, 8)[number % 4]}})

    def _sample(self, _: int) -> None:
        at = datetime.now(UTC)
        zones = {one["metadata"]["name"]: one["metadata"]["labels"][ZONE] for one in self._api.list("/api/v1/nodes")}
        skew, whole = {}, set()
        for app, replicas in zip(VIOLATED, (12, 6), strict=True):
            pods = self._api.list("/api/v1/namespaces/shop/pods", labels=f"app={app}")
            living = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
            counts = Counter(zones.get(pod["spec"].get("nodeName", "")) for pod in living)
            numbers = [counts[zone] for zone in "abc"]
            skew[app] = max(numbers) - min(numbers)
            if sum(map(pod_ready, living)) == replicas:
                whole.add(app)
        self.samples.append(Sample(at, skew, frozenset(whole)))

    def first_repaired(self, app: str) -> datetime | None:
        """Return when a workload was first seen within its bound with all its pods Ready."""
        return next((one.at for one in self.samples if app in one.whole and one.skew[app] <= 1), None)


def find_app(eviction: Request) -> str:
    """Return the Deployment of an evicted pod, by the pod's name."""
    return eviction.name.split("-")[0]


@pytest.mark.thorough
def test_violated_workloads_are_repaired(cluster: ControlPlane, tmp_path: Path) -> None:
    """Within the time, and never while another pod of the same workload is unavailable."""
    install(cluster, "base", "evict")
    lay_out_shop(cluster)
    wait_until(lambda: have_been_ready(cluster.api, SETTLE), what="the nodes to settle", timeout=2 * SETTLE)
    with (
        Autoscaled(cluster.api, seed=1) as autoscaled,
        Controller(cluster, tmp_path, policy("Evict", **TIMES)) as controller,
    ):
        controller.wait_for("cycle")
        began = datetime.now(UTC)
        wait_until(
            lambda: all(map(autoscaled.first_repaired, VIOLATED)),
            what="the repairs",
            timeout=LONGEST,
            interval=1.0,
        )
        assert controller.stop() == 0
    evictions = cluster.audit.evictions(user=USER, code=201)
    took = {app: (autoscaled.first_repaired(app) or began) - began for app in VIOLATED}
    print(
        f"\nrepaired after {', '.join(f'{seconds.total_seconds():.0f} s ({app})' for app, seconds in took.items())}; "
        f"{dict(Counter(map(find_app, evictions)))} evictions of ours; {autoscaled.joined} nodes joined, "
        f"{autoscaled.left} left, {autoscaled.restarted} pods were restarted"
    )
    assert evictions, "the churn has repaired it"
    assert autoscaled.joined >= 3
    assert autoscaled.left >= 3
    for app in VIOLATED:
        last = datetime.min.replace(tzinfo=UTC)
        for eviction in (one for one in evictions if find_app(one) == app):
            since = max(last, eviction.received - RECENT)
            recent = [one for one in autoscaled.samples if since < one.at <= eviction.received]
            assert any(app in one.whole for one in recent), f"{eviction.name} was evicted while others were missing"
            last = eviction.answered
