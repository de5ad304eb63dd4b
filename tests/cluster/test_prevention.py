"""Prevention on a real control plane: scale-downs stay spread, and nothing but deletion costs can be or is written."""

import signal
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.controller import ACCOUNT, NAMESPACE, USER, Controller, install, manifests, policy
from tests.cluster.prevention import living, status, wait_ordered, wait_restricted
from tests.cluster.scale_downs import PLAIN, STEERED, Result, draw_cases, measure, run_cases
from tests.control_plane.api import Api, ApiError, wait_until
from tests.control_plane.audit import Mark, Request
from tests.control_plane.layout import deployment, lay_out, nodes, spread, wait_settled
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.plane import ControlPlane

COST, MARKER = "controller.kubernetes.io/pod-deletion-cost", "rebalancer.dev/deletion-cost"
ZONES: Final = {"a": 4, "b": 4, "c": 4}
CONTROL = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-control"
QUICK_LEASE: Final = ("--lease-duration=4s", "--renew-deadline=3s", "--retry-period=1s")
"""The Lease of a killed process runs out soon."""

WEB = "/apis/apps/v1/namespaces/shop/deployments/web"


def steering(mode: str = "Steer", **changes: Any) -> str:
    rules = {"scaleDown": mode, "perMinute": 6000, **changes}
    return policy("Observe", interval="1s", prevention=rules)


def lay_out_web(plane: ControlPlane, replicas: int, **fields: Any) -> None:
    """Twelve nodes in three zones, and a Deployment whose pods the real scheduler places."""
    labels = {"app": "web"}
    constraints = [spread(ZONE, labels=labels), spread(HOSTNAME, labels=labels)]
    lay_out(
        plane,
        [
            *nodes(ZONES),
            deployment("web", [], namespace="shop", replicas=replicas, topologySpreadConstraints=constraints, **fields),
        ],
    )


def skews(api: Api, namespace: str = "shop") -> Mapping[str, int]:
    """Return the skew over zones and nodes of the pods that are there."""
    labels = {item["metadata"]["name"]: item["metadata"]["labels"] for item in api.list("/api/v1/nodes")}
    pods = living(api, namespace)
    result = {}
    for key in (ZONE, HOSTNAME):
        counts = Counter({values[key]: 0 for values in labels.values()})
        counts.update(labels[pod["spec"]["nodeName"]][key] for pod in pods)
        result[key] = max(counts.values()) - min(counts.values())
    return result


def costs(api: Api, namespace: str = "shop") -> list[str]:
    """Return the deletion costs of the pods, "" for none; each must have its marker."""
    result = []
    for pod in living(api, namespace):
        annotations = pod["metadata"].get("annotations") or {}
        assert annotations.get(COST) == annotations.get(MARKER)
        result.append(annotations.get(COST, ""))
    return result


def scale(plane: ControlPlane, replicas: int) -> None:
    plane.api.patch(WEB, {"spec": {"replicas": replicas}})
    wait_until(lambda: len(living(plane.api)) == replicas, what=f"{replicas} pods", timeout=60)


def patches(plane: ControlPlane, since: Mark | None = None) -> list[Request]:
    """Return the requests of the controller that changed pods, or tried to."""
    return plane.audit.requests(
        since=since, user=USER, verb=["patch", "update"], resource="pods", where=lambda request: not request.dry_run
    )


def check_patches(requests: list[Request]) -> None:
    """Every patch names the pod's version and changes the two annotations, to the same value.

    One whose process was killed while it sent it has no body in the log, and was not carried out.
    """
    for request in requests:
        if request.body is None:
            assert not 200 <= request.code < 300, request
            continue
        assert request.body.keys() == {"metadata"}
        metadata = request.body["metadata"]
        assert metadata.keys() == {"uid", "resourceVersion", "annotations"}
        assert metadata["annotations"].keys() == {COST, MARKER}
        assert metadata["annotations"][COST] == metadata["annotations"][MARKER]


@pytest.mark.invariant("deletion-cost-only")
def test_the_api_server_lets_the_controllers_account_change_nothing_but_deletion_costs(cluster: ControlPlane) -> None:
    install(cluster, "base", "prevention")
    lay_out_web(cluster, 3)
    wait_restricted(cluster)
    first, second, _ = (pod["metadata"]["name"] for pod in living(cluster.api))
    path = f"/api/v1/namespaces/shop/pods/{first}"
    cluster.api.patch(path, {"metadata": {"annotations": {"note": "1"}, "finalizers": ["example.test/wait"]}})
    cluster.api.patch(f"/api/v1/namespaces/shop/pods/{second}", {"metadata": {"annotations": {COST: "7"}}})
    account = cluster.api_as(ACCOUNT)
    refused: list[tuple[str, dict[str, Any]]] = [
        ("deadline", {"spec": {"activeDeadlineSeconds": 1}}),
        ("label", {"metadata": {"labels": {"app": "other"}}}),
        ("label removed", {"metadata": {"labels": {"app": None}}}),
        ("annotation", {"metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}}}),
        ("annotation changed", {"metadata": {"annotations": {"note": "2"}}}),
        ("annotation removed", {"metadata": {"annotations": {"note": None}}}),
        ("finaliser", {"metadata": {"finalizers": ["example.test/other"]}}),
        ("finaliser removed", {"metadata": {"finalizers": None}}),
        ("owner", {"metadata": {"ownerReferences": None}}),
        ("cost with a label", {"metadata": {"annotations": {COST: "5", MARKER: "5"}, "labels": {"x": "y"}}}),
        ("cost without marker", {"metadata": {"annotations": {COST: "5"}}}),
    ]
    for what, body in refused:
        with pytest.raises(ApiError) as caught:
            account.patch(path, body)
        assert caught.value.code in {403, 422}, what
        assert "ValidatingAdmissionPolicy" in str(caught.value), what
    operations: list[dict[str, Any]] = [
        {"op": "replace", "path": "/spec/containers/0/image", "value": "example.test/other:1"},
        {"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}},
    ]
    for operation in operations:
        with pytest.raises(ApiError, match="ValidatingAdmissionPolicy"):
            account.request("PATCH", path, [operation], content_type="application/json-patch+json")
    for what, body in (("replaced", {COST: "5", MARKER: "5"}), ("removed", {COST: None})):
        with pytest.raises(ApiError, match="somebody else has set"):
            account.patch(f"/api/v1/namespaces/shop/pods/{second}", {"metadata": {"annotations": body}})
        assert what
    for values in ({COST: "5", MARKER: "5"}, {COST: "9", MARKER: "9"}, {COST: None, MARKER: None}):
        account.patch(path, {"metadata": {"annotations": values}})
    with pytest.raises(ApiError):
        account.patch(f"{path}/status", {"status": {"phase": "Failed"}})
    # Other accounts are not concerned.
    cluster.api.patch(path, {"metadata": {"labels": {"other": "yes"}, "finalizers": None}})


@pytest.mark.parametrize(
    "missing",
    ["ValidatingAdmissionPolicyBinding", pytest.param("ValidatingAdmissionPolicy", marks=pytest.mark.thorough)],
)
def test_without_the_policy_or_its_binding_nothing_is_patched(
    cluster: ControlPlane, tmp_path: Path, missing: str
) -> None:
    install(cluster, "base")
    cluster.api.apply(manifest for manifest in manifests("prevention") if manifest["kind"] != missing)
    lay_out_web(cluster, 6)
    with Controller(cluster, tmp_path, steering()) as controller:
        controller.wait_for("prevention stopped")
        controller.wait_for("cycle", count=len(controller.log("cycle")) + 1)
        assert controller.metrics()["rebalancer_prevention_stopped"] == 1
        wait_until(lambda: "deploy/prevention" in status(cluster).get("stopped", ""), what="the status")
    assert costs(cluster.api) == [""] * 6
    assert patches(cluster) == []
    assert cluster.audit.requests(user=USER, verb="patch", resource="pods", where=lambda request: request.dry_run)


def test_a_night_stays_spread_and_off_leaves_nothing_behind(cluster: ControlPlane, tmp_path: Path) -> None:
    """Pods are scaled down in steps; a pause stops patches; a killed process resumes; Off removes all."""
    install(cluster, "base", "prevention")
    lay_out_web(cluster, 12)
    wait_restricted(cluster)
    with Controller(cluster, tmp_path, steering(), *QUICK_LEASE) as controller:
        wait_until(lambda: any(costs(cluster.api)), what="the first cost", interval=0.01)
        assert controller.process is not None
        controller.process.send_signal(signal.SIGKILL)
        controller.wait(10)
    with Controller(cluster, tmp_path, steering(), *QUICK_LEASE) as controller:
        wait_ordered(cluster)
        for replicas in (6, 3):
            scale(cluster, replicas)
            assert max(skews(cluster.api).values()) <= 1
        metrics = controller.metrics()
        assert metrics['rebalancer_prevention_patches_total{result="failed"}'] == 0
        assert metrics["rebalancer_prevention_stopped"] == 0
        until = {"data": {"pause.yaml": "reason: test\nby: me\n"}}
        cluster.api.patch(CONTROL, until)
        time.sleep(1.0)
        mark = cluster.audit.mark()
        scale(cluster, 6)
        controller.wait_for("cycle", count=len(controller.log("cycle")) + 3)
        assert patches(cluster, mark) == []
        cluster.api.patch(CONTROL, {"data": None})
        wait_settled(cluster)
        wait_ordered(cluster)
        assert any(costs(cluster.api))
        controller.policy_file.write_text(steering("Off"))
        wait_until(lambda: not any(costs(cluster.api)), what="all costs to be removed", timeout=30)
        mark = cluster.audit.mark()
        controller.wait_for("cycle", count=len(controller.log("cycle")) + 2)
        assert patches(cluster, mark) == []
    check_patches(patches(cluster))


@pytest.mark.invariant("prevention-off")
def test_off_sends_no_request_about_single_pods(cluster: ControlPlane, tmp_path: Path) -> None:
    install(cluster, "base", "prevention")
    lay_out_web(cluster, 6)
    with Controller(cluster, tmp_path, steering("Off")) as controller:
        controller.wait_for("cycle", count=2)
    requests = cluster.audit.requests(user=USER)
    assert requests
    assert not [request for request in requests if request.resource == "pods" and request.verb not in {"list", "watch"}]


def test_observe_reads_the_autoscalers_and_reports_where_the_night_ends(cluster: ControlPlane, tmp_path: Path) -> None:
    install(cluster, "base", "prevention")
    lay_out_web(cluster, 20)
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 5,
            "maxReplicas": 20,
        },
    }
    cluster.api.create(autoscaler)
    with Controller(cluster, tmp_path, steering("Observe")) as controller:
        controller.wait_for("cycle")

        def reported() -> bool:
            metrics = controller.metrics()
            return any(name.startswith("rebalancer_scale_down_unsafe{") for name in metrics)

        wait_until(reported, what="the metric", timeout=20)
        assert costs(cluster.api) == [""] * 20
    assert cluster.audit.requests(user=USER, verb="watch", resource="horizontalpodautoscalers")
    assert patches(cluster) == []


@pytest.mark.invariant("scale-downs")
@pytest.mark.invariant("deletion-cost-only")
def test_steered_scale_downs_end_without_violation_and_their_twins_do_not(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    result = Result()
    run_cases(cluster, tmp_path, draw_cases(1, 4), "nothing", result)
    steered, plain = result.of("nothing", STEERED), result.of("nothing", PLAIN)
    print(result)
    assert steered.scale_downs >= 5
    assert steered.avoidable == 0
    assert plain.avoidable > 0
    written = patches(cluster)
    assert written
    check_patches(written)


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_hundreds_of_steered_scale_downs_end_without_violation(cluster: ControlPlane, tmp_path: Path) -> None:
    result = measure(cluster, tmp_path)
    assert sum(tally.scale_downs for (_, space), tally in result.tallies.items() if space == STEERED) >= 200
    assert all(tally.avoidable == 0 for (_, space), tally in result.tallies.items() if space == STEERED)
    assert sum(tally.avoidable for (_, space), tally in result.tallies.items() if space == PLAIN) > 100
