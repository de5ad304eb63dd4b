"""The process from start to end against an API server with scripted answers."""

import json
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import urllib3
from apscheduler.triggers.interval import IntervalTrigger
from kubernetes.client import Configuration
from structlog.testing import capture_logs

from rebalancer.adapters.kubernetes.transport import NotConnected, RequestRefused, Transport, Unreachable
from rebalancer.adapters.web import CannotListen
from rebalancer.cli.main import main
from rebalancer.controller import process
from rebalancer.controller.policy_source import POLL_SECONDS, open_policy
from rebalancer.controller.runner import Runner
from rebalancer.controller.state import UnderWay
from rebalancer.model.cluster import NEWEST, OLDEST
from rebalancer.settings import load_settings
from tests.adapters.kubernetes.fake_server import ApiServer, answer, begin_stream, chunk, served, write_kubeconfig
from tests.build import HEAD
from tests.controller.waiting import until

Terminate = Callable[[Callable[[], bool]], list[float]]


HOME = "home"
ANY_PORT = "127.0.0.1:0"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/rebalancer"


def holder(cluster: ApiServer) -> str:
    """Return who holds the Lease, "" for nobody."""
    return str(cluster.objects[LEASE]["spec"]["holderIdentity"] or "")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run the process against a handler with some flags."""
    monkeypatch.setenv("REBALANCER_METRICS_ADDRESS", ANY_PORT)
    monkeypatch.setenv("REBALANCER_PAGE_ADDRESS", ANY_PORT)

    def start(handler: Callable[[BaseHTTPRequestHandler], None], **flags: object) -> None:
        with served(handler) as transport:
            monkeypatch.setattr(process, "connect", lambda **_: Transport(transport.configuration, read_timeout=2.0))
            process.run(load_settings({"namespace": HOME, "once": True, **flags}))

    return start


@pytest.fixture
def taken_port() -> Iterator[int]:
    """Return a port of this machine on which something listens already."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


@pytest.fixture
def terminate() -> Terminate:
    """Send SIGTERM to this process once something holds, and return a list that has the moment then."""

    def start(ready: Callable[[], bool]) -> list[float]:
        sent: list[float] = []

        def wait() -> None:
            limit = time.monotonic() + 20
            while not ready() and time.monotonic() < limit:
                time.sleep(0.02)
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=wait, daemon=True).start()
        return sent

    return start


def test_a_silent_server_does_not_delay_the_end(run: Callable[..., None], terminate: Terminate) -> None:
    """Lists of every kind wait for their answers: they are interrupted all at once."""
    waiting: list[str] = []
    silent = threading.Event()

    def handle(request: BaseHTTPRequestHandler) -> None:
        if request.path == "/version":
            answer(request, 200, {"major": "1", "minor": "34"})
            return
        waiting.append(request.path)
        silent.wait(20)
        request.close_connection = True

    sent = terminate(lambda: len(waiting) > 10)
    run(handle, once=False, mode="Observe")
    silent.set()
    assert time.monotonic() - sent[0] < 4


@pytest.mark.parametrize(
    ("minor", "words"),
    [
        (NEWEST.minor + 1, f"the newest release whose scheduler is modelled is {NEWEST}: "),
        (OLDEST.minor - 1, f"the oldest release whose scheduler is modelled is {OLDEST}: "),
        (NEWEST.minor, ""),
        (OLDEST.minor, ""),
    ],
)
def test_a_release_that_is_not_modelled_is_accepted_with_one_warning(
    run: Callable[..., None], minor: int, words: str
) -> None:
    """It names both releases; of one that is modelled nothing is said."""
    server = ApiServer()
    server.answers["GET", "/version"] = 200, {"major": "1", "minor": f"{minor}+"}
    with capture_logs() as logs:
        run(server, mode="Observe")
    said = [entry["event"] for entry in logs if "is modelled" in entry["event"]]
    assert len(said) == bool(words)
    assert all(text.startswith(f"the API server is Kubernetes 1.{minor}, {words}") for text in said)
    assert {"starting", "ended"} <= {entry["event"] for entry in logs}


def test_a_process_that_plans_at_its_end_releases_the_lease(
    run: Callable[..., None], terminate: Terminate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no request under way, and sends none afterwards: nobody has to wait until the Lease runs out."""
    planning, planned = threading.Event(), threading.Event()
    loops: list[Runner] = []

    class Loop(Runner):
        def _run_cycle(self) -> None:
            if self.state.leadership.leads:
                loops.append(self)
                planning.set()
                planned.wait(20)

    monkeypatch.setattr(process, "Runner", Loop)
    monkeypatch.setattr(process, "LOOP_STOP_SECONDS", 0.3)
    cluster = ApiServer()
    sent = terminate(planning.is_set)
    run(cluster, once=False)
    assert time.monotonic() - sent[0] < 4
    assert holder(cluster) == ""
    assert loops[0]._find_objection(1) == "this process no longer leads"
    planned.set()


def test_a_request_under_way_at_the_end_keeps_the_lease(
    run: Callable[..., None], terminate: Terminate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next leader must not act beside it: the Lease runs out by itself. The process ends within ten seconds."""
    sending, answered = threading.Event(), threading.Event()

    class Loop(Runner):
        def _run_cycle(self) -> None:
            if self.state.leadership.leads:
                self.state = replace(
                    self.state, queue=replace(self.state.queue, under_way=(UnderWay(uid="u", group="g"),))
                )
                sending.set()
                answered.wait(20)

    assert process.LOOP_STOP_SECONDS == 4
    monkeypatch.setattr(process, "LOOP_STOP_SECONDS", 0.3)
    monkeypatch.setattr(process, "Runner", Loop)
    cluster = ApiServer()
    sent = terminate(sending.is_set)
    run(cluster, once=False)
    assert time.monotonic() - sent[0] < 6
    assert holder(cluster)
    answered.set()


def test_a_follower_leads_without_listing_again(
    run: Callable[..., None], terminate: Terminate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its watches go on while it waits, so that the first cycle comes right after the Lease."""
    waiting, planned = threading.Event(), threading.Event()

    class Loop(Runner):
        def _run_cycle(self) -> None:
            super()._run_cycle()
            (planned if self.state.leadership.leads else waiting).set()

    monkeypatch.setattr(process, "Runner", Loop)
    cluster = ApiServer()
    record = {"holderIdentity": "another", "leaseDurationSeconds": 3, "leaseTransitions": 1}
    cluster.put(LEASE, spec=record)
    terminate(planned.is_set)
    run(cluster, once=False, lease_duration="3s", renew_deadline="2s", retry_period="1s")
    assert waiting.is_set(), "it had to wait for the Lease"
    assert holder(cluster) == ""
    assert cluster.requests.count(("GET", "/api/v1/pods")) == cluster.requests.count(("GET", "/api/v1/nodes")) == 1


def refusing(*answer: Any) -> ApiServer:
    """Return an API server that refuses every request about the Lease."""
    made = ApiServer()
    for request in (("GET", LEASE), ("PATCH", LEASE), ("PUT", LEASE), ("POST", LEASE.rpartition("/")[0])):
        made.answers[request] = answer
    return made


def test_a_missing_namespace_is_named_at_once(run: Callable[..., None]) -> None:
    """The message has the command that creates it; no lease duration is waited for."""
    began = time.monotonic()
    with pytest.raises(process.StartError) as caught:
        run(refusing(404, 'namespaces "home" not found'))
    assert str(caught.value) == (
        "the namespace home of the Lease does not exist. Create it with `kubectl create namespace home`, "
        "or choose another with --controller-namespace"
    )
    assert time.monotonic() - began < 10


def test_missing_rights_on_the_lease_are_named_at_once(run: Callable[..., None]) -> None:
    """The message has the server's words, the verbs, and the manifest that grants them."""
    with pytest.raises(process.StartError) as caught:
        run(refusing(403, 'leases "rebalancer" is forbidden'))
    assert str(caught.value) == (
        'leases "rebalancer" is forbidden. Grant the verbs get, create and patch on leases in namespace home '
        "with the Role in deploy/base/role.yaml, or choose another with --controller-namespace"
    )


def test_run_once_opens_no_port_without_a_metrics_address(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it ends well on a laptop where the default port is taken."""
    monkeypatch.delenv("REBALANCER_METRICS_ADDRESS")
    with capture_logs() as logs:
        run(ApiServer())
    events = [entry["event"] for entry in logs]
    assert "listening" not in events
    assert events[-1] == "ended"


def test_run_once_listens_where_an_address_is_given(run: Callable[..., None], taken_port: int) -> None:
    """A flag or the variable asks for it, so a taken port is an error then."""
    with capture_logs() as logs:
        run(ApiServer(), metrics_address=ANY_PORT)
    assert "listening" in [entry["event"] for entry in logs]
    with pytest.raises(Exception, match=str(taken_port)):
        run(ApiServer(), metrics_address=f"127.0.0.1:{taken_port}")


@pytest.mark.parametrize("name", ["metrics_address", "page_address"])
def test_a_port_in_use_names_the_flag_and_the_variable(
    name: str, run: Callable[..., None], taken_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the server that wants it; whichever of both, so that nobody moves the other one."""
    monkeypatch.setenv(f"REBALANCER_{name.upper()}", f"127.0.0.1:{taken_port}")
    flag = "--" + name.replace("_", "-")
    with pytest.raises(CannotListen) as caught:
        run(ApiServer(), once=False)
    assert str(caught.value) == (
        f"cannot listen on 127.0.0.1:{taken_port}: Address already in use; choose another address with {flag} or "
        f"REBALANCER_{name.upper()}"
    )


VERSION = ("GET", "/version")
PODS = ("GET", "/api/v1/pods")


@pytest.mark.parametrize("request_of_it", [VERSION, PODS], ids=["version", "first lists"])
@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_start_survives_a_bad_moment_of_the_api_server(
    run: Callable[..., None], request_of_it: tuple[str, str], code: int
) -> None:
    """It asks again, with a word in the log for each time; then all is as ever."""
    server = ApiServer()
    server.answers[request_of_it] = code, "not now"
    threading.Timer(1.8, server.answers.clear).start()
    with capture_logs() as logs:
        run(server, mode="Observe")
    waits = [entry["error"] for entry in logs if entry["event"] in {"waiting for the API server", "watch failed"}]
    assert waits.count(f"GET {request_of_it[1]}: HTTP {code}: not now") >= 2
    assert logs[-1]["event"] == "ended"


def test_a_start_survives_refused_connections(monkeypatch: pytest.MonkeyPatch, insecure: str) -> None:
    """It waits longer each time, and after two minutes it ends, for Kubernetes to start it again."""
    assert process.SYNC_SECONDS == 120
    monkeypatch.setattr(process, "SYNC_SECONDS", 2.0)
    settings = load_settings({"kubeconfig": insecure, "metrics_address": ANY_PORT, "page_address": ANY_PORT})
    with capture_logs() as logs, pytest.raises(Unreachable, match="GET /version: no response"):
        process.run(settings)
    waits = [entry["next_in"] for entry in logs if entry["event"] == "waiting for the API server"]
    assert waits[:2] == [0.5, 1.0]
    assert "listening" in [entry["event"] for entry in logs]


@pytest.mark.parametrize("code", [401, 403, 404])
def test_wrong_credentials_end_a_start_at_once(run: Callable[..., None], code: int) -> None:
    """With the server's words, at the version and at the first list; so does a server that is none of Kubernetes."""
    began = time.monotonic()
    server = ApiServer()
    server.answers[VERSION] = code, "who are you?"
    with pytest.raises(RequestRefused, match=f"GET /version: HTTP {code}: who are you"):
        run(server)
    if code != 404:
        server = ApiServer()
        server.answers[PODS] = code, "who are you?"
        with pytest.raises(process.StartError, match=f"GET /api/v1/pods: HTTP {code}: who are you"):
            run(server)
    assert time.monotonic() - began < 4


def test_a_tls_error_ends_a_start_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate or a protocol that is wrong stays wrong."""
    monkeypatch.setenv("REBALANCER_METRICS_ADDRESS", ANY_PORT)
    monkeypatch.setenv("REBALANCER_PAGE_ADDRESS", ANY_PORT)
    began = time.monotonic()
    with served(ApiServer()) as transport:
        address = transport.host.replace("http://", "https://")
        monkeypatch.setattr(
            process, "connect", lambda **_: Transport(Configuration(host=address, retries=False), read_timeout=2.0)
        )
        with pytest.raises(NotConnected, match=r"GET /version: no response from https://.*SSL"):
            process.run(load_settings({"namespace": HOME}))
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("request_of_it", [VERSION, PODS], ids=["version", "first lists"])
def test_readiness_says_what_a_start_waits_for(
    run: Callable[..., None], terminate: Terminate, request_of_it: tuple[str, str]
) -> None:
    """Whoever reads the probe need not read the log; the process is alive meanwhile, and ends at once."""
    server = ApiServer()
    server.answers[request_of_it] = 503, "etcd is away"
    said: list[tuple[int, str]] = []
    with capture_logs() as logs:

        def ready() -> bool:
            port = next((entry["port"] for entry in logs if entry["event"] == "listening"), None)
            if port is None:
                return False
            for path in ("/healthz", "/readyz"):
                answered = urllib3.request("GET", f"http://127.0.0.1:{port}{path}", retries=False)
                said.append((answered.status, answered.data.decode()))
            return "etcd is away" in said[-1][1]

        sent = terminate(ready)
        run(server, once=False)
    assert time.monotonic() - sent[0] < 4
    (healthy, _), (code, text) = said[-2:]
    assert (healthy, code) == (200, 503)
    assert f"GET {request_of_it[1]}: HTTP 503: etcd is away" in text


@pytest.fixture
def insecure(tmp_path: Path) -> str:
    """Write a kubeconfig whose server's certificate is not verified; nothing listens there."""
    return str(write_kubeconfig(tmp_path, "https://127.0.0.1:1", **{"insecure-skip-tls-verify": True}))


NOT_VERIFIED = (
    "the certificate of https://127.0.0.1:1 is not verified: insecure-skip-tls-verify is set in the kubeconfig. "
    "Set certificate-authority instead"
)


def test_an_unverified_certificate_is_one_warning_of_the_process(
    insecure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller logs it once; urllib3's own warning, one for each request, is off."""
    monkeypatch.setattr(process, "SYNC_SECONDS", 0.0)
    settings = load_settings({"kubeconfig": insecure, "metrics_address": ANY_PORT, "page_address": ANY_PORT})
    with capture_logs() as logs, pytest.raises(Exception, match="no response"):
        process.run(settings)
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == [NOT_VERIFIED]
    warnings.warn("each request", urllib3.exceptions.InsecureRequestWarning, stacklevel=1)  # an error if it were shown


def test_an_unverified_certificate_is_one_warning_of_a_command(
    insecure: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands write it to standard error, before any request to the server."""
    assert main(["report", "--kubeconfig", insecure]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors[0] == f"warning: {NOT_VERIFIED}"
    assert [line for line in errors if "warning" in line.lower()] == errors[:1]


def test_a_verified_certificate_has_no_warning() -> None:
    """As with every connection of these tests that is not made on purpose."""
    with served(ApiServer()) as transport:
        assert transport.warnings == ()


def test_a_clock_that_is_set_back_stops_neither_cycles_nor_the_reading_of_the_policy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where the scheduler waits for a time of day that is an hour away, threads go by the clock that only rises."""
    monkeypatch.setattr(IntervalTrigger, "get_next_fire_time", lambda *_: datetime.now(UTC) + timedelta(hours=1))
    file = tmp_path / "policy.yaml"
    file.write_text(HEAD)
    with served(ApiServer()) as transport:
        settings = load_settings(
            {"namespace": HOME, "page_address": ANY_PORT, "metrics_address": ANY_PORT, "policy": str(file)}
        )
        policy = open_policy(settings, transport)
        clocks, interval = process.SYSTEM_CLOCKS, timedelta(seconds=0.2)
        controller = process._Controller(settings, clocks, transport, policy, interval)
        try:
            controller.listen()
            controller.start(threading.Event())
            until(lambda: controller._runner.state.turn >= 4, "four cycles")
            file.write_text(file.read_text() + "eligibility: {minAge: 7m}\n")
            began = time.monotonic()
            until(
                lambda: controller._runner.state.in_force.policy.eligibility.min_age == timedelta(minutes=7),
                "the policy",
            )
            assert time.monotonic() - began < 2 * POLL_SECONDS
        finally:
            controller.stop()


def test_a_change_in_the_cluster_has_a_cycle_follow() -> None:
    """From the watch to the loop: it does not wait for the interval, which is an hour."""
    cluster, returns = ApiServer(), threading.Event()

    def handle(request: BaseHTTPRequestHandler) -> None:
        if "/nodes?" not in request.path or "watch=" not in request.path:
            cluster(request)
            return
        begin_stream(request)
        while not returns.wait(0.5):
            bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}}
            chunk(request, json.dumps(bookmark).encode() + b"\n")
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        metadata = {"name": "n", "uid": "n", "resourceVersion": "2", "creationTimestamp": "2026-01-01T00:00:00Z"}
        node = {"metadata": metadata, "status": {"conditions": [ready]}}
        chunk(request, json.dumps({"type": "ADDED", "object": node}).encode() + b"\n")
        time.sleep(1)

    with served(handle) as transport:
        settings = load_settings({"namespace": HOME, "page_address": ANY_PORT, "metrics_address": ANY_PORT})
        policy = open_policy(settings, transport)
        controller = process._Controller(
            settings, process.SYSTEM_CLOCKS, transport, policy, interval=timedelta(hours=1)
        )
        try:
            controller.listen()
            controller.start(threading.Event())
            until(lambda: controller._runner.state.turn > 0, "the first cycle")
            time.sleep(0.5)  # what has begun with the process is over
            before = controller._runner.state.turn
            returns.set()
            until(lambda: controller._runner.state.turn > before, "a cycle after the node")
        finally:
            controller.stop()


def test_the_end_of_any_thread_is_seen(tmp_path: Path) -> None:
    """`/healthz` watches every thread on which a decision depends; two do not: the web server's, and the interval's.

    The first one answers for itself, and without the second one cycles come half as often.
    """
    file = tmp_path / "policy.yaml"
    file.write_text(HEAD)
    before = set(threading.enumerate())
    with served(ApiServer()) as transport:
        settings = load_settings(
            {"namespace": HOME, "page_address": ANY_PORT, "metrics_address": ANY_PORT, "policy": str(file)}
        )
        policy = open_policy(settings, transport)
        controller = process._Controller(settings, process.SYSTEM_CLOCKS, transport, policy, None)
        try:
            controller.listen()
            controller.start(threading.Event())
            until(lambda: controller._runner.state.turn >= 1, "a cycle")
            watched = {*controller._cluster.threads, *controller._telemetry._threads}
            begun = {thread for thread in threading.enumerate() if thread not in before and thread.is_alive()}
        finally:
            controller.stop()
    named = {thread.name for thread in begun - watched if not thread.name.startswith("Thread-")}
    assert named == {"web", "APScheduler"}
    assert {"deadlines", "loop", "lease", "policy", "team-policies", "prevention", "events"} <= {
        thread.name for thread in watched
    }
    assert watched <= begun
