"""The proxy against a small server: what the server was asked, and what the client got."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import urllib3

from tests.control_plane.api import wait_until
from tests.faults.choosing import Chooser
from tests.faults.history import Exchange
from tests.faults.proxy import Loop, Proxy
from tests.faults.schedule import Fault, Rule, Schedule

PODS = "/api/v1/pods"
WATCH = f"{PODS}?watch=true"
EVICTION = "/api/v1/namespaces/shop/pods/web-0/eviction"
BODY = {"deleteOptions": {"preconditions": {"uid": "u-0"}}}
CLIENT_ERRORS = (urllib3.exceptions.HTTPError, OSError)


class Server(ThreadingHTTPServer):
    """Answers like an API server: numbered lists, watches that deliver what is published, granted evictions."""

    daemon_threads = True

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.published = 0
        self.changed = threading.Condition()
        self.closing = False
        super().__init__(("127.0.0.1", 0), Handler)

    def publish(self, count: int = 1) -> None:
        with self.changed:
            self.published += count
            self.changed.notify_all()

    def wait_for(self, number: int) -> bool:
        """Wait until an event is published; False at the end."""
        with self.changed:
            self.changed.wait_for(lambda: self.published > number or self.closing)
            return not self.closing

    def close(self) -> None:
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        self.shutdown()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def _note(self) -> bytes:
        self.server.requests.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_GET(self) -> None:
        self._note()
        if "watch=true" in self.path:
            self._watch()
        else:
            self._send(200, {"kind": "List", "number": len(self.server.requests)})

    def do_POST(self) -> None:
        self._note()
        self._send(201, {"kind": "Status", "status": "Success", "filler": "x" * 200})

    def _send(self, code: int, document: dict[str, Any]) -> None:
        text = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _watch(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        number = 0
        while self.server.wait_for(number):
            line = json.dumps({"type": "ADDED", "object": {"number": number}}).encode() + b"\n"
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            number += 1

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


Start = Callable[..., Proxy]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.close()
        thread.join()


@pytest.fixture
def start(server: Server) -> Iterator[Start]:
    """Start proxies of some rules; they are faulty from the beginning unless that is for later."""
    loop = Loop()
    proxies: list[Proxy] = []

    def start(*rules: Rule, begun: bool = True, on_write: Callable[[Exchange], bool] | None = None) -> Proxy:
        chooser = Chooser(Schedule(seed=1, rules=rules))
        address = f"http://127.0.0.1:{server.server_address[1]}"
        proxy = Proxy(loop, chooser, server=address, context=None, on_write=on_write)
        proxies.append(proxy)
        proxy.process = "one.1"
        proxy.start()
        if begun:
            proxy.begin()
        return proxy

    yield start
    for proxy in proxies:
        proxy.stop()
    loop.close()


def rule(fault: Fault, verb: str = "create", resource: str = "pods/eviction", **fields: Any) -> Rule:
    return Rule(verb=verb, resource=resource, fault=fault, **fields)


def evict(proxy: Proxy, *, timeout: float = 5.0) -> urllib3.BaseHTTPResponse:
    headers = {"Authorization": "Bearer secret", "Accept-Encoding": "gzip"}
    return urllib3.request(
        "POST", proxy.url + EVICTION, json=BODY, headers=headers, timeout=timeout, retries=False
    )  # fmt: skip


def get(proxy: Proxy, path: str = PODS) -> Any:
    return urllib3.request("GET", proxy.url + path, timeout=5.0, retries=False).json()


class Watcher:
    """A client that watches, and what it got."""

    def __init__(self, proxy: Proxy) -> None:
        self.lines: list[bytes] = []
        self.end = ""
        self.response = urllib3.request(
            "GET", proxy.url + WATCH, timeout=30, retries=False, preload_content=False
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        rest = b""
        try:
            for chunk in self.response.stream(amt=None):
                *lines, rest = (rest + chunk).split(b"\n")
                self.lines += lines
            self.end = "ended"
        except CLIENT_ERRORS:
            self.end = "broken"
        self.response.close()

    @property
    def numbers(self) -> list[int]:
        events = [json.loads(line) for line in self.lines]
        return [event["object"]["number"] for event in events if event["type"] == "ADDED"]


def test_without_a_fault_everything_passes(server: Server, start: Start) -> None:
    """Token and body arrive, the answer returns, and the record leads to the audit log by the Audit-ID."""
    proxy = start()
    assert evict(proxy).status == 201
    (method, path, headers) = server.requests[0]
    assert (method, path, headers["authorization"]) == ("POST", EVICTION, "Bearer secret")
    (exchange,) = proxy.exchanges
    assert headers["audit-id"] == exchange.id
    assert "accept-encoding" not in headers
    assert (exchange.process, exchange.uid, exchange.code, exchange.delivered) == ("one.1", "u-0", 201, 201)
    assert exchange.is_eviction
    assert exchange.answered is not None
    assert exchange.begun <= exchange.answered


def test_many_requests_on_one_connection(server: Server, start: Start) -> None:
    proxy = start()
    with urllib3.HTTPConnectionPool("127.0.0.1", proxy.port, maxsize=1, block=True) as pool:
        assert [pool.request("GET", PODS).json()["number"] for _ in range(5)] == [1, 2, 3, 4, 5]
        assert pool.num_connections == 1


@pytest.mark.parametrize(
    ("fault", "code", "reason", "retry"),
    [
        (Fault.UNAUTHORIZED, 401, "Unauthorized", None),
        (Fault.FORBIDDEN, 403, "Forbidden", None),
        (Fault.MISSING, 404, "NotFound", None),
        (Fault.CONFLICT, 409, "Conflict", None),
        (Fault.GONE, 410, "Expired", None),
        (Fault.INVALID, 422, "Invalid", None),
        (Fault.TOO_MANY_REQUESTS, 429, "TooManyRequests", "1"),
        (Fault.WEBHOOK, 429, "TooManyRequests", None),
        (Fault.PLAIN_RETRY_AFTER, 429, None, "1"),
        (Fault.PLAIN, 429, None, None),
        (Fault.ERROR, 500, "InternalError", None),
        (Fault.UNAVAILABLE, 503, "ServiceUnavailable", None),
    ],
)
def test_a_refusal_never_reaches_the_server(
    server: Server, start: Start, fault: Fault, code: int, reason: str | None, retry: str | None
) -> None:
    proxy = start(rule(fault))
    answer = evict(proxy)
    assert (answer.status, answer.headers.get("Retry-After")) == (code, retry)
    if reason is None:
        assert answer.headers["Content-Type"] == "text/plain"
    else:
        assert (answer.json()["kind"], answer.json()["code"], answer.json()["reason"]) == ("Status", code, reason)
    assert server.requests == []
    assert (proxy.exchanges[0].forwarded, proxy.exchanges[0].code, proxy.exchanges[0].delivered) == (False, 0, code)
    assert evict(proxy).status == 201


@pytest.mark.parametrize(
    ("fault", "arrives"),
    [(Fault.TIMEOUT, False), (Fault.RESET, False), (Fault.LOST, True), (Fault.UNANSWERED, True), (Fault.CUT, True)],
)
def test_an_answer_that_does_not_come(server: Server, start: Start, fault: Fault, *, arrives: bool) -> None:
    """The client gets an error; whether the server has acted is another matter, and the record knows."""
    proxy = start(rule(fault))
    with pytest.raises(CLIENT_ERRORS):
        evict(proxy, timeout=0.5)
    assert bool(server.requests) == arrives
    (exchange,) = proxy.exchanges
    assert (exchange.forwarded, exchange.code, exchange.delivered) == (arrives, 201 if arrives else 0, 0)
    assert evict(proxy).status == 201


def test_a_truncated_answer_pretends_to_be_whole(start: Start) -> None:
    answer = evict(start(rule(Fault.TRUNCATED)))
    assert answer.status == 201
    with pytest.raises(json.JSONDecodeError):
        answer.json()


def test_a_slow_answer_takes_seconds_until_the_proxy_is_healed(start: Start) -> None:
    proxy = start(rule(Fault.SLOW, count=2))
    began = time.monotonic()
    threading.Timer(1.0, proxy.heal).start()
    assert evict(proxy).json()["status"] == "Success"
    assert 0.9 < time.monotonic() - began < 2.5


def test_healing_ends_what_hangs(start: Start) -> None:
    """A request without an answer fails then, the next one passes."""
    proxy = start(rule(Fault.TIMEOUT, probability=1.0))
    threading.Timer(0.5, proxy.heal).start()
    with pytest.raises(CLIENT_ERRORS):
        evict(proxy, timeout=20)
    assert evict(proxy).status == 201


def test_an_old_answer_is_one_that_was_given_before(start: Start) -> None:
    proxy = start(rule(Fault.OLD, "list", "pods", probability=1.0), begun=False)
    assert [get(proxy)["number"] for _ in range(2)] == [1, 2]
    proxy.begin()
    assert get(proxy)["number"] == 1
    proxy.heal()
    assert get(proxy)["number"] == 4


def test_the_hook_runs_after_the_server_has_acted(server: Server, start: Start) -> None:
    """Where a process is killed then, its request has taken effect, and nobody gets the answer."""
    seen: list[int] = []

    def stop_at_second(exchange: Exchange) -> bool:
        seen.append(exchange.code)
        return len(seen) == 2

    proxy = start(on_write=stop_at_second)
    get(proxy)
    assert evict(proxy).status == 201
    with pytest.raises(CLIENT_ERRORS):
        evict(proxy)
    assert seen == [201, 201]
    assert [exchange.delivered for exchange in proxy.exchanges] == [200, 201, 0]


def test_a_watch_passes_events_as_they_come(server: Server, start: Start) -> None:
    watcher = Watcher(start())
    for number in range(3):
        server.publish()
        wait_until(lambda number=number: watcher.numbers == list(range(number + 1)), what="the event", timeout=5)  # type: ignore[misc]


def test_a_silent_watch_lives_until_it_is_healed(server: Server, start: Start) -> None:
    proxy = start(rule(Fault.SILENT, "watch", "pods"))
    watcher = Watcher(proxy)
    server.publish(3)
    time.sleep(0.3)
    assert (watcher.lines, watcher.end) == ([], "")
    proxy.heal()
    wait_until(lambda: watcher.end == "broken", what="the end of the watch", timeout=5)
    again = Watcher(proxy)
    wait_until(lambda: again.numbers == [0, 1, 2], what="the events", timeout=5)


def test_a_fault_of_events_begins_in_a_watch_that_is_open(server: Server, start: Start) -> None:
    proxy = start(rule(Fault.DUPLICATED, "watch", "pods", probability=1.0), begun=False)
    watcher = Watcher(proxy)
    server.publish()
    wait_until(lambda: watcher.numbers == [0], what="the first event", timeout=5)
    proxy.begin()
    server.publish()
    wait_until(lambda: watcher.numbers == [0, 1, 1], what="the second event twice", timeout=5)


@pytest.mark.parametrize("fault", [Fault.DROPPED, Fault.REORDERED, Fault.REWOUND, Fault.TRUNCATED])
def test_after_damage_the_client_must_list(server: Server, start: Start, fault: Fault) -> None:
    """Healing ends the watch with 410, and so does every new one until there was a list."""
    proxy = start(rule(fault, "watch", "pods", probability=1.0))
    watcher = Watcher(proxy)
    server.publish(4)
    time.sleep(0.3)
    proxy.heal()
    wait_until(lambda: watcher.end == "ended", what="the end of the watch", timeout=5)
    assert json.loads(watcher.lines[-1])["object"]["code"] == 410
    again = Watcher(proxy)
    wait_until(lambda: again.end == "ended", what="the end of the next watch", timeout=5)
    assert json.loads(again.lines[-1])["object"]["code"] == 410
    get(proxy)
    last = Watcher(proxy)
    wait_until(lambda: last.numbers == [0, 1, 2, 3], what="the events", timeout=5)


def test_a_rule_for_lists_makes_an_open_watch_list_again(start: Start) -> None:
    proxy = start(rule(Fault.ERROR, "list", "pods"), begun=False)
    watcher = Watcher(proxy)
    proxy.begin()
    wait_until(lambda: watcher.end == "ended", what="the end of the watch", timeout=5)
    assert json.loads(watcher.lines[-1])["object"]["code"] == 410
    assert get(proxy)["code"] == 500


def test_a_watch_that_is_cut_ends_inside_an_event(server: Server, start: Start) -> None:
    watcher = Watcher(start(rule(Fault.CUT, "watch", "pods")))
    server.publish()
    wait_until(lambda: watcher.end == "broken", what="the end of the watch", timeout=5)
    assert watcher.lines == []


def test_a_server_that_is_gone_is_a_broken_connection(start: Start, server: Server) -> None:
    proxy = start()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        proxy._port = taken.getsockname()[1]
        with pytest.raises(CLIENT_ERRORS):
            evict(proxy)
