"""`rebalancer approve`: approves exactly the plan that waits, and says why where none does."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit
from rebalancer.controller.status import status_documents
from rebalancer.policy import Mode
from rebalancer.ports import PLAN_KEY, STATUS_KEY
from rebalancer.simulator import SimulatedCluster
from tests.adapters.kubernetes.fake_server import ApiServer, reachable
from tests.controller.simulated import Simulation, eager
from tests.planning.clusters import returned

STATUS = "/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-status"
APPROVAL = "/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-approval"


def proposed(mode: Mode) -> dict[str, str]:
    """Return the status and the plan that a controller in a mode has written."""
    simulation = Simulation(SimulatedCluster(returned(), seed=1), eager(mode))
    with capture_logs():
        simulation.cycles(1)
    documents = status_documents(simulation.runner.state, "pod-1", "policy.yaml")
    written = {document.key: document.text for document in documents}
    plan = json.loads(written[PLAN_KEY])
    if plan["expiresAt"] is not None:  # the simulation's clock is another one
        plan["expiresAt"] = "2999-01-01T00:00:00Z"
    return {STATUS_KEY: written[STATUS_KEY], PLAN_KEY: json.dumps(plan)}


def proposing(status: dict[str, str] | None = None) -> ApiServer:
    """Return an API server with a status, None: without one, and a ConfigMap for approvals."""
    made = ApiServer()
    made.put(APPROVAL, data={})
    if status:
        made.put(STATUS, data=status)
    return made


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    made = proposing()
    with reachable(made, tmp_path, monkeypatch):
        yield made


@pytest.mark.parametrize("named", [False, True])
def test_the_plan_that_waits_is_approved(named: bool, server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """By its hash, with or without naming it; what it evicts is shown."""
    status = proposed(Mode.APPROVE)
    server.put(STATUS, data=status)
    plan = json.loads(status[PLAN_KEY])
    assert plan["evictions"]
    assert entry.main(["approve", *([plan["planHash"]] if named else [])]) == Exit.FINE
    assert server.data(APPROVAL) == {"approved": plan["planHash"]}
    out = capsys.readouterr().out
    assert out.startswith(f"Approved plan {plan['planHash']}: {len(plan['evictions'])} eviction")
    assert all(f"{eviction['namespace']}/{eviction['pod']}" in out for eviction in plan["evictions"])


def without_evictions(status: dict[str, str]) -> dict[str, str]:
    return {**status, PLAN_KEY: json.dumps({**json.loads(status[PLAN_KEY]), "evictions": []})}


def expired(status: dict[str, str]) -> dict[str, str]:
    return {**status, PLAN_KEY: json.dumps({**json.loads(status[PLAN_KEY]), "expiresAt": "2001-01-01T00:00:00Z"})}


@pytest.mark.parametrize(
    ("status", "words", "message"),
    [
        (dict[str, str], [], "no controller has written a status in namespace rebalancer-system"),
        (lambda: proposed(Mode.EVICT), [], "no plan waits for approval: mode Evict: the controller evicts"),
        (lambda: proposed(Mode.OBSERVE), [], "no plan waits for approval: mode Observe: the controller will not evict"),
        (
            lambda: without_evictions(proposed(Mode.APPROVE)),
            [],
            "no plan waits for approval: there is nothing to evict",
        ),
        (lambda: expired(proposed(Mode.APPROVE)), [], "has expired; the controller proposes another one"),
        (lambda: proposed(Mode.APPROVE), ["f00"], "plan f00 does not wait for approval; the plan that waits is "),
        (
            lambda: {**proposed(Mode.APPROVE), PLAN_KEY: "{}"},
            [],
            "the plan in namespace rebalancer-system is of another",
        ),
    ],
)
def test_where_no_plan_waits_nothing_is_approved(
    status: Any, words: list[str], message: str, server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    if given := status():
        server.put(STATUS, data=given)
    assert entry.main(["approve", *words]) == Exit.ERROR
    assert message in capsys.readouterr().err
    assert server.data(APPROVAL) == {}


def test_a_missing_right_is_named(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.put(STATUS, data=proposed(Mode.APPROVE))
    server.answers["PATCH", APPROVAL] = 403
    assert entry.main(["approve"]) == Exit.ERROR
    err = capsys.readouterr().err
    assert "grant the verbs patch and create on configmaps in namespace rebalancer-system" in err
    assert "rebalancer-approval" in err
