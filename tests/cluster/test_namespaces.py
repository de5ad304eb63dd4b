"""What goes wrong in one namespace stays there: the others are repaired as ever."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.controller import ACCOUNT, NAMESPACE, USER, Controller, hide, install, policy, rebalancer
from tests.control_plane.api import Api, wait_until
from tests.control_plane.layout import Workload, deployment, lay_out, nodes, spread
from tests.control_plane.manifests import ZONE, namespace
from tests.control_plane.plane import ControlPlane

OTHER: Final = "unconcerned"
ALL_AT_ONCE: Final = {"perNode": 100, "perNamespace": 100, "perMinute": 1000, "parallel": 2, "slowStart": False}
"""Slow start would let few requests be sent; what they do is seen better of many."""


def skewed(name: str, space: str) -> Workload:
    """Return a Deployment of which one pod has to go to zone c."""
    spreads = [spread(ZONE, labels={"app": name})]
    return deployment(name, ["a-0", "a-1", "b-0", "b-1"], namespace=space, topologySpreadConstraints=spreads)


def lay_out_skewed(plane: ControlPlane, space: str, number: int) -> None:
    """Lay out Deployments in a namespace that each need one eviction."""
    workloads = [skewed(f"web-{index}", space) for index in range(number)]
    lay_out(plane, [*nodes({"a": 2, "b": 2, "c": 2}), *workloads], timeout=120)


def repaired(api: Api, space: str) -> int:
    """Count the Deployments that have a pod in zone c."""
    pods = [pod for pod in api.list(f"/api/v1/namespaces/{space}/pods") if "deletionTimestamp" not in pod["metadata"]]
    return len({pod["metadata"]["labels"]["app"] for pod in pods if pod["spec"].get("nodeName", "").startswith("c")})


def check_others_go_on(plane: ControlPlane, controller: Controller) -> None:
    """Check that a workload of another namespace that becomes violated is repaired at once: no breaker is open."""
    lay_out(plane, [skewed("late", OTHER)], settle=False)
    wait_until(lambda: repaired(plane.api, OTHER) == 1, what="the repair in another namespace", timeout=30)
    assert not [name for name, value in controller.metrics().items() if "breaker_open" in name and value]


@contextmanager
def broken_webhook(api: Api, space: str) -> Iterator[None]:
    """Let a webhook that nothing answers decide about the events of a namespace."""
    webhook: dict[str, Any] = {
        "name": "events.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [
            {
                "apiGroups": ["events.k8s.io"],
                "apiVersions": ["v1"],
                "resources": ["events"],
                "operations": ["CREATE", "UPDATE"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    api.create({**kind, "metadata": {"name": "events"}, "webhooks": [webhook]})
    try:
        yield
    finally:
        api.delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/events")


@pytest.mark.invariant("namespace-errors")
def test_a_webhook_that_refuses_the_events_of_a_namespace_opens_no_breaker(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Evictions work there: all twelve workloads are repaired. Before, 60 of 61 event requests opened the breaker."""
    install(cluster, "base", "evict")
    lay_out_skewed(cluster, "shop", 12)
    slow = policy("Evict", budgets={**ALL_AT_ONCE, "perMinute": 6})
    with broken_webhook(cluster.api, "shop"), Controller(cluster, tmp_path, slow) as controller:
        controller.wait_for("event not published", count=20)
        controller.policy_file.write_text(policy("Evict", budgets=ALL_AT_ONCE))
        wait_until(lambda: repaired(cluster.api, "shop") == 12, what="the repair of all twelve", timeout=60)
        check_others_go_on(cluster, controller)
    events = [request.code for request in cluster.audit.requests(user=USER, resource="events")]
    assert events.count(500) >= 20


@pytest.mark.invariant("namespace-errors")
def test_a_namespace_that_is_deleted_in_the_middle_of_a_repair_opens_no_breaker(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """What is refused there is gone, not an error, and is not tried again. Before, 98 such answers opened the breaker.

    The controller manager is stopped, so that the namespace and its pods stay for as long as the test looks at them.
    """
    install(cluster, "base", "evict")
    lay_out_skewed(cluster, "closing", 40)
    lay_out(cluster, [namespace(OTHER)])
    with Controller(cluster, tmp_path, policy("Evict", budgets=ALL_AT_ONCE)) as controller:
        controller.wait_for("eviction", count=3)
        with cluster.without("kube-controller-manager"):
            cluster.api.delete("/api/v1/namespaces/closing")
            cycles = len(controller.log("cycle"))
            controller.wait_for("cycle", count=cycles + 3)
            results = [line["result"] for line in controller.log("eviction")]
            assert set(results) == {"evicted", "gone"}
            assert results.count("gone") >= 5
            controller.wait_for("cycle", count=len(controller.log("cycle")) + 2)
            assert len(controller.log("eviction")) == len(results), "it is not tried again"
            assert controller.metrics()['rebalancer_refusals{reason="CannotCreate"}'] >= 1
        check_others_go_on(cluster, controller)
        assert not controller.log("event not published")
    sent = cluster.audit.evictions(user=USER)
    assert sum(eviction.code == 403 for eviction in sent) == results.count("gone")
    wait_until(lambda: cluster.api.find("/api/v1/namespaces/closing") is None, what="the end of it", timeout=60)


WORKLOADS: Final = 30
STATUS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status"


def limit_pods(api: Api, space: str, hard: int, used: int) -> None:
    """Allow so many pods in a namespace, and wait until the API server knows how many there are."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods", "namespace": space}}
    api.create({**quota, "spec": {"hard": {"pods": str(hard)}}})
    path = f"/api/v1/namespaces/{space}/resourcequotas/pods"
    wait_until(lambda: api.get(path)["status"].get("used") == {"pods": str(used)}, what="the quota's status")


def bereft(plane: ControlPlane, space: str) -> set[str]:
    """Return the Deployments of a namespace that lost a pod to an eviction."""
    evicted = [eviction for eviction in plane.audit.evictions(user=USER) if eviction.code == 201]
    return {eviction.name.rpartition("-")[0] for eviction in evicted if eviction.namespace == space}


def blocked(api: Api) -> list[dict[str, Any]]:
    """Return the namespaces in which nothing is evicted, by the stored status."""
    document = api.get(STATUS).get("data", {}).get("status.json", "{}")
    entries: list[dict[str, Any]] = json.loads(document).get("breaker", {}).get("namespaces", [])
    return entries


def blocking_events(api: Api, space: str) -> list[dict[str, Any]]:
    events = api.list(f"/apis/events.k8s.io/v1/namespaces/{space}/events")
    return [event for event in events if event["reason"] == "EvictionBlocked"]


@pytest.mark.invariant("not-created")
def test_a_namespace_whose_replacements_are_refused_stops(cluster: ControlPlane, tmp_path: Path) -> None:
    """At most 8 of its 30 workloads lose a pod, of before 30; others go on, and it does, too, once pods are created.

    Status, event and `explain` name a workload and quote the condition. A process that is started again holds it, too.
    """
    install(cluster, "base", "evict")
    hide(cluster, "resourcequotas")
    lay_out_skewed(cluster, "shop", WORKLOADS)
    limit_pods(cluster.api, "shop", hard=60, used=4 * WORKLOADS)
    slow = policy("Evict", interval="5s", budgets={**ALL_AT_ONCE, "perNamespace": 4})
    with Controller(cluster, tmp_path, slow) as controller:
        wait_until(lambda: blocked(cluster.api), what="the status to say so", timeout=60)
        controller.wait_for("cycle", count=len(controller.log("cycle")) + 4)
        check_others_go_on(cluster, controller)
        controller.stop()
    lost = bereft(cluster, "shop")
    assert 1 <= len(lost) <= 8
    events = blocking_events(cluster.api, "shop")
    assert len(events) == len(lost)
    assert all("exceeded quota: pods" in event["note"] and "series" not in event for event in events)
    (entry,) = blocked(cluster.api)
    assert (entry["namespace"], entry["workload"]["kind"]) == ("shop", "Deployment")
    assert "exceeded quota: pods" in entry["failure"]
    names = {f"web-{index}" for index in range(WORKLOADS)} - {name.rpartition("-")[0] for name in lost}
    # As the controller: who may read quotas would be told of this one beforehand.
    for name, conditions in ((min(names), 1), (entry["workload"]["name"], 2)):
        access = ("--kubeconfig", str(cluster.kubeconfig(ACCOUNT)), "--policy", str(tmp_path / "policy.yaml"))
        explained = rebalancer("explain", f"deployment/{name}", "-n", "shop", "-o", "json", *access)
        document = json.loads(explained.stdout)
        assert document["verdict"] == "Waits"
        evidence = {answer["evidence"] for answer in document["path"] if answer["answer"] == "CannotCreate"}
        assert len(evidence) == conditions, "its own condition, and that of its namespace"
        assert all("exceeded quota: pods" in one for one in evidence)
    again = tmp_path / "again"
    again.mkdir()
    with Controller(cluster, again, slow) as controller:
        controller.wait_for("cycle", count=3)
        assert bereft(cluster, "shop") == lost
        assert controller.log("cycle")[-1]["waiting_for"] == {"CannotCreate": WORKLOADS - len(lost)}
        assert len(blocking_events(cluster.api, "shop")) == len(lost)
        cluster.api.delete("/api/v1/namespaces/shop/resourcequotas/pods")
        wait_until(lambda: repaired(cluster.api, "shop") == WORKLOADS, what="the repair of all", timeout=180)
        wait_until(lambda: not blocked(cluster.api), what="the status to say nothing of it")
