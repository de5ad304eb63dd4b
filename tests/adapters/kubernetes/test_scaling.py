"""Replicas are read with who else declares them, changed by a precondition, and every answer means what it means."""

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.adapters.kubernetes.scaling import Scaling
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.model.moves import Reference
from rebalancer.ports import ReadFailedError, ScaleReading, ScaleResult
from tests.adapters.kubernetes.fake_server import Answer, ApiServer, answer, served, write_kubeconfig

WEB = Reference("shop", "Deployment", "web")
PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/shop/deployments/web",
    "ReplicaSet": "/apis/apps/v1/namespaces/shop/replicasets/web",
}
READ = ScaleReading(uid="u", replicas=3, resource_version="7")


def entry(manager: str, operation: str, *, replicas: bool = True, subresource: str = "") -> dict[str, Any]:
    """Return an entry of metadata.managedFields."""
    spec: dict[str, Any] = {"f:replicas": {}} if replicas else {"f:template": {"f:spec": {}}}
    of = {"subresource": subresource} if subresource else {}
    return {"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": spec}, **of}


def read(kind: str = "Deployment", **metadata: Any) -> ScaleReading | None:
    server = ApiServer()
    server.put(PATHS[kind], metadata={"uid": "u", **metadata}, spec={"replicas": 3})
    with served(server) as transport:
        return Scaling(transport).read_scale(Reference("shop", kind, "web"))


@pytest.mark.parametrize("kind", PATHS)
def test_one_request_reads_the_replicas_and_what_a_change_must_name(kind: str) -> None:
    assert read(kind) == ScaleReading(uid="u", replicas=3, resource_version="1")


def test_a_workload_that_does_not_exist_is_gone_and_one_that_cannot_be_read_is_an_error() -> None:
    server = ApiServer()
    with served(server) as transport:
        assert Scaling(transport).read_scale(WEB) is None
        wrong: Answer
        for wrong in (403, 500, (200, {"metadata": {}})):
            server.answers["GET", PATHS["Deployment"]] = wrong
            with pytest.raises(ReadFailedError, match=r"the replicas of shop/web \(Deployment\) cannot be read"):
                Scaling(transport).read_scale(WEB)


MANAGED = st.lists(
    st.builds(
        entry,
        st.sampled_from(["helm", "kubectl", "flux", "kube-controller-manager"]),
        st.sampled_from(["Apply", "Update"]),
        replicas=st.booleans(),
        subresource=st.sampled_from(["", "scale", "status"]),
    ),
    max_size=6,
)


@given(MANAGED)
def test_who_owns_the_replicas_by_server_side_apply_is_named_and_nobody_else(entries: list[dict[str, Any]]) -> None:
    """A manager of the operation Update, as `kubectl create` and `kubectl scale` leave, declares nothing."""
    found = read(managedFields=entries)
    assert found is not None
    text = [json.dumps(one) for one in entries]
    assert set(found.appliers) == {
        one["manager"]
        for one, words in zip(entries, text, strict=True)
        if '"operation": "Apply"' in words and '"f:replicas"' in words
    }
    assert list(found.appliers) == sorted(found.appliers)


@pytest.mark.parametrize(
    ("metadata", "marks"),
    [
        (
            {"annotations": {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/web"}},
            ("annotation argocd.argoproj.io/tracking-id",),
        ),
        ({"labels": {"argocd.argoproj.io/instance": "shop"}}, ("label argocd.argoproj.io/instance",)),
        (
            {
                "labels": {"app.kubernetes.io/instance": "shop"},
                "managedFields": [entry("argocd-controller", "Update", replicas=False)],
            },
            ("field manager argocd-controller",),
        ),
        (
            {
                "labels": {
                    "kustomize.toolkit.fluxcd.io/name": "shop",
                    "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
                }
            },
            ("label kustomize.toolkit.fluxcd.io/name", "label kustomize.toolkit.fluxcd.io/namespace"),
        ),
        ({"labels": {"helm.toolkit.fluxcd.io/name": "shop"}}, ("label helm.toolkit.fluxcd.io/name",)),
        ({"labels": {"helm.toolkit.fluxcd.io/namespace": "shop"}}, ("label helm.toolkit.fluxcd.io/namespace",)),
        (
            {
                "labels": {"app.kubernetes.io/instance": "shop", "app.kubernetes.io/managed-by": "Helm"},
                "annotations": {"meta.helm.sh/release-name": "shop", "argocd.argoproj.io/sync-wave": "1"},
            },
            (),
        ),
    ],
)
def test_the_mark_of_a_gitops_tool_is_named_as_people_find_it(
    metadata: Mapping[str, Any], marks: tuple[str, ...]
) -> None:
    """Charts set `app.kubernetes.io/instance` without any tool, and an annotation may be written for one in vain."""
    found = read(**metadata)
    assert found is not None
    assert found.marks == marks


@pytest.mark.parametrize("kind", PATHS)
def test_a_change_names_what_was_read_and_nothing_but_the_replicas(kind: str) -> None:
    sent: list[tuple[str, str, Any]] = []

    def handle(request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        sent.append((request.command, request.path, body))
        answer(request, 200, {"kind": "Scale", "metadata": {"resourceVersion": "8"}, "spec": {"replicas": 4}})

    with served(handle) as transport:
        changed = Scaling(transport).set_replicas(Reference("shop", kind, "web"), READ, 4)
    assert (changed.result, changed.resource_version) == (ScaleResult.SCALED, "8")
    body = {"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {"replicas": 4}}
    assert sent == [("PATCH", f"{PATHS[kind]}/scale?fieldManager=rebalancer", body)]


def failure(code: int, message: str) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "message": message}


NO_RIGHT = 'deployments.apps "web" is forbidden: User "x" cannot patch resource "deployments/scale" in API group "apps"'
POLICY = "deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: too far"
WEBHOOK = 'admission webhook "guard" denied the request: not now'


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        (200, b"<html>", ScaleResult.UNKNOWN),
        (200, {"metadata": {}}, ScaleResult.UNKNOWN),
        (400, failure(400, "bad"), ScaleResult.FAILED),
        (401, failure(401, "Unauthorized"), ScaleResult.FORBIDDEN),
        (403, failure(403, NO_RIGHT), ScaleResult.FORBIDDEN),
        (422, failure(422, POLICY), ScaleResult.FORBIDDEN),
        (409, failure(409, WEBHOOK), ScaleResult.FORBIDDEN),
        (500, failure(500, WEBHOOK), ScaleResult.FORBIDDEN),
        (404, failure(404, 'deployments.apps "web" not found'), ScaleResult.GONE),
        (409, failure(409, "the object has been modified"), ScaleResult.CONFLICT),
        (422, failure(422, "spec.replicas: Invalid value: -1"), ScaleResult.FAILED),
        (429, failure(429, "too many requests"), ScaleResult.FAILED),
        (500, failure(500, "etcd trouble"), ScaleResult.UNKNOWN),
        (503, b"", ScaleResult.UNKNOWN),
        (504, failure(504, "timeout"), ScaleResult.UNKNOWN),
    ],
)
def test_answers(code: int, body: Any, expected: ScaleResult) -> None:
    """Only an answer that says so means that nothing was written."""
    with served(lambda request: answer(request, code, body, {"Retry-After": "3"})) as transport:
        changed = Scaling(transport).set_replicas(WEB, READ, 4)
    assert changed.result is expected
    assert changed.message
    assert changed.retry_after == (3.0 if code >= 400 else 0.0)


def test_without_an_answer_it_is_not_known_whether_the_change_was_made(tmp_path: Any) -> None:
    nobody = connect(kubeconfig=str(write_kubeconfig(tmp_path)))
    try:
        changed = Scaling(nobody).set_replicas(WEB, READ, 4)
    finally:
        nobody.close()
    assert changed.result is ScaleResult.UNKNOWN
    assert "no response" in changed.message
