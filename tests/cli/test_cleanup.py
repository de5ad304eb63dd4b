"""`rebalancer cleanup`: what it deletes, in which order, what it leaves, and what it says where it may not."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from rebalancer.adapters.kubernetes.leftovers import Leftovers
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.cli import cleanup
from rebalancer.cli import main as entry
from rebalancer.cli.errors import CliError, Exit
from rebalancer.settings import Settings
from tests.adapters.kubernetes.fake_server import answer, served
from tests.cli.reachable import reachable

NAMESPACE = "rebalancer-system"
SCALE = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/rebalancer/scale"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/rebalancer"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
JOBS = "/apis/batch/v1/namespaces/rebalancer-capacity/jobs"
COST, MARKER = "controller.kubernetes.io/pod-deletion-cost", "rebalancer.dev/deletion-cost"


class Server:
    """An API server with the objects of a controller; `refused` are answered with 403, by method and path."""

    def __init__(self) -> None:
        self.objects = {SCALE, LEASE, *(f"{MAPS}/rebalancer-{name}" for name in ("status", "control", "approval"))}
        self.objects |= {f"{MAPS}/rebalancer-policy", f"{JOBS}/placeholder-1"}
        self.holder: str | None = None
        self.duration = 15
        self.costs: dict[str, dict[str, str]] = {
            "own": {COST: "5", MARKER: "5"},
            "theirs": {COST: "7"},
            "replaced": {COST: "9", MARKER: "5"},
            "none": {},
        }
        self.versions = dict.fromkeys(self.costs, 1)
        self.changing = 0
        self.refused: set[tuple[str, str]] = set()
        self.requests: list[tuple[str, str]] = []

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers.get("Content-Length") or 0)) or b"{}")
        path = request.path.partition("?")[0]
        self.requests.append((request.command, path))
        if (request.command, path) in self.refused:
            answer(request, 403, {"kind": "Status", "message": f"{path} is forbidden"})
        elif path.startswith("/api/v1/namespaces/shop/pods/"):
            answer(request, *self._patch(path.rpartition("/")[2], body))
        elif path == "/api/v1/pods":
            answer(request, 200, {"metadata": {}, "items": [self._pod(name) for name in self.costs]})
        elif path == JOBS:
            names = [entry.rpartition("/")[2] for entry in self.objects if entry.startswith(JOBS)]
            answer(request, 200, {"items": [{"metadata": {"name": name}} for name in names]})
        elif path not in self.objects:
            answer(request, 404, {"kind": "Status", "message": "not found"})
        elif request.command == "DELETE":
            self.objects.discard(path)
            answer(request, 200, {})
        elif path == LEASE:
            spec = {
                "holderIdentity": self.holder,
                "leaseDurationSeconds": self.duration,
                "renewTime": "2026-01-01T00:00:00Z",
            }
            answer(request, 200, {"metadata": {"resourceVersion": "1"}, "spec": spec})
        else:
            assert (path, body) == (SCALE, {"spec": {"replicas": 0}})
            answer(request, 200, {})

    def _patch(self, name: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.changing:
            self.changing -= 1
            self.versions[name] += 1
        if body["metadata"]["resourceVersion"] != str(self.versions[name]):
            return 409, {"message": "the object has been modified"}
        assert set(body["metadata"]["annotations"].values()) == {None}
        for key in body["metadata"]["annotations"]:
            self.costs[name].pop(key, None)
        return 200, {"metadata": {"resourceVersion": "9"}}

    def _pod(self, name: str) -> dict[str, Any]:
        version = self.versions[name] - (1 if self.changing else 0)
        metadata = {"namespace": "shop", "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        return {
            "metadata": {**metadata, "annotations": dict(self.costs[name]), "resourceVersion": str(version)},
            "spec": {"containers": []},
            "status": {},
        }


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    made = Server()
    with reachable(made, tmp_path, monkeypatch, "REBALANCER_KUBECONFIG"):
        yield made


def test_everything_that_the_controller_has_written_is_deleted_and_nothing_else(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cost of somebody else stays, and so does the policy; the controller is stopped first."""
    assert entry.main(["cleanup"]) == Exit.FINE
    assert server.objects == {SCALE, f"{MAPS}/rebalancer-policy"}
    assert server.costs == {"own": {}, "theirs": {COST: "7"}, "replaced": {COST: "9"}, "none": {}}
    assert server.requests[:2] == [("PATCH", SCALE), ("GET", LEASE)]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Deployment rebalancer-system/rebalancer: scaled to 0."
    assert "Removed the deletion costs of 2 pods." in lines
    assert "Deleted 1 placeholder Job." in lines
    assert "Deleted Lease rebalancer-system/rebalancer." in lines


def test_it_may_be_repeated(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the Deployment has been deleted in between."""
    assert entry.main(["cleanup"]) == Exit.FINE
    server.objects.discard(SCALE)
    capsys.readouterr()
    assert entry.main(["cleanup"]) == Exit.FINE
    assert capsys.readouterr().out.splitlines() == [
        "Deployment rebalancer-system/rebalancer: not found.",
        "Removed the deletion costs of 0 pods.",
        "Deleted 0 placeholder Jobs.",
        "Nothing of the controller is left but what the installation has created.",
    ]


class Waiting:
    """A clock that its own waits advance; `then` happens after so many."""

    def __init__(self, server: Server, *, released_after: int | None = None) -> None:
        self.now = 0.0
        self._server = server
        self._released_after = released_after

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self._released_after is not None and self.now >= self._released_after:
            self._server.holder = None


@pytest.mark.parametrize(
    ("released_after", "duration", "waited"),
    [(4, 15, 4.0), (None, 15, 16.0), (None, 60, 61.0), (None, 2**31 - 1, 16.0)],
)
def test_nothing_is_deleted_while_somebody_leads(released_after: int | None, duration: int, waited: float) -> None:
    """Until the Lease is released, or has not been renewed for as long as it lasts, by our own clock.

    One of more than ten minutes lasts as long as that of this process would.
    """
    server = Server()
    server.duration = duration
    server.holder = "rebalancer-1"
    waiting = Waiting(server, released_after=released_after)
    with served(server) as transport:
        cleanup.await_free_lease(transport, Settings(), clock=lambda: waiting.now, sleep=waiting.sleep)
    assert waiting.now == waited
    assert all(method == "GET" for method, _ in server.requests)


def test_a_controller_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that runs elsewhere renews the Lease for ever."""
    server = Server()
    server.holder = "laptop-1"
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def renewing(request: BaseHTTPRequestHandler) -> None:
        spec = {"holderIdentity": "laptop-1", "leaseDurationSeconds": 15}
        renewed = datetime.fromtimestamp(now, UTC).isoformat()
        answer(request, 200, {"metadata": {"resourceVersion": "1"}, "spec": {**spec, "renewTime": renewed}})

    with served(renewing) as transport, pytest.raises(CliError, match=r"laptop-1 still leads.*End it"):
        cleanup.await_free_lease(transport, Settings(), clock=lambda: now, sleep=sleep)
    assert now == 76.0


def leftovers(transport: Transport) -> Leftovers:
    return Leftovers(transport, NAMESPACE)


def test_a_pod_that_changes_meanwhile_is_read_again() -> None:
    """Nothing is written over what somebody else has written a moment ago."""
    server = Server()
    server.changing = 3
    with served(server) as transport:
        assert cleanup.remove_costs(leftovers(transport)) == 2
    assert server.costs["own"] == {}
    server = Server()
    server.changing = 1000
    with served(server) as transport, pytest.raises(CliError, match="change all the time"):
        cleanup.remove_costs(leftovers(transport))


def test_missing_rights_are_named(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Of placeholders a warning: they end by themselves. Of everything else an error, and nothing more is done."""
    server.refused = {("GET", JOBS)}
    assert entry.main(["cleanup"]) == Exit.FINE
    assert "warning: placeholders in rebalancer-capacity are not deleted" in capsys.readouterr().err
    server.costs["own"] = {COST: "5", MARKER: "5"}
    server.refused = {("PATCH", "/api/v1/namespaces/shop/pods/own")}
    assert entry.main(["cleanup"]) == Exit.ERROR
    assert "deletion cost of pod shop/own cannot be removed" in capsys.readouterr().err
    server.refused = {("PATCH", SCALE)}
    server.requests.clear()
    assert entry.main(["cleanup"]) == Exit.ERROR
    assert "is forbidden" in capsys.readouterr().err
    assert server.requests == [("PATCH", SCALE)]
