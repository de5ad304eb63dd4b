"""Guards on the real thing: a Prometheus that scrapes an exporter of the test, and the controller that asks it.

Nothing is evicted beyond a step while the answer is bad, lost, late or from a server with another certificate.
"""

import contextlib
import json
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import certifi
import pytest
import urllib3
import yaml

from tests.cluster.controller import USER, Controller, install, policy, rebalancer
from tests.control_plane import children
from tests.control_plane.api import wait_until
from tests.control_plane.build import MissingPart
from tests.control_plane.layout import deployment, lay_out_owned, nodes, spread
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane, free_ports
from tests.monitoring.programs import or_skip, packaged

GUARD: Final = {"name": "errors", "query": "errors > 5", "present": 'up{job="web"} == 1', "for": "3s"}
HELD: Final = 6.0
"""Seconds for which nothing may follow; a step follows within the half of it otherwise."""


class Exporter:
    """Exports how many errors the application has."""

    def __init__(self, port: int) -> None:
        self.errors, self._port = 0, port
        self._server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(f"# TYPE errors gauge\nerrors {exporter.errors}\n".encode())

            def log_message(self, *_: Any) -> None:
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()


class Prometheus:
    """Prometheus that scrapes the exporter every second; with `tls`, by the certificate in this file and its key."""

    def __init__(self, folder: Path, exporter: int, *, tls: Path | None = None) -> None:
        folder.mkdir()
        self._folder, self._tls = folder, tls
        (self._port,) = free_ports(1)
        scrape = {"job_name": "web", "static_configs": [{"targets": [f"127.0.0.1:{exporter}"]}]}
        every = {"scrape_interval": "1s", "scrape_timeout": "1s"}
        (folder / "prometheus.yaml").write_text(yaml.safe_dump({"global": every, "scrape_configs": [scrape]}))
        server = {"cert_file": str(tls), "key_file": str(tls.with_suffix(".key"))} if tls is not None else {}
        (folder / "web.yaml").write_text(yaml.safe_dump({"tls_server_config": server} if server else {}))
        self.url = f"http{'s' if tls is not None else ''}://127.0.0.1:{self._port}"
        self.child: children.Child | None = None

    def start(self) -> None:
        """Start it, and wait until it has the exporter's data."""
        self.child = children.start(
            "prometheus",
            [
                packaged("prometheus"),
                f"--config.file={self._folder / 'prometheus.yaml'}",
                f"--web.config.file={self._folder / 'web.yaml'}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            log=self._folder / "prometheus.log",
            cwd=self._folder,
        )
        wait_until(self._has_data, what="Prometheus with data", timeout=30)

    def _has_data(self) -> bool:
        assert self.child is not None
        assert self.child.alive(), self.child.tail()
        trusted = str(self._tls) if self._tls is not None else None
        with contextlib.suppress(urllib3.exceptions.HTTPError), urllib3.PoolManager(ca_certs=trusted) as pool:
            url = f"{self.url}/api/v1/query"
            answer = pool.request("GET", url, fields={"query": GUARD["present"]}, timeout=2.0, retries=False)
            return answer.status == 200 and bool(answer.json()["data"]["result"])
        return False

    def signal(self, number: signal.Signals) -> None:
        """Stop it where it is, or let it go on."""
        assert self.child is not None
        os.kill(self.child.pid, number)

    def stop(self) -> None:
        """End it."""
        if self.child is not None:
            children.stop([self.child])
            self.child = None


@pytest.fixture
def exporter() -> tuple[Exporter, int]:
    """Return an exporter that is to be started, and its port."""
    try:
        packaged("prometheus")
    except MissingPart as missing:
        or_skip(missing)
    (port,) = free_ports(1)
    return Exporter(port), port


def guarded(url: str, **prometheus: str) -> str:
    """Return a policy that evicts, with one guard."""
    return policy("Evict", guards={"prometheus": {"url": url, "timeout": "1s", **prometheus}, "queries": [GUARD]})


def skewed(plane: ControlPlane, pods: int) -> None:
    """Lay out a workload in the zones a and b, of which a third has to go to zone c."""
    on = [f"{zone}-{number % 2}" for zone in "ab" for number in range(pods // 2)]
    own = {"app": "web"}
    spreads = [spread(ZONE, labels=own)]
    web = deployment("web", on, namespace="shop", labels=own, cpu="10m", topologySpreadConstraints=spreads)
    lay_out_owned(plane, nodes({"a": 2, "b": 2, "c": 2}), [web], timeout=60)


def evicted(plane: ControlPlane) -> int:
    return sum(one.code == 201 for one in plane.audit.evictions(user=USER))


def await_step(plane: ControlPlane, number: int) -> None:
    wait_until(lambda: evicted(plane) >= number, what=f"eviction {number}", timeout=30)


def stays(plane: ControlPlane, number: int) -> None:
    time.sleep(HELD)
    assert evicted(plane) == number


def not_good(controller: Controller, number: int, says: str) -> None:
    """Await the event that a guard is not good, for the n-th time, with what came back."""

    def notes() -> list[str]:
        return [line["note"] for line in controller.log("reported") if line["reason"] == "GuardNotGood"]

    wait_until(lambda: len(notes()) >= number, what=f"guard not good: {says}", timeout=20)
    assert says in notes()[-1]


@pytest.mark.invariant("guards")
def test_whatever_is_not_a_good_answer_stops_after_one_step(
    cluster: ControlPlane, tmp_path: Path, exporter: tuple[Exporter, int]
) -> None:
    """Errors, a vanished exporter, a Prometheus that hangs or is away: each costs no further pod, and ends."""
    install(cluster, "base", "evict")
    skewed(cluster, 18)
    application, port = exporter
    prometheus = Prometheus(tmp_path / "prometheus", port)
    with contextlib.ExitStack() as running:
        running.callback(prometheus.stop)
        serving = running.enter_context(contextlib.ExitStack())
        serving.enter_context(application)
        prometheus.start()
        controller = running.enter_context(Controller(cluster, tmp_path, guarded(prometheus.url)))
        await_step(cluster, 1)
        application.errors = 9
        not_good(controller, 1, 'the query returned 1 series, first errors{instance="')
        stays(cluster, 1)
        assert controller.metrics()['rebalancer_guard_good{guard="errors"}'] == 0
        assert controller.log("cycle")[-1]["waiting_for"].get("AwaitingGuards")
        kubeconfig = f"--kubeconfig={cluster.kubeconfig()}"
        shown = rebalancer("status", kubeconfig).stdout.decode()
        assert "not every guard is good (errors): no eviction now" in shown
        application.errors = 0
        await_step(cluster, 2)
        serving.close()
        not_good(controller, 2, "the query returned nothing, and present nothing")
        stays(cluster, 2)
        serving.enter_context(application)
        await_step(cluster, 3)
        prometheus.signal(signal.SIGSTOP)
        not_good(controller, 3, f"no answer from {prometheus.url} within 1s")
        stays(cluster, 3)
        prometheus.signal(signal.SIGCONT)
        await_step(cluster, 4)
        prometheus.stop()
        not_good(controller, 4, "Connection refused")
        stays(cluster, 4)
        assert controller.metrics()['rebalancer_guard_errors_total{guard="errors"}'] >= 2
        prometheus.start()
        await_step(cluster, 6)
        wait_until(lambda: controller.log("cycle")[-1]["violated"] == 0, what="the repair's end", timeout=20)
        assert evicted(cluster) == 6


@pytest.mark.invariant("guards")
def test_an_answer_counts_only_from_the_server_that_ca_file_signs(
    cluster: ControlPlane, tmp_path: Path, exporter: tuple[Exporter, int]
) -> None:
    """With another certificate nothing goes; a policy with the right file takes effect without a restart."""
    install(cluster, "base", "evict")
    skewed(cluster, 6)
    application, port = exporter
    prometheus = Prometheus(tmp_path / "prometheus", port, tls=cluster.ca_file)
    token = tmp_path / "token"
    token.write_text("not-to-be-logged")
    with contextlib.ExitStack() as running:
        running.callback(prometheus.stop)
        running.enter_context(application)
        prometheus.start()
        files = {"tokenFile": str(token), "caFile": certifi.where()}
        controller = running.enter_context(Controller(cluster, tmp_path, guarded(prometheus.url, **files)))
        not_good(controller, 1, "certificate verify failed")
        stays(cluster, 0)
        files["caFile"] = str(cluster.ca_file)
        controller.policy_file.write_text(guarded(prometheus.url, **files))
        await_step(cluster, 2)
        access = ("--kubeconfig", str(cluster.kubeconfig()))
        done = rebalancer("check", "--policy", str(controller.policy_file), *access, "-o", "json")
        (guards,) = (one for one in json.loads(done.stdout)["checks"] if one["name"] == "guards")
        assert guards["outcome"] == "ok", guards
    assert "not-to-be-logged" not in controller.log_file.read_text()


@pytest.mark.invariant("canary")
def test_a_canary_is_verified_before_the_others_of_its_workload_go(cluster: ControlPlane, tmp_path: Path) -> None:
    """Afterwards they go as the budgets allow."""
    install(cluster, "base", "evict")
    skewed(cluster, 12)
    budgets = {"canary": 1, "slowStart": False, "maxUnavailable": 4, "perWorkload": "100%", "perNode": 9}
    with Controller(cluster, tmp_path, policy("Evict", budgets=budgets)) as controller:
        await_step(cluster, 4)
        events = [line for line in controller.log() if line.get("event") in {"eviction", "reported", "cycle"}]
        first = next(index for index, line in enumerate(events) if line.get("reason") == "MoveVerified")
        assert [line["event"] for line in events[:first]].count("eviction") == 1
        waited = [line["waiting_for"] for line in events[:first] if line["event"] == "cycle"]
        assert any("AwaitingCanary" in reasons for reasons in waited)
        assert max(line["now"] for line in events if line["event"] == "cycle") > 1
