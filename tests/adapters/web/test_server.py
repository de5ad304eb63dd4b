"""The server that probes and scrapes ask."""

import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from typing import NoReturn

import pytest
from prometheus_client import CollectorRegistry, Counter

from rebalancer.adapters.web import CannotListen, Checks, WebServer, server


class Served:
    """A server, and questions to it."""

    def __init__(self, *, live: Checks, ready: Checks) -> None:
        self.registry = CollectorRegistry()
        Counter("cakes_total", "Cakes.", registry=self.registry).inc()
        self.server = WebServer("127.0.0.1", 0, registry=self.registry, live=live, ready=ready)
        self.server.start()

    def ask(self, path: str, method: str = "GET") -> tuple[int, str]:
        with closing(http.client.HTTPConnection(*self.server.address, timeout=5)) as connection:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()


troubles: dict[str, str] = {}


@pytest.fixture
def served() -> Iterator[Served]:
    troubles.clear()
    checks = {name: (lambda name=name: troubles.get(name, "")) for name in ("watches", "cycle")}
    made = Served(live={"cycle": checks["cycle"]}, ready=checks)
    yield made
    made.server.stop()


def test_metrics_are_those_of_the_registry(served: Served) -> None:
    status, text = served.ask("/metrics")
    assert status == 200
    assert "cakes_total 1.0" in text


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_all_is_well_in_one_word(served: Served, path: str) -> None:
    assert served.ask(path) == (200, "ok\n")


def test_verbose_lists_the_checks(served: Served) -> None:
    assert served.ask("/readyz?verbose") == (200, "[+]watches ok\n[+]cycle ok\nreadyz check passed\n")


def test_a_check_that_fails_is_named_with_its_reason(served: Served) -> None:
    """Readiness fails, liveness does not: a cluster that is away is no reason for a restart."""
    troubles["watches"] = "Pod: not listed yet"
    status, text = served.ask("/readyz")
    assert status == 503
    assert text == "[-]watches failed: Pod: not listed yet\n[+]cycle ok\nreadyz check failed\n"
    assert served.ask("/healthz") == (200, "ok\n")


def test_a_check_that_breaks_has_failed() -> None:
    def broken() -> NoReturn:
        raise KeyError("x")

    made = Served(live={"broken": broken}, ready={})
    try:
        assert made.ask("/healthz") == (503, "[-]broken failed: KeyError: 'x'\nhealthz check failed\n")
        assert made.ask("/readyz") == (200, "ok\n")
    finally:
        made.server.stop()


@pytest.mark.parametrize("path", ["/", "/metrics/", "/healthz/x", "/favicon.ico", "/../metrics", "/%00"])
def test_other_paths_are_not_found(served: Served, path: str) -> None:
    status, text = served.ask(path)
    assert status == 404
    assert "/metrics, /healthz, /readyz" in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/metrics", "/readyz"])
def test_nothing_is_written_through_it(served: Served, method: str, path: str) -> None:
    assert served.ask(path, method)[0] == 405


def test_a_silent_client_keeps_nobody_waiting(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server._Handler.timeout == 5
    monkeypatch.setattr(server._Handler, "timeout", 0.2)
    with closing(socket.create_connection(served.server.address)) as silent:
        silent.sendall(b"GET /met")
        began = time.monotonic()
        assert served.ask("/metrics")[0] == 200
        assert time.monotonic() - began < 2
        silent.settimeout(5)
        assert silent.recv(100) == b""


def test_clients_that_go_away_leave_no_trace(served: Served, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        with closing(socket.create_connection(served.server.address)) as gone:
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            gone.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert served.ask("/healthz")[0] == 200
    assert capfd.readouterr().err == ""


def test_a_collector_that_breaks_does_not_end_the_server(served: Served) -> None:
    class Broken:
        def collect(self) -> NoReturn:
            raise RuntimeError("no figures")

    broken = Broken()
    served.registry._collector_to_names[broken] = []
    assert served.ask("/metrics")[0] == 500
    assert served.ask("/healthz")[0] == 200


def test_it_stops_within_a_second_and_gives_the_port_back(served: Served) -> None:
    with closing(socket.create_connection(served.server.address)):
        host, port = served.server.address
        began = time.monotonic()
        served.server.stop()
        assert time.monotonic() - began < 1
    again = WebServer(host, port, registry=served.registry, live={}, ready={})
    assert again.address == (host, port)
    again.stop()


def test_a_port_in_use_is_reported_before_anything_else(served: Served) -> None:
    host, port = served.server.address
    with pytest.raises(CannotListen, match=rf"cannot listen on {host}:{port}: Address already in use"):
        WebServer(host, port, registry=served.registry, live={}, ready={})


@pytest.mark.parametrize(("host", "port"), [("192.0.2.1", 0), ("127.0.0.1", 70000), ("no such host", 0)])
def test_foreign_addresses_are_reported(host: str, port: int) -> None:
    with pytest.raises(CannotListen, match=f"cannot listen on {host}:{port}: .+"):
        WebServer(host, port, registry=CollectorRegistry(), live={}, ready={})


def test_without_a_host_all_addresses_are_listened_on() -> None:
    made = WebServer("", 0, registry=CollectorRegistry(), live={}, ready={})
    made.start()
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", made.address[1], timeout=5)) as connection:
            connection.request("GET", "/healthz")
            assert connection.getresponse().status == 200
    finally:
        made.stop()
