"""`rebalancer cleanup`: what it deletes, in which order, what it leaves, and what it says where it may not."""

import os
import signal
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
from rebalancer.policy import default_policy
from rebalancer.settings import Settings
from rebalancer.surge.record import Phase, Surge, encode_surges
from tests.adapters.kubernetes.fake_server import ApiServer, Script, answer, reachable, served
from tests.cli.answers import answer_with

NAMESPACE = "rebalancer-system"
WEB = "/apis/apps/v1/namespaces/shop/deployments/web"
SCALE = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/rebalancer/scale"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/rebalancer"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
JOBS = "/apis/batch/v1/namespaces/rebalancer-capacity/jobs"
COST, MARKER = "controller.kubernetes.io/pod-deletion-cost", "rebalancer.dev/deletion-cost"


POD = "/api/v1/namespaces/shop/pods/"
COSTS = {
    "own": {COST: "5", MARKER: "5"},
    "surge": {COST: "-1", MARKER: "-1"},
    "theirs": {COST: "7"},
    "replaced": {COST: "9", MARKER: "5"},
    "none": {},
}
"""Annotations by pod."""


def used(holder: str | None = None, duration: int = 15) -> ApiServer:
    """Return an API server with the objects of a controller, whose Lease somebody holds."""
    made = ApiServer()
    for name in ("status", "control", "approval", "surges"):
        made.put(f"{MAPS}/rebalancer-{name}", data={})
    made.put(f"{MAPS}/rebalancer-policy", data={"policy.yaml": default_policy().to_yaml()})
    made.put(SCALE, spec={"replicas": 1})
    made.put(f"{JOBS}/placeholder-1")
    lease(made, holder, duration)
    for name, annotations in COSTS.items():
        annotate(made, name, annotations)
    return made


def lease(server: ApiServer, holder: str | None, duration: int = 15) -> None:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": duration, "renewTime": "2026-01-01T00:00:00Z"}
    server.put(LEASE, spec=spec)


def annotate(server: ApiServer, name: str, annotations: dict[str, str]) -> None:
    metadata = {"namespace": "shop", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    server.put(f"{POD}{name}", metadata={**metadata, "annotations": annotations}, spec={"containers": []}, status={})


def costs(server: ApiServer) -> dict[str, dict[str, str]]:
    return {name: server.objects[f"{POD}{name}"]["metadata"]["annotations"] for name in COSTS}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    made = used()
    with reachable(made, tmp_path, monkeypatch, "REBALANCER_KUBECONFIG"):
        yield made


def test_everything_that_the_controller_has_written_is_deleted_and_nothing_else(server: ApiServer) -> None:
    """A cost of somebody else stays, and so does the policy; the controller is stopped first."""
    assert entry.main(["cleanup", "--yes"]) == Exit.FINE
    assert server.objects.keys() == {SCALE, f"{MAPS}/rebalancer-policy", *(f"{POD}{name}" for name in COSTS)}
    assert server.objects[SCALE]["spec"] == {"replicas": 0}
    assert costs(server) == {"own": {}, "surge": {}, "theirs": {COST: "7"}, "replaced": {COST: "9"}, "none": {}}
    stopped = server.requests.index(("PATCH", SCALE))
    assert all(method == "GET" for method, _ in server.requests[:stopped])
    assert server.requests[stopped + 1] == ("GET", LEASE)


@pytest.mark.parametrize(("now", "after"), [(8, 6), (7, 7), (6, 6)])
def test_pods_that_a_surge_has_added_are_taken_back(server: ApiServer, now: int, after: int) -> None:
    """And the number of somebody else stands. Else nobody would know that the workload has more than it asked for."""
    began = datetime(2026, 1, 1, tzinfo=UTC)
    surge = Surge(
        namespace="shop",
        kind="Deployment",
        name="web",
        uid="w",
        owner="r",
        group="g",
        count=6,
        added=2,
        victims=(),
        begun=began,
        until=began,
        phase=Phase.WAITING,
    )
    server.put(f"{MAPS}/rebalancer-surges", data={"surges.json": encode_surges([surge])})
    server.put(WEB, metadata={"uid": "w"}, spec={"replicas": now})
    server.put(f"{WEB}/scale", spec={"replicas": now})
    server.objects[WEB]["metadata"] |= {
        "resourceVersion": server.objects[f"{WEB}/scale"]["metadata"]["resourceVersion"]
    }
    assert entry.main(["cleanup", "--yes"]) == Exit.FINE
    assert server.objects[f"{WEB}/scale"]["spec"] == {"replicas": after}


def test_it_may_be_repeated(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the Deployment has been deleted in between."""
    assert entry.main(["cleanup", "--yes"]) == Exit.FINE
    del server.objects[SCALE]
    capsys.readouterr()
    assert entry.main(["cleanup", "--yes"]) == Exit.FINE
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "Deployment rebalancer-system/rebalancer: not found.",
        "Removed the deletion costs of 0 pods.",
        "Deleted 0 placeholder Jobs.",
        "Nothing of the controller is left but what the installation has created.",
    ]


class Waiting:
    """A clock that its own waits advance; `then` happens after so many."""

    def __init__(self, server: ApiServer, *, released_after: int | None = None) -> None:
        self.now = 0.0
        self._server = server
        self._released_after = released_after

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self._released_after is not None and self.now >= self._released_after:
            lease(self._server, None)


@pytest.mark.parametrize(
    ("released_after", "duration", "waited"),
    [(4, 15, 4.0), (None, 15, 16.0), (None, 60, 61.0), (None, 2**31 - 1, 16.0)],
)
def test_nothing_is_deleted_while_somebody_leads(released_after: int | None, duration: int, waited: float) -> None:
    """Until the Lease is released, or has not been renewed for as long as it lasts, by our own clock.

    One of more than ten minutes lasts as long as that of this process would.
    """
    server = used("rebalancer-1", duration)
    waiting = Waiting(server, released_after=released_after)
    with served(server) as transport:
        cleanup.await_free_lease(transport, Settings(), clock=lambda: waiting.now, sleep=waiting.sleep)
    assert waiting.now == waited
    assert all(method == "GET" for method, _ in server.requests)


def test_a_controller_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that runs elsewhere renews the Lease for ever."""
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


def changing(server: ApiServer, times: int) -> Script:
    """Have somebody else change a pod right before the first writes arrive."""
    changes = iter(range(times))

    def change(_: Any) -> None:
        if next(changes, None) is not None:
            annotate(server, "own", COSTS["own"])

    return change


def test_a_pod_that_changes_meanwhile_is_read_again() -> None:
    """Nothing is written over what somebody else has written a moment ago."""
    server = used()
    server.answers["PATCH", f"{POD}own"] = changing(server, 3)
    with served(server) as transport:
        assert cleanup.remove_costs(leftovers(transport)) == 3
    assert costs(server)["own"] == {}
    server = used()
    server.answers["PATCH", f"{POD}own"] = changing(server, 1000)
    with served(server) as transport, pytest.raises(CliError, match="change all the time"):
        cleanup.remove_costs(leftovers(transport))


def test_missing_rights_are_named(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Of placeholders a warning: they end by themselves. Of everything else an error, and nothing more is done."""
    server.answers["GET", JOBS] = 403
    assert entry.main(["cleanup", "--yes"]) == Exit.FINE
    assert "warning: placeholders in rebalancer-capacity are not deleted" in capsys.readouterr().err
    annotate(server, "own", COSTS["own"])
    server.answers = {("PATCH", f"{POD}own"): 403}
    assert entry.main(["cleanup", "--yes"]) == Exit.ERROR
    assert "deletion cost of pod shop/own cannot be removed" in capsys.readouterr().err
    server.answers = {("PATCH", SCALE): (403, f"{SCALE} is forbidden")}
    server.requests.clear()
    assert entry.main(["cleanup", "--yes"]) == Exit.ERROR
    assert "is forbidden" in capsys.readouterr().err
    assert [row for row in server.requests if row[0] != "GET"] == [("PATCH", SCALE)]


def test_where_it_cannot_go_on_it_starts_the_controller_again(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of a cleanup must not leave nobody at work, without a word."""
    server.answers["PATCH", f"{POD}own"] = 403
    assert entry.main(["cleanup", "--yes"]) == Exit.ERROR
    assert "scaled back to 1; its ConfigMaps and its Lease were not deleted." in capsys.readouterr().out
    assert server.objects[SCALE]["spec"] == {"replicas": 1}
    assert f"{MAPS}/rebalancer-status" in server.objects


def test_the_end_of_its_pod_starts_the_controller_again(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    def end(_: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    server.answers["PATCH", f"{POD}own"] = end
    try:
        assert entry.main(["cleanup", "--yes"]) == Exit.INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "scaled back to 1" in capsys.readouterr().out
    assert server.objects[SCALE]["spec"] == {"replicas": 1}


def test_where_it_cannot_be_started_again_that_is_said(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.answers["PATCH", f"{POD}own"] = 403
    server.answers["PATCH", SCALE] = lambda body: None if body["spec"]["replicas"] == 0 else 403
    assert entry.main(["cleanup", "--yes"]) == Exit.ERROR
    assert "stays scaled to 0, it cannot be scaled back to 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "answered", "code"), [(["--dry-run"], None, Exit.FINE), ([], "n", Exit.ERROR), ([], "", Exit.ERROR)]
)
def test_it_shows_what_it_would_do_and_changes_nothing_without_a_yes(
    flags: list[str],
    answered: str | None,
    code: Exit,
    server: ApiServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if answered is not None:
        answer_with(monkeypatch, answered)
    assert entry.main(["cleanup", *flags]) == code
    out = capsys.readouterr().out
    assert "Deployment rebalancer-system/rebalancer: 1 replica; to be scaled to 0." in out
    assert "the deletion costs of 3 pods" in out
    assert "Nothing was changed." in out
    assert all(method == "GET" for method, _ in server.requests)


def test_without_a_terminal_it_needs_a_yes(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["cleanup"]) == Exit.USAGE
    assert "add --yes to do it, or --dry-run to look" in capsys.readouterr().err
    assert all(method == "GET" for method, _ in server.requests)
