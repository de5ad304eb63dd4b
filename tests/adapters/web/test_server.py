"""The server that probes and scrapes ask."""

import gzip
import http.client
import logging
import resource
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import NoReturn

import pytest
import structlog
from prometheus_client import CollectorRegistry, Counter, Metric

from rebalancer.adapters.web import CannotListen, Checks, WebServer, probe_routes, server
from rebalancer.adapters.web.probes import MOST_SCRAPES
from tests.drawing import scaled

OPEN_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)


class Served:
    """A server, and questions to it."""

    def __init__(self, *, live: Checks, ready: Checks) -> None:
        self.registry = CollectorRegistry()
        Counter("cakes_total", "Cakes.", registry=self.registry).inc()
        self.server = WebServer("127.0.0.1", 0, probe_routes(self.registry, live=live, ready=ready))
        self.server.start()

    def ask(self, path: str, method: str = "GET") -> tuple[int, str]:
        with closing(http.client.HTTPConnection(*self.server.address, timeout=5)) as connection:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()


troubles: dict[str, str] = {}


@pytest.fixture(scope="module", autouse=True)
def _log_nothing() -> Iterator[None]:
    """Let no thread of the server print once its test is over: pytest has taken that output away by then."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


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


def test_what_a_check_quotes_is_in_its_line(served: Served) -> None:
    """People read it with curl."""
    troubles["watches"] = "Pod: \x1b[2J\n[+]forged ok"
    assert served.ask("/readyz")[1].splitlines()[0] == "[-]watches failed: Pod: \\x1b[2J\\n[+]forged ok"


@pytest.mark.parametrize("path", ["/", "/metrics/", "/healthz/x", "/favicon.ico", "/../metrics", "/%00"])
def test_other_paths_are_not_found(served: Served, path: str) -> None:
    status, text = served.ask(path)
    assert status == 404
    assert "/metrics, /healthz, /readyz" in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/metrics", "/readyz"])
def test_nothing_is_written_through_it(served: Served, method: str, path: str) -> None:
    assert served.ask(path, method)[0] == 405


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\xff\r\n", 400),  # the beginning of TLS
        (b"PRI * HTTP/2.0\r\n", 505),
        (b"hello\r\n", 400),
        (b"GET /metrics HTTP/x.y\r\n", 400),
        (b"GET /metrics and more HTTP/1.1\r\n", 400),
        (b"\x00\xff\xfe GET\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\n" + b"X-Many: 1\r\n" * 200, 431),
        (b"BREW /metrics HTTP/1.1\r\n", 405),
        (b"GET /%ff%fe?\xff HTTP/1.1\r\n", 404),
        (b"GET http://elsewhere.example/metrics/x HTTP/1.1\r\n", 404),
    ],
)
def test_garbage_is_refused_with_a_status_and_no_trace(
    served: Served, capfd: pytest.CaptureFixture[str], request_line: bytes, status: int
) -> None:
    """No stack trace, neither in the answer nor in the log; the next request is answered."""
    with closing(socket.create_connection(served.server.address)) as client:
        client.settimeout(5)
        client.sendall(request_line + b"\r\n")
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert answer.split()[1] == str(status).encode(), answer
    assert b"\r\ncontent-type: text/plain" in answer.lower()
    assert b"Traceback" not in answer
    assert served.ask("/healthz")[0] == 200
    assert capfd.readouterr().err == ""


def test_a_silent_client_keeps_nobody_waiting(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server._Handler.timeout == 5
    monkeypatch.setattr(server._Handler, "timeout", 0.2)
    with closing(socket.create_connection(served.server.address)) as silent:
        silent.sendall(b"GET /met")
        began = time.monotonic()
        assert served.ask("/metrics")[0] == 200
        assert time.monotonic() - began < 4, "sooner than the first of them has used up its time"
        silent.settimeout(5)
        assert silent.recv(100) == b""


def test_the_time_of_a_request_is_bounded_not_that_of_each_byte(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server._Handler, "timeout", 0.5)
    with closing(socket.create_connection(served.server.address)) as slow:
        slow.settimeout(0.1)
        began = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - began < 5:
                slow.send(b"x")
                with suppress(TimeoutError):
                    if not slow.recv(100):
                        break
        assert time.monotonic() - began < 2


def count_threads() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def test_hundreds_of_slow_clients_keep_no_probe_out(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the cap the oldest unfinished request is closed, and each probe and scrape is answered within a second."""
    monkeypatch.setattr(server._Handler, "timeout", 60.0)  # it is not that which ends them
    slow, seconds = [], []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(4096, OPEN_FILES[0]), OPEN_FILES[1]))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, OPEN_FILES)
        for number in range(scaled(2000)):
            client = stack.enter_context(closing(socket.create_connection(served.server.address)))
            with suppress(ConnectionError):
                client.sendall(b"GET /met")
            slow.append(client)
            if number % 100 == 99:
                began = time.monotonic()
                assert served.ask("/metrics" if number % 200 == 99 else "/healthz")[0] == 200
                seconds.append(time.monotonic() - began)
        assert max(seconds) < 1
        # The thread of a connection that is closed ends a moment later, on a busy machine many of them.
        wait_until(lambda: count_threads() <= server.MOST_CONNECTIONS + 5)
        slow[0].settimeout(5)
        assert slow[0].recv(100) == b"", "the oldest is closed at once"


def test_more_requests_at_once_than_connections_are_refused_at_once() -> None:
    """And when the others have been answered, there is room again."""
    released = threading.Event()

    def wait() -> str:
        released.wait(10)
        return ""

    made = Served(live={"slow": wait}, ready={})
    try:
        with ExitStack() as stack:
            clients = [
                stack.enter_context(closing(socket.create_connection(made.server.address)))
                for _ in range(server.MOST_CONNECTIONS)
            ]
            for client in clients:
                client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            limit = time.monotonic() + 5
            while len(made.server._server._answering) < server.MOST_CONNECTIONS:
                assert time.monotonic() < limit
                time.sleep(0.01)
            with closing(socket.create_connection(made.server.address)) as refused:
                refused.settimeout(2)
                assert refused.recv(100).startswith(b"HTTP/1.0 503 ")
            released.set()
            for client in clients:
                client.settimeout(5)
                assert b" 200 " in client.recv(100)
        assert made.ask("/readyz")[0] == 200
    finally:
        released.set()
        made.server.stop()


class Large:
    """A collector with megabytes of text, which counts how often it is asked."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.times = 0

    def collect(self) -> Iterator[Metric]:
        self.times += 1
        time.sleep(self.seconds)
        metric = Metric("large", "Large.", "gauge")
        metric.add_sample("large", {"text": "x" * 8_000_000}, 1)
        yield metric


def begin_scrape(stack: ExitStack, made: Served) -> socket.socket:
    """Request the metrics with a window so small that the answer does not fit into any buffer."""
    client = stack.enter_context(closing(socket.socket()))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.connect(made.server.address)
    client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    return client


def holds_more(connections: Collection[socket.socket], than: int) -> bool:
    return len(connections) > than


def wait_until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_clients_that_do_not_read_their_answers_keep_no_probe_out(served: Served) -> None:
    """They hold every place; the oldest of them are closed for a probe and for a scrape."""
    served.registry.register(Large())
    inner = served.server._server
    with ExitStack() as stack:
        while len(inner._writing) < server.MOST_CONNECTIONS:
            before = len(inner._writing)
            begin_scrape(stack, served)
            wait_until(partial(holds_more, inner._writing, before))
        began = time.monotonic()
        for path in ("/healthz", "/readyz", "/metrics", "/healthz"):
            assert served.ask(path)[0] == 200
        assert time.monotonic() - began < 3


def test_the_answer_must_be_read_in_time(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that reads a little now and then is closed by the deadline of its whole request."""
    assert server._Handler.whole == 10
    monkeypatch.setattr(server._Handler, "whole", 0.5)
    served.registry.register(Large())
    inner = served.server._server
    with ExitStack() as stack:
        client = begin_scrape(stack, served)
        wait_until(lambda: bool(inner._writing))
        began = time.monotonic()
        while inner._writing and time.monotonic() - began < 5:
            client.recv(100)
            time.sleep(0.05)
        assert time.monotonic() - began < 2


def test_scrapes_at_the_same_time_share_a_rendering(served: Served) -> None:
    """As many as may wait get its result, further ones are refused at once, and probes are answered meanwhile."""
    slow = Large()
    served.registry.register(slow)
    slow.times, slow.seconds = 0, 1.0
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(served.ask("/metrics")[0])) for _ in range(MOST_SCRAPES + 4)
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(answers) == 4)
    began = time.monotonic()
    assert served.ask("/healthz")[0] == 200
    assert time.monotonic() - began < 0.5
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200] * MOST_SCRAPES + [503] * 4
    assert slow.times == 1


def test_a_scrape_may_be_compressed(served: Served) -> None:
    """As Prometheus asks for it."""
    with closing(http.client.HTTPConnection(*served.server.address, timeout=5)) as connection:
        connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        assert answer.headers["Content-Encoding"] == "gzip"
        assert b"cakes_total 1.0" in gzip.decompress(answer.read())


def test_a_large_header_is_refused_before_it_is_read(served: Served) -> None:
    """Forty requests with 6 MB each would take 270 MiB."""
    lines = b"GET /metrics HTTP/1.1\r\n" + b"X-Large: " + b"x" * 60_000 + b"\r\n"
    with closing(socket.create_connection(served.server.address)) as large:
        large.settimeout(5)
        with suppress(ConnectionError):
            for _ in range(98):
                large.sendall(lines)
            assert large.recv(1000).startswith(b"HTTP/1.0 431 ")
    assert served.ask("/metrics")[0] == 200


@pytest.mark.parametrize(("size", "status"), [(16_000, 200), (17_000, 431)])
def test_the_limit_is_that_of_the_whole_header(served: Served, size: int, status: int) -> None:
    """Many small fields count like one large one."""
    fields = b"".join(b"X-%02d: " % number + b"x" * (size // 50) + b"\r\n" for number in range(48))
    with closing(socket.create_connection(served.server.address)) as client:
        client.settimeout(5)
        client.sendall(b"GET /healthz HTTP/1.0\r\n" + fields)
        if status == 200:
            client.sendall(b"\r\n")
        assert client.recv(100).split()[1] == str(status).encode()


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
    again = WebServer(host, port, {})
    assert again.address == (host, port)
    again.stop()


def test_a_port_in_use_is_reported_before_anything_else(served: Served) -> None:
    host, port = served.server.address
    with pytest.raises(CannotListen, match=rf"cannot listen on {host}:{port}: Address already in use"):
        WebServer(host, port, {})


@pytest.mark.parametrize(("host", "port"), [("192.0.2.1", 0), ("127.0.0.1", 70000), ("no such host", 0)])
def test_foreign_addresses_are_reported(host: str, port: int) -> None:
    with pytest.raises(CannotListen, match=f"cannot listen on {host}:{port}: .+"):
        WebServer(host, port, {})


def test_without_a_host_all_addresses_are_listened_on() -> None:
    made = WebServer("", 0, probe_routes(CollectorRegistry(), live={}, ready={}))
    made.start()
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", made.address[1], timeout=5)) as connection:
            connection.request("GET", "/healthz")
            assert connection.getresponse().status == 200
    finally:
        made.stop()
