"""`rebalancer apply`: a file that is no plan, or none that can be carried out, is refused before anything is sent."""

import json
from pathlib import Path
from typing import Any

import pytest

from rebalancer.cli.main import main
from tests.adapters.kubernetes.fake_server import ApiServer, reachable
from tests.cli.test_mistakes import POLICY

EXAMPLE = "docs/examples/zone-returned.json"


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    file = tmp_path / "made.json"
    assert main(["plan", "--snapshot", EXAMPLE, "--out", str(file)]) == 0
    capsys.readouterr()
    document: dict[str, Any] = json.loads(file.read_text())
    return document


def apply(folder: Path, document: object) -> int:
    file = folder / "plan.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return main(["apply", str(file)])


def test_an_expired_plan_is_refused(plan: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The example is of another day."""
    assert apply(tmp_path, plan) == 1
    error = capsys.readouterr().err
    assert "has expired at" in error
    assert "rebalancer plan --out FILE" in error


def test_a_plan_without_evictions_does_nothing(
    plan: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whenever it was made."""
    assert apply(tmp_path, {**plan, "evictions": []}) == 0
    assert capsys.readouterr().out == "The plan evicts nothing.\n"


def test_a_plan_with_more_evictions_than_a_person_reads_is_refused(
    plan: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the way to a smaller one."""
    many = {**plan, "expiresAt": None, "evictions": plan["evictions"][:1] * 201}
    assert apply(tmp_path, many) == 1
    assert "the plan has 201 evictions, and 200 can be carried out at a time" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("", "not a plan, as `rebalancer plan --out FILE` writes it"),
        ("kind: Plan", "not a plan"),
        ("[]", "not a plan"),
        ({"kind": "Plan"}, "not a plan"),
    ],
)
def test_a_file_that_is_no_plan_is_named(
    document: object, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert apply(tmp_path, document) == 1
    error = capsys.readouterr().err
    assert "plan.json" in error
    assert message in error


def test_another_document_is_no_plan(plan: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert apply(tmp_path, {**plan, "kind": "Report"}) == 1
    assert "found kind Report, expected Plan" in capsys.readouterr().err


def test_where_the_controller_has_another_namespace_nothing_is_evicted(
    plan: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its Lease would not be looked at, and its pause not be read; who may not list goes on, see below."""
    server = ApiServer()
    server.put("/api/v1/namespaces/ops/configmaps/rebalancer-control", metadata={"namespace": "ops"})
    with reachable(server, tmp_path, monkeypatch, "REBALANCER_KUBECONFIG"):
        assert apply(tmp_path, {**plan, "expiresAt": None}) == 1
        assert capsys.readouterr().err == (
            "error: namespace rebalancer-system has no ConfigMap rebalancer-control: the controller, its Lease and its "
            "pause are in another namespace; choose it with --controller-namespace, one of ops. Where none "
            "runs: "
            "kubectl create configmap rebalancer-control --namespace rebalancer-system\n"
        )
        server.answers["GET", "/api/v1/configmaps"] = server.answers["GET", POLICY] = 403
        assert apply(tmp_path, {**plan, "expiresAt": None}) == 1
        assert "it is not sure which policy is in force" in capsys.readouterr().err
    assert all(method == "GET" for method, _ in server.requests)


def test_where_it_is_not_sure_which_policy_is_in_force_nothing_is_evicted(
    plan: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shipped policy might evict where the cluster's own excludes it."""
    server = ApiServer()
    server.answers["GET", POLICY] = 403
    with reachable(server, tmp_path, monkeypatch, "REBALANCER_KUBECONFIG"):
        assert apply(tmp_path, {**plan, "expiresAt": None}) == 1
    assert (
        "it is not sure which policy is in force; nothing is evicted. Name it with --policy" in capsys.readouterr().err
    )
    assert all(method == "GET" for method, _ in server.requests)


def test_a_plan_that_relies_on_preemption_is_left_to_a_controller(
    plan: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preempts = [{"node": "c-1", "pods": ["shop/batch-1"]}]
    relying = {**plan["evictions"][0], "preempts": preempts}
    assert apply(tmp_path, {**plan, "expiresAt": None, "evictions": [relying]}) == 1
    assert "relies on kube-scheduler's preemption, which only a controller follows" in capsys.readouterr().err
