"""The rights of deploy/surge on a real API server: what they are for works with them alone, and nothing else."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from rebalancer.adapters.kubernetes.scaling import Scaling
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.model.moves import Reference
from rebalancer.ports import ScaleReading, ScaleResult
from tests.cluster.controller import ACCOUNT, NAMESPACE, USER, install
from tests.cluster.prevention import living, wait_restricted
from tests.cluster.test_observing import kubectl
from tests.control_plane.api import Api, ApiError, wait_until
from tests.control_plane.layout import deployment, lay_out, nodes, replica_set
from tests.control_plane.plane import ControlPlane
from tests.deploy.rendering import program, require_programs

COST, MARKER = "controller.kubernetes.io/pod-deletion-cost", "rebalancer.dev/deletion-cost"
APPS: Final = "/apis/apps/v1/namespaces/shop"
PATHS: Final = {"Deployment": f"{APPS}/deployments/web", "ReplicaSet": f"{APPS}/replicasets/bare"}
WORKLOADS: Final = {
    "Deployment": Reference("shop", "Deployment", "web"),
    "ReplicaSet": Reference("shop", "ReplicaSet", "bare"),
}
SURGES: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-surges"


def lay_out_shop(plane: ControlPlane, *forms: str) -> None:
    """Install, and wait until both policies are in force for a Deployment and a ReplicaSet of three pods each."""
    install(plane, "base", *forms)
    web = deployment("web", [], namespace="shop", replicas=3)
    lay_out(plane, [*nodes({"a": 1}), web, replica_set("bare", [], namespace="shop", replicas=3)])
    wait_restricted(plane)

    def bounded() -> bool:
        return all(find_refusal(plane.api_as(ACCOUNT), path, 99, dry_run=True) for path in PATHS.values())

    wait_until(bounded, what="the policy about replicas", timeout=60)


def find_refusal(api: Api, path: str, replicas: int, *, dry_run: bool = False) -> str:
    """Scale a workload and return what the API server says against it, "" if it takes it."""
    query = "?dryRun=All" if dry_run else ""
    try:
        api.patch(f"{path}/scale{query}", {"spec": {"replicas": replicas}})
    except ApiError as error:
        return str(error) if error.code in {403, 422} else ""
    return ""


@contextmanager
def scaling(plane: ControlPlane) -> Iterator[Scaling]:
    """Give the controller's own code, with the controller's account."""
    transport = connect(kubeconfig=str(plane.kubeconfig(ACCOUNT)))
    try:
        yield Scaling(transport)
    finally:
        transport.close()


def change(through: Scaling, workload: Reference, replicas: int) -> ScaleResult:
    """Read a workload and scale it; again where its controller has written its status in between."""

    def result() -> ScaleResult | None:
        read = through.read_scale(workload)
        assert read is not None
        answer = through.set_replicas(workload, read, replicas)
        return None if answer.result is ScaleResult.CONFLICT else answer.result

    found = wait_until(result, what="an answer other than a conflict")
    assert found is not None
    return found


@pytest.mark.parametrize("kind", PATHS)
def test_a_workload_gets_up_to_ten_replicas_more_or_fewer_and_is_neither_stopped_nor_started(
    cluster: ControlPlane, kind: str
) -> None:
    """And the audit log has each refused request."""
    lay_out_shop(cluster, "surge")
    account, path, workload = cluster.api_as(ACCOUNT), PATHS[kind], WORKLOADS[kind]
    cluster.begin_test()
    with scaling(cluster) as own:
        assert [change(own, workload, number) for number in (4, 3, 13, 3)] == [ScaleResult.SCALED] * 4
        assert change(own, workload, 14) is change(own, workload, 0) is ScaleResult.FORBIDDEN
    assert "by ten at most" in find_refusal(account, path, 14)
    assert "to 0, or from 0" in find_refusal(account, path, 0)
    cluster.api.patch(f"{path}/scale", {"spec": {"replicas": 20}})
    assert "by ten at most" in find_refusal(account, path, 9)
    cluster.api.patch(f"{path}/scale", {"spec": {"replicas": 0}})
    assert "to 0, or from 0" in find_refusal(account, path, 1)
    assert cluster.api.get(path)["spec"]["replicas"] == 0
    refused = cluster.audit.requests(
        user=USER, subresource="scale", where=lambda request: request.code not in {200, 409}
    )
    assert [request.code for request in refused] == [422] * 6
    assert all("ValidatingAdmissionPolicy 'rebalancer-surge-scale'" in request.message for request in refused)


def test_of_a_scale_the_server_takes_nothing_but_the_replicas(cluster: ControlPlane) -> None:
    lay_out_shop(cluster, "surge")
    path = PATHS["Deployment"]
    before = cluster.api.get(path)
    metadata = {
        "labels": {"x": "y"},
        "annotations": {"x": "y"},
        "finalizers": ["example.test/x"],
        "managedFields": [{}],
    }
    status = {"replicas": 9, "selector": "app=other"}
    cluster.api_as(ACCOUNT).patch(f"{path}/scale", {"metadata": metadata, "spec": {"replicas": 4}, "status": status})
    after = cluster.api.get(path)
    assert after["spec"] == {**before["spec"], "replicas": 4}
    for name in ("labels", "annotations", "finalizers"):
        assert after["metadata"].get(name) == before["metadata"].get(name)
    kept = {entry["manager"] for entry in after["metadata"]["managedFields"]}
    assert kept >= {entry["manager"] for entry in before["metadata"]["managedFields"]} - {"rebalancer-tests"}


def test_every_other_write_is_refused(cluster: ControlPlane) -> None:
    """By the roles: there is no other right. The record alone may be patched, and not deleted."""
    lay_out_shop(cluster, "surge")
    account = cluster.api_as(ACCOUNT)
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "example.test/other:1"}]}}}}
    pod = f"/api/v1/namespaces/shop/pods/{living(cluster.api)[0]['metadata']['name']}"
    writes: list[tuple[str, str, Any]] = [
        ("PATCH", PATHS["Deployment"], image),
        ("PATCH", PATHS["ReplicaSet"], image),
        ("PATCH", f"{APPS}/statefulsets/web/scale", {"spec": {"replicas": 1}}),
        ("PATCH", "/api/v1/namespaces/shop/replicationcontrollers/web/scale", {"spec": {"replicas": 1}}),
        ("PUT", f"{PATHS['Deployment']}/scale", {"spec": {"replicas": 4}}),
        ("DELETE", PATHS["Deployment"], None),
        ("DELETE", pod, None),
        ("PUT", SURGES, cluster.api.get(SURGES)),
        ("DELETE", SURGES, None),
        ("PUT", f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-control", cluster.api.get(SURGES)),
    ]
    cluster.begin_test()
    for method, path, body in writes:
        with pytest.raises(ApiError) as caught:
            account.request(method, path, body, content_type="application/merge-patch+json")
        assert caught.value.code == 403, (method, path)
    refused = cluster.audit.requests(user=USER, where=lambda request: request.code == 403)
    assert len(refused) == len(writes)
    record = account.get(SURGES)
    version = {"metadata": {"resourceVersion": record["metadata"]["resourceVersion"]}}
    account.patch(SURGES, {**version, "data": {"surges.json": "[]"}})
    assert cluster.api.get(SURGES)["data"] == {"surges.json": "[]"}
    with pytest.raises(ApiError) as stale:
        account.patch(SURGES, {**version, "data": {"surges.json": "[1]"}})
    assert stale.value.code == 409


def test_a_cleanup_stops_and_starts_the_controllers_own_deployment_and_no_namesake(cluster: ControlPlane) -> None:
    lay_out_shop(cluster, "surge")
    own = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/rebalancer"
    twin = f"{APPS}/deployments/rebalancer"
    for namespace in (NAMESPACE, "shop"):
        cluster.api.create(deployment("rebalancer", [], namespace=namespace, replicas=2).owners[-1])
    account = cluster.api_as(ACCOUNT)
    assert [find_refusal(account, own, number) for number in (0, 2)] == ["", ""]
    assert "to 0, or from 0" in find_refusal(account, twin, 0)


@pytest.mark.parametrize("forms", [("surge",), ("prevention", "surge")], ids=["alone", "with prevention"])
def test_of_pods_only_our_own_deletion_costs_can_be_written(cluster: ControlPlane, forms: tuple[str, ...]) -> None:
    """From -1 to 1,000,000, and none of somebody else, not even by marking it as ours first."""
    lay_out_shop(cluster, *forms)
    first, second, *_ = (pod["metadata"]["name"] for pod in living(cluster.api))
    free, taken = f"/api/v1/namespaces/shop/pods/{first}", f"/api/v1/namespaces/shop/pods/{second}"
    cluster.api.patch(taken, {"metadata": {"annotations": {COST: "7"}}})
    account = cluster.api_as(ACCOUNT)
    refused: list[tuple[str, dict[str, Any]]] = [
        (free, {"labels": {"app": "other"}}),
        (free, {"annotations": {"note": "1"}}),
        (free, {"ownerReferences": None}),
        (free, {"annotations": {COST: "-1"}}),
        *[(free, {"annotations": {COST: text, MARKER: text}}) for text in ("-2", "0", "1000001")],
        (taken, {"annotations": {COST: "-1", MARKER: "-1"}}),
        (taken, {"annotations": {COST: None}}),
        (taken, {"annotations": {MARKER: "7"}}),
    ]
    cluster.begin_test()
    for path, metadata in refused:
        with pytest.raises(ApiError, match="ValidatingAdmissionPolicy"):
            account.patch(path, {"metadata": metadata})
    answers = cluster.audit.requests(user=USER, verb="patch", resource="pods")
    assert [request.code for request in answers] == [422] * len(refused)
    for value in ("-1", "1000000", "1", "-1", None):
        account.patch(free, {"metadata": {"annotations": {COST: value, MARKER: value}}})


OTHER: Final = Reference("shop", "Deployment", "other")


def write(file: Path, replicas: int) -> str:
    """Write the manifest of the Deployment `other` and return where it is."""
    manifest = deployment(OTHER.name, [], namespace=OTHER.namespace, replicas=replicas).owners[-1]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(manifest))
    return str(file)


def check_replicas(plane: ControlPlane, replicas: int) -> None:
    assert plane.api.get(f"{APPS}/deployments/other")["spec"]["replicas"] == replicas


CLIENT_SIDE, SERVER_SIDE = ["apply"], ["apply", "--server-side"]


@pytest.mark.parametrize(
    ("create", "numbers", "apply"),
    [
        pytest.param(["create", "--save-config"], (4, 3), SERVER_SIDE, id="created, then server-side"),
        pytest.param(CLIENT_SIDE, (4, 3), SERVER_SIDE, id="client-side, then server-side"),
        pytest.param(CLIENT_SIDE, (4, 3), CLIENT_SIDE, id="client-side"),
        pytest.param(CLIENT_SIDE, (4,), CLIENT_SIDE, id="client-side, amid a surge"),
    ],
)
def test_kubectl_apply_sets_another_number_after_a_surge_without_force(
    cluster: ControlPlane, tmp_path: Path, create: list[str], numbers: tuple[int, ...], apply: list[str]
) -> None:
    """As long as nobody has applied the replicas on the server, our field manager is in nobody's way.

    The API server lets kubectl's first server-side apply take a field that has the value of its last client-side one.
    """
    lay_out_shop(cluster, "surge")
    manifest = tmp_path / "other.yaml"
    kubectl(cluster, *create, "-f", write(manifest, 3))
    with scaling(cluster) as own:
        read = own.read_scale(OTHER)
        assert read is not None
        assert read.appliers == ()
        assert {change(own, OTHER, number) for number in numbers} == {ScaleResult.SCALED}
    kubectl(cluster, *apply, "-f", write(manifest, 5))
    check_replicas(cluster, 5)


def test_who_applies_the_replicas_on_the_server_is_named_before_and_would_have_to_force_another_number(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """That is why a workload with such a field manager is not scaled unless the policy says so."""
    lay_out_shop(cluster, "surge")
    manifest = tmp_path / "other.yaml"
    kubectl(cluster, "apply", "--server-side", "-f", write(manifest, 3))
    with scaling(cluster) as own:
        read = own.read_scale(OTHER)
        assert read is not None
        assert (read.appliers, read.marks) == (("kubectl",), ())
        assert [change(own, OTHER, number) for number in (4, 3)] == [ScaleResult.SCALED] * 2
    kubectl(cluster, "apply", "--server-side", "-f", write(manifest, 3))
    with pytest.raises(subprocess.CalledProcessError) as caught:
        kubectl(cluster, "apply", "--server-side", "-f", write(manifest, 5))
    assert b'conflict with "rebalancer" with subresource "scale"' in caught.value.stderr
    kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", write(manifest, 5))
    check_replicas(cluster, 5)


def test_a_helm_upgrade_sets_another_number_after_a_surge_without_force(cluster: ControlPlane, tmp_path: Path) -> None:
    """Of a release that helm patches. One that it applies on the server has an applier, as the test above."""
    require_programs("helm")
    lay_out_shop(cluster, "surge")
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: other\nversion: 0.1.0\n")

    def helm(*arguments: str, replicas: int) -> None:
        write(tmp_path / "templates" / "other.yaml", replicas)
        where = ["--kubeconfig", str(cluster.kubeconfig()), "--namespace", "shop", "other", str(tmp_path)]
        subprocess.run([str(program("helm")), *arguments, *where], check=True, capture_output=True, timeout=120)

    helm("install", "--server-side=false", replicas=3)
    with scaling(cluster) as own:
        read = own.read_scale(OTHER)
        assert read is not None
        assert (read.appliers, read.marks) == ((), ())
        assert [change(own, OTHER, number) for number in (4, 3)] == [ScaleResult.SCALED] * 2
        helm("upgrade", replicas=5)
        check_replicas(cluster, 5)


def test_a_workload_that_has_changed_or_been_replaced_since_it_was_read_is_not_scaled(cluster: ControlPlane) -> None:
    lay_out_shop(cluster, "surge")
    web, path = WORKLOADS["Deployment"], PATHS["Deployment"]
    with scaling(cluster) as own:
        read = own.read_scale(web)
        assert read is not None
        assert read.replicas == 3
        namesake = ScaleReading(uid="another", replicas=3, resource_version=read.resource_version)
        assert own.set_replicas(web, namesake, 4).result is ScaleResult.CONFLICT
        cluster.api.patch(f"{path}/scale", {"spec": {"replicas": 5}})
        assert own.set_replicas(web, read, 4).result is ScaleResult.CONFLICT
        assert cluster.api.get(path)["spec"]["replicas"] == 5
        cluster.api.delete(path)
        wait_until(lambda: cluster.api.find(path) is None, what="the deletion")
        assert own.read_scale(web) is None
        assert own.set_replicas(web, read, 4).result is ScaleResult.GONE
