"""`rebalancer status`: what the controller does and why nothing happens, from what it has written."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit
from rebalancer.controller.state import LoopState
from rebalancer.controller.status import status_documents
from rebalancer.ports import STATUS_KEY
from rebalancer.simulator import SimulatedCluster
from tests.adapters.kubernetes.fake_server import answer
from tests.cli.reachable import reachable
from tests.controller.simulated import Simulation, eager
from tests.planning.clusters import returned

MAP = "/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-status"


def written(state: LoopState) -> str:
    """Return the status that the controller writes in a state."""
    documents = {document.key: document.text for document in status_documents(state, "pod-1", "policy.yaml")}
    return documents[STATUS_KEY]


def working() -> LoopState:
    """Return the state of a controller in the middle of a repair."""
    simulation = Simulation(SimulatedCluster(returned(), seed=1), eager())
    with capture_logs():
        simulation.cycles(1)
    return simulation.runner.state


class Server:
    """An API server with a status; each reading takes the next one, the last stays."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        if request.path != MAP or not self.texts:
            answer(request, 404, {"kind": "Status", "message": "not found"})
            return
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        metadata = {"name": "rebalancer-status", "namespace": "rebalancer-system"}
        answer(request, 200, {"metadata": metadata, "data": {STATUS_KEY: text}})


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    made = Server()
    with reachable(made, tmp_path, monkeypatch):
        yield made


def test_the_status_of_a_working_controller(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Its mode, plan, moves in flight and the reasons of what waits; the numbers are those of the status."""
    server.texts = [written(working())]
    status: dict[str, Any] = json.loads(server.texts[0])
    assert entry.main(["status"]) == Exit.FINE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Controller: mode Evict: the controller evicts"
    assert f"policy {status['policy']['hash']} (policy.yaml)" in lines[1]
    plan, moves = status["plan"], len(status["inFlight"])
    assert moves
    assert lines[2].startswith(f"Plan: {plan['evictions']} eviction")
    assert lines[2].endswith(f"; {moves} move in flight.")
    text = "\n".join(lines)
    assert all(f"{move['namespace']}/{move['pod']}" in text for move in status["inFlight"])
    assert all(reason in text for reason in status["refusals"])


def test_the_status_as_a_document(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """The controller's own, whole."""
    server.texts = [written(working())]
    assert entry.main(["status", "-o", "json"]) == Exit.FINE
    assert json.loads(capsys.readouterr().out) == json.loads(server.texts[0])
    assert entry.main(["status", "-o", "yaml"]) == Exit.FINE
    assert yaml.safe_load(capsys.readouterr().out)["kind"] == "Status"


def test_a_pause_and_a_refused_policy_are_named(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Who paused, why and until when; and that the last valid policy stays in force."""
    status = json.loads(written(working()))
    status["paused"] = {"until": "2999-01-01T00:00:00Z", "reason": "zone b", "by": "alice", "error": ""}
    status["policy"] |= {"valid": False, "error": "line 3: mode"}
    server.texts = [json.dumps(status)]
    assert entry.main(["status"]) == Exit.FINE
    out = capsys.readouterr().out
    assert out.startswith("Controller: paused by alice: zone b: the controller will not evict\n")
    assert "\nPaused until 2999-01-01 00:00:00Z; rebalancer resume ends it.\n" in out
    assert out.endswith("\nA newer policy is refused, the last valid one stays in force: line 3: mode\n")


def test_without_a_controller_it_is_an_error(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """The namespace is the likely mistake."""
    assert not server.texts
    assert entry.main(["status"]) == Exit.ERROR
    assert capsys.readouterr().err == (
        "error: no controller has written a status in namespace rebalancer-system; "
        "choose the controller's with --namespace\n"
    )
    server.texts = ['{"kind": "Status", "mode": 3}']
    assert entry.main(["status"]) == Exit.ERROR
    assert "is of another version" in capsys.readouterr().err


def test_watching_shows_each_change_once(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until Ctrl-C, which ends it without a traceback."""
    first = written(working())
    second = json.dumps({**json.loads(first), "mode": "Observe"})
    server.texts = [first, first, second]
    looks = iter([None, None, None])

    def wait(_: float) -> None:
        if next(looks, "over") == "over":
            raise KeyboardInterrupt

    monkeypatch.setattr("rebalancer.cli.status.time.sleep", wait)
    assert entry.main(["status", "--watch"]) == Exit.INTERRUPTED
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Controller: ")]
    assert shown == [
        "Controller: mode Evict: the controller evicts",
        "Controller: mode Observe: the controller will not evict",
    ]
