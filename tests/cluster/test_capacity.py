"""Capacity first on a real API server: with a small autoscaler of our own; `test_karpenter.py` has the real one."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from rebalancer.adapters.kubernetes.placeholders import job_manifest
from rebalancer.model.affinity import NodeAffinity
from rebalancer.model.placeholders import Placeholder
from rebalancer.model.pods import NOTHING
from tests.cluster.controller import ACCOUNT, USER, Controller, install, policy
from tests.control_plane.api import Api, ApiError, wait_until
from tests.control_plane.layout import deployment, lay_out, node, nodes, pdb, pod, spread
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.controller.simulated import eager

SHOP = "/api/v1/namespaces/shop/pods"
PLACEHOLDERS = "/api/v1/namespaces/rebalancer-capacity/pods"
JOBS = "/apis/batch/v1/namespaces/rebalancer-capacity/jobs"
QUICK_LEASE = ("--lease-duration=4s", "--renew-deadline=3s", "--retry-period=1s")
QUICK = {"mode": "Request", "timeout": "30s", "settle": "1s"}


def capacity_policy(**capacity: Any) -> str:
    domains = {"domains": {ZONE: ["a", "b", "c"]}}
    return policy("Evict", topology=domains, capacity={**QUICK, **capacity})


def lay_out_shop(plane: ControlPlane) -> None:
    """Twelve pods in two zones of two nodes, of which each has capacity for more."""
    on = ["a-0", "a-1", "b-0", "b-1"] * 3
    constraint = spread(ZONE, labels={"app": "web"})
    lay_out(
        plane,
        [
            *nodes({"a": 2, "b": 2}, cpu="8"),
            deployment("web", on, namespace="shop", cpu="500m", topologySpreadConstraints=[constraint]),
            pdb("web", {"app": "web"}, namespace="shop", max_unavailable=1),
        ],
    )


def by_zone(api: Api) -> Counter[str]:
    """Count the pods by zone; "" for those without a node."""
    zones = {
        entry["metadata"]["name"]: entry["metadata"]["labels"].get(ZONE, "") for entry in api.list("/api/v1/nodes")
    }
    pods = [entry for entry in api.list(SHOP) if "deletionTimestamp" not in entry["metadata"]]
    return Counter(zones.get(entry["spec"].get("nodeName", ""), "") for entry in pods)


def is_pending(entry: Manifest) -> bool:
    conditions = entry["status"].get("conditions") or []
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)


def reasons(api: Api) -> set[str]:
    """Return the reasons of our events about the workload."""
    events = api.list("/apis/events.k8s.io/v1/namespaces/shop/events")
    return {entry["reason"] for entry in events if entry.get("reportingController") == "rebalancer.dev/rebalancer"}


def failed_scheduling(api: Api) -> list[str]:
    """Return what the scheduler said of pods of the workload that no node admitted, and when it said it last."""
    events = api.list("/apis/events.k8s.io/v1/namespaces/shop/events")
    return [
        f"{entry['regarding']['name']}: {entry['note']} {(entry.get('series') or {}).get('lastObservedTime', '')}"
        for entry in events
        if entry["reason"] == "FailedScheduling"
    ]


def nothing_left(api: Api) -> bool:
    return not api.list(PLACEHOLDERS) and not api.list(JOBS)


@contextlib.contextmanager
def autoscaler(api: Api, *, delay: float = 1.0, cpu: str = "8") -> Iterator[None]:
    """Create a node in zone c a while after a placeholder has found none, at most one."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            if any(is_pending(entry) for entry in api.list(PLACEHOLDERS)):
                ended.wait(delay)
                with contextlib.suppress(ApiError):
                    api.create(node("c-0", zone="c", cpu=cpu))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.invariant("capacity-first")
def test_a_zone_without_nodes_gets_them_before_anything_is_evicted(cluster: ControlPlane, tmp_path: Path) -> None:
    """Four evictions, the minimum; no pod that waits for a node, no placeholder left, no right that is missing."""
    install(cluster, "base", "evict", "capacity")
    lay_out_shop(cluster)
    api = cluster.api
    with Controller(cluster, tmp_path, capacity_policy()) as controller, autoscaler(api):
        wait_until(lambda: by_zone(api) == {"a": 4, "b": 4, "c": 4}, what="four pods in each zone", timeout=90)
        wait_until(lambda: nothing_left(api), what="the placeholders to go")
        wait_until(lambda: {"CapacityRequested", "CapacityReady", "MoveVerified"} <= reasons(api), what="the events")
        gauge = "rebalancer_capacity_placeholders"
        wait_until(lambda: controller.metrics()[gauge] == 0, what="the metric to follow")
        metrics = controller.metrics()
        assert controller.stop() == 0
    assert [eviction.code for eviction in cluster.audit.evictions(user=USER)] == [201] * 4
    assert not failed_scheduling(api)
    assert metrics['rebalancer_capacity_requests_total{result="ready"}'] == 1
    refused = [request for request in cluster.audit.requests(user=USER) if request.code in {403, 429}]
    assert not [request for request in refused if "nodepools" not in str(request)]


def test_without_an_autoscaler_what_was_requested_in_vain_is_released(cluster: ControlPlane, tmp_path: Path) -> None:
    """Nothing is evicted; the event says why, in the scheduler's words; the domain is left alone for a while.

    The timeout leaves the scheduler time for these words on a busy machine.
    """
    install(cluster, "base", "evict", "capacity")
    lay_out_shop(cluster)
    api = cluster.api
    with Controller(cluster, tmp_path, capacity_policy(timeout="15s")) as controller:
        wait_until(lambda: api.list(JOBS), what="the placeholders")
        wait_until(lambda: "CapacityFailed" in reasons(api), what="the request to fail", timeout=60)
        wait_until(lambda: nothing_left(api), what="the placeholders to go")
        metrics = controller.metrics()
        assert metrics['rebalancer_capacity_requests_total{result="timeout"}'] == 1
        assert metrics['rebalancer_refusals{reason="NoCapacity"}'] == 1
    (event,) = [
        entry
        for entry in api.list("/apis/events.k8s.io/v1/namespaces/shop/events")
        if entry["reason"] == "CapacityFailed"
    ]
    assert "0/4 nodes are available" in event["note"]
    assert not cluster.audit.evictions(user=USER)


def test_in_mode_observe_and_with_capacity_off_not_one_more_request_is_sent(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    install(cluster, "base", "evict", "capacity")
    lay_out_shop(cluster)
    for number, mode in enumerate(("Observe", "Off")):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Controller(cluster, folder, capacity_policy(mode=mode)) as controller:
            controller.wait_for("cycle", count=4)
            awaiting = controller.metrics()['rebalancer_refusals{reason="AwaitingCapacity"}']
            assert awaiting == (1 if mode == "Observe" else 0)
    assert not [request for request in cluster.audit.requests(user=USER) if "jobs" in str(request)]


def test_a_foreign_pod_that_could_take_the_capacity_holds_the_evictions(cluster: ControlPlane, tmp_path: Path) -> None:
    """A stranger as large as the node's free capacity waits for it: nothing of ours is pending, then or later."""
    install(cluster, "base", "evict", "capacity")
    lay_out_shop(cluster)
    api = cluster.api
    with Controller(cluster, tmp_path, capacity_policy(settle="5s")), autoscaler(api, cpu="2"):
        wait_until(lambda: api.find("/api/v1/nodes/c-0"), what="the node", timeout=60)
        # It preempts placeholders, since their priority is below any.
        api.create(pod("stranger", namespace="shop", labels={"app": "stranger"}, cpu="1500m", nodeSelector={ZONE: "c"}))
        wait_until(lambda: "CapacityFailed" in reasons(api), what="the request to fail", timeout=90)
        wait_until(lambda: nothing_left(api), what="the placeholders to go")
    assert not cluster.audit.evictions(user=USER)
    assert not [line for line in failed_scheduling(api) if line.startswith("web")]


def rarely(*moments: str) -> list[Any]:
    """Mark moments for the thorough run."""
    return [pytest.param(moment, marks=pytest.mark.thorough) for moment in moments]


@pytest.mark.parametrize("after", ["job-1", "delete", *rarely("save", "job-3", "ready", "eviction")])
def test_a_controller_that_never_comes_back_leaves_nothing(cluster: ControlPlane, tmp_path: Path, after: str) -> None:
    """Killed at any write of the request, its Jobs end at their deadline; nothing is evicted twice for one need."""
    install(cluster, "base", "evict", "capacity")
    lay_out_shop(cluster)
    api = cluster.api
    with Controller(cluster, tmp_path, capacity_policy(timeout="5s")) as controller, autoscaler(api):
        process = controller.process
        assert process is not None
        wait_until(lambda: _has_come(api, cluster, after), what=after, timeout=60, interval=0.01)
        process.kill()
        process.wait()
        started = time.monotonic()
        wait_until(lambda: nothing_left(api), what="the control plane to end the Jobs", timeout=60)
        assert time.monotonic() - started < 40
    assert len(cluster.audit.evictions(user=USER)) <= 4


@pytest.mark.invariant("capacity-first")
@pytest.mark.parametrize("after", ["job-3", *rarely("save", "job-1", "ready", "delete", "eviction")])
def test_killed_and_started_again_the_repair_takes_its_minimum(
    cluster: ControlPlane, tmp_path: Path, after: str
) -> None:
    """Whatever was written last: four evictions in all, no pod that waits for a node, no placeholder left."""
    install(cluster, "base", "evict", "capacity")
    lay_out_shop(cluster)
    api = cluster.api
    with autoscaler(api):
        for number in range(2):
            folder = tmp_path / str(number)
            folder.mkdir()
            with Controller(cluster, folder, capacity_policy(), *QUICK_LEASE) as controller:
                if number == 0:
                    wait_until(lambda: _has_come(api, cluster, after), what=after, timeout=60, interval=0.01)
                    assert controller.process is not None
                    controller.process.kill()
                    controller.wait(10)
                    continue
                wait_until(lambda: by_zone(api) == {"a": 4, "b": 4, "c": 4}, what="four pods in each zone", timeout=120)
                wait_until(lambda: nothing_left(api), what="the placeholders to go", timeout=60)
    assert [eviction.code for eviction in cluster.audit.evictions(user=USER)] == [201] * 4
    assert not [line for line in failed_scheduling(api) if line.startswith("web")]


def test_the_api_server_lets_the_controllers_account_create_nothing_but_placeholders(cluster: ControlPlane) -> None:
    """A Job that is no placeholder is refused there, and everywhere else any Job."""
    install(cluster, "base", "evict", "capacity")
    api, account = cluster.api, cluster.api_as(ACCOUNT)
    wait_until(lambda: api.find("/api/v1/namespaces/rebalancer-capacity/serviceaccounts/default"), what="the namespace")
    placeholder = Placeholder(name="web-1", token="web", requests=NOTHING, node_affinity=NodeAffinity())
    job = job_manifest(placeholder, eager().capacity)

    def refusal(*path: str, value: object) -> str:
        changed = deepcopy(dict(job))
        parent: Any = changed
        for step in path[:-1]:
            parent = parent[step]
        if value is None:
            del parent[path[-1]]
        else:
            parent[path[-1]] = value
        try:
            account.request("POST", JOBS, changed, parameters={"dryRun": "All"})
        except ApiError as error:
            return str(error)
        return ""

    # It takes a moment until the server applies a new policy.
    wait_until(lambda: refusal("spec", "backoffLimit", value=3), what="the policy to be in force", timeout=60)
    # Without any label it would get those of its template.
    assert "placeholder" in refusal("metadata", "labels", value={"app": "web"})
    assert "priorityClassName" in refusal("spec", "template", "spec", "priorityClassName", value=None)
    assert "label" in refusal("spec", "template", "metadata", "labels", value={"app": "web"})
    assert "activeDeadlineSeconds" in refusal("spec", "activeDeadlineSeconds", value=None)
    assert "backoffLimit" in refusal("spec", "backoffLimit", value=3)
    assert "ttlSecondsAfterFinished" in refusal("spec", "ttlSecondsAfterFinished", value=None)
    assert refusal("spec", "backoffLimit", value=0) == ""
    for path in ("/apis/batch/v1/namespaces/default/jobs", PLACEHOLDERS):
        with pytest.raises(ApiError) as caught:
            account.request("POST", path, {**job, "metadata": {"name": "web-1", "labels": job["metadata"]["labels"]}})
        assert caught.value.code == 403
    with pytest.raises(ApiError) as caught:
        account.delete(f"{PLACEHOLDERS}/web-1")
    assert caught.value.code == 403


def _has_come(api: Api, cluster: ControlPlane, after: str) -> bool:
    jobs = len(api.list(JOBS))
    match after:
        case "save":
            return "lastCycle" in str(api.find("/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-status"))
        case "job-1":
            return jobs >= 1
        case "job-3":
            return jobs >= 3
        case "ready":
            return "CapacityReady" in reasons(api)
        case "delete":
            return "CapacityReady" in reasons(api) and jobs < 4
        case _:
            return bool(cluster.audit.evictions(user=USER))
