"""A second program that evicts beside the controller: it is named, waited for, and not for longer than ten minutes.

It evicts a pod of `web` every four seconds, where a replacement takes longer to start: the workload is never complete.
What it evicts is in the emptier zones, where the scheduler must place the replacement: the violation stays.
"""

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest

from tests.cluster.controller import USER, Controller, install, policy
from tests.control_plane.accounts import grant, user_name
from tests.control_plane.api import NOT_FOUND, Api, ApiError, wait_until
from tests.control_plane.audit import Request
from tests.control_plane.layout import Workload, deployment, lay_out, nodes, spread
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.control_plane.settling import pod_ready
from tests.control_plane.stages import GONE_AFTER, READY_AFTER

SPACE: Final = "shop"
PODS: Final = 8
OTHER: Final = "second/rebalancer"
EVERY: Final = 4.0
"""Seconds between two evictions of the other one."""
WAIT: Final = 600.0
"""Seconds for which the controller waits at most."""
RULES: Final = policy(
    "Evict", budgets={"maxUnavailable": "100%", "perWorkload": "100%", "perNode": 100, "slowStart": False}, groups=[]
)


def shop(name: str) -> Workload:
    """Return a Deployment that has six pods in zone a, and one each in b and c."""
    return deployment(
        name,
        [*(f"a-{number % 2}" for number in range(6)), "b-0", "c-0"],
        namespace=SPACE,
        annotations={READY_AFTER: "6s", GONE_AFTER: "2s"},
        cpu="10m",
        topologySpreadConstraints=[spread(labels={"app": name})],
    )


class Other:
    """Evicts a pod of `web` every four seconds, with an account and a field manager of its own."""

    def __init__(self, plane: ControlPlane) -> None:
        rules = [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "get"]},
            {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        ]
        self._api = plane.api_as(OTHER)
        grant(plane.api, OTHER, rules)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.evicted: list[str] = []
        self.managers: list[str] = []
        """The field managers of evicted pods that have the condition, or have made the request."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()
        self._api.close()

    def begin(self) -> None:
        """Begin to evict."""
        self._thread.start()

    def end(self) -> None:
        """Stop, at once."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            ready = [pod for pod in living(self._api, "web") if pod_ready(pod) and pod["spec"]["nodeName"][0] != "a"]
            if ready:
                self._evict(ready[0]["metadata"]["name"])
            self._ending.wait(EVERY)

    def _evict(self, name: str) -> None:
        path = f"/api/v1/namespaces/{SPACE}/pods/{name}"
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": SPACE, "name": name}}
        try:
            self._api.request("POST", f"{path}/eviction", eviction, parameters={"fieldManager": "second-rebalancer"})
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            return
        self.evicted.append(name)
        self.managers += managers_of_condition(self._api.get(path))


def managers_of_condition(pod: Manifest) -> list[str]:
    """Return who, by its managed fields, has evicted a pod that is being evicted."""
    conditions = {one["type"]: one for one in pod["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["reason"] == "EvictionByEvictionAPI"
    return [
        entry["manager"]
        for entry in pod["metadata"]["managedFields"]
        if "DisruptionTarget" in json.dumps(entry) or entry["manager"] == "second-rebalancer"
    ]


def living(api: Api, app: str) -> list[Manifest]:
    pods = api.list(f"/api/v1/namespaces/{SPACE}/pods", labels=f"app={app}")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def zones(api: Api, app: str) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "-")[0] for pod in living(api, app) if pod_ready(pod))


def events(api: Api) -> list[dict[str, Any]]:
    every = api.list(f"/apis/events.k8s.io/v1/namespaces/{SPACE}/events")
    return [event for event in every if event["reason"] == "EvictedByOthers"]


def granted_to(plane: ControlPlane, user: str, app: str) -> list[Request]:
    """Return the evictions of pods of a workload that were granted to a user, by the audit log."""
    granted = plane.audit.evictions(user=user, code=201)
    return [request for request in granted if request.name.startswith(f"{app}-")]


def told(controller: Controller) -> set[str]:
    """Return the metrics that name others."""
    return {name for name, value in controller.metrics().items() if "EvictedByOthers" in name and value}


def balanced(api: Api, app: str) -> bool:
    """Return whether all pods of a workload are Ready, and spread."""
    held = Counter(zones(api, app))
    return held.total() == PODS and max(held.values()) - min(held[zone] for zone in "abc") <= 1


@contextlib.contextmanager
def beside(plane: ControlPlane, folder: Path) -> Iterator[tuple[Controller, Other]]:
    """Run a controller and another one who evicts; it may evict itself only when it has seen the other one."""
    install(plane, "base", "evict")
    lay_out(plane, [*nodes({"a": 2, "b": 2, "c": 2}), shop("web"), shop("api")], timeout=120)
    with Controller(plane, folder, policy("Observe", groups=[])) as controller, Other(plane) as other:
        controller.wait_for("cycle")
        other.begin()
        wait_until(lambda: events(plane.api), what="the event", timeout=30)
        controller.policy_file.write_text(RULES)
        yield controller, other


def test_another_who_evicts_is_named_and_waited_for_until_it_stops(cluster: ControlPlane, tmp_path: Path) -> None:
    """Another workload is repaired meanwhile."""
    api = cluster.api
    with beside(cluster, tmp_path) as (controller, other):
        wait_until(lambda: balanced(api, "api"), what="the repair of the other workload", timeout=90)
        assert {name.partition("{")[0] for name in told(controller)} == {
            "rebalancer_findings",
            "rebalancer_refusals",
        }
        assert granted_to(cluster, USER, "web") == []
        (event,) = events(api)
        assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("Deployment", "web")
        assert event["note"].startswith(
            f"1 pod ({other.evicted[0]}) of shop/web (Deployment) was evicted by others since"
        )
        other.end()
        wait_until(lambda: balanced(api, "web"), what="the repair", timeout=60)
        assert granted_to(cluster, USER, "web")
        assert len(events(api)) == 1
    assert {request.name for request in granted_to(cluster, user_name(OTHER), "web")} == set(other.evicted)
    assert other.managers == [], "the API server says nowhere on the pod who has requested its eviction"


@pytest.mark.thorough
def test_another_who_never_stops_is_waited_for_ten_minutes(cluster: ControlPlane, tmp_path: Path) -> None:
    with beside(cluster, tmp_path):
        wait_until(lambda: granted_to(cluster, USER, "web"), what="an eviction", timeout=WAIT + 60)
    first, others = granted_to(cluster, USER, "web")[0], granted_to(cluster, user_name(OTHER), "web")
    assert WAIT - 5 <= (first.received - others[0].received).total_seconds() <= WAIT + 30
    assert len(others) > WAIT / EVERY / 2
