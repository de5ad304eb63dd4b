"""Questions to Prometheus: an answer that says nothing is an error, and no answer takes longer than it may."""

import json
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from rebalancer.adapters.prometheus import PrometheusQueries
from rebalancer.adapters.prometheus.queries import OWN_TOKEN
from rebalancer.admission.guards import GuardAnswer, Verdict
from rebalancer.policy import Expect, Guard, Guards, Prometheus

SAMPLE = {"metric": {"__name__": "errors", "job": "web", "code": "500"}, "value": [1.5, "7"]}
TOKEN = "secret-token"  # of nobody


def vector(*samples: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "vector", "result": list(samples)}}


class Scripted:
    """A server on loopback that answers queries as scripted; what is not scripted returns nothing."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.status = 200
        self.headers: dict[str, str] = {}
        self.pause, self.drip = 0.0, 0.0
        self.asked: list[tuple[str, str, str | None]] = []
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                scripted.answer(self)

            def log_message(self, *_: Any) -> None:
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        query = parse_qs(parts.query)["query"][0]
        self.asked.append((parts.path, query, handler.headers.get("Authorization")))
        time.sleep(self.pause)
        answer = self.answers.get(query, vector())
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        handler.send_response(self.status)
        for name, value in {"Content-Length": str(len(body)), **self.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        try:
            for byte in [body] if not self.drip else [bytes([one]) for one in body]:
                handler.wfile.write(byte)
                handler.wfile.flush()
                time.sleep(self.drip)
        except OSError:
            """The client has gone."""

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Scripted]:
    scripted = Scripted()
    yield scripted
    scripted.close()


def guard(name: str = "errors", expect: Expect = Expect.EMPTY) -> Guard:
    return Guard(name=name, query=name, expect=expect, present="up" if expect is Expect.EMPTY else None)


def ask(server: Scripted, *guards: Guard, own: Path = OWN_TOKEN, **fields: Any) -> tuple[GuardAnswer, ...]:
    """Ask in the way of a policy, or, with a token, of one that no file could hold: without TLS."""
    fields = {"url": server.url, "token_file": None, "ca_file": None, "timeout": timedelta(seconds=1), **fields}
    prometheus = Prometheus.model_construct(**fields)
    return PrometheusQueries(own).ask(Guards.model_construct(prometheus=prometheus, queries=guards or (guard(),)))


def test_both_queries_are_asked_and_judged(server: Scripted) -> None:
    server.answers = {"up": vector(SAMPLE)}
    (answer,) = ask(server, url=f"{server.url}/prefix/")
    said = 'the query returned nothing, and present 1 series, first errors{code="500", job="web"} 7'
    assert answer == GuardAnswer("errors", Verdict.GOOD, said)
    assert server.asked == [("/prefix/api/v1/query", query, None) for query in ("errors", "up")]


def test_what_is_bad_already_is_not_asked_further(server: Scripted) -> None:
    server.answers = {"errors": vector(SAMPLE, SAMPLE)}
    (answer,) = ask(server)
    said = 'the query returned 2 series, first errors{code="500", job="web"} 7'
    assert answer == GuardAnswer("errors", Verdict.BAD, said)
    assert [query for _, query, _ in server.asked] == ["errors"]


def test_a_vanished_exporter_is_not_good_news(server: Scripted) -> None:
    (answer,) = ask(server)
    assert answer == GuardAnswer("errors", Verdict.BAD, "the query returned nothing, and present nothing")


def test_something_can_be_expected(server: Scripted) -> None:
    for result, verdict in ((vector(SAMPLE), Verdict.GOOD), (vector(), Verdict.BAD)):
        server.answers = {"healthy": result}
        assert ask(server, guard("healthy", Expect.NOT_EMPTY))[0].verdict is verdict


FULL = {**vector(SAMPLE), "infos": ["metric might not be a counter"]}


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (400, {"status": "error", "errorType": "bad_data", "error": "1:5: parse\nerror"}, "400: 1:5: parse error"),
        (200, {"status": "error", "error": "nobody knows"}, "200: nobody knows"),
        (422, vector(), "422"),
        (401, b"Unauthorized", "401"),
        (503, {"status": "error", "errorType": "timeout", "error": "query timed out"}, "503: query timed out"),
        (302, vector(), "302"),
        (200, {**vector(), "warnings": ["a store is away"]}, "the answer may be partial: a store is away"),
        (200, b"<html>", "the answer is not that of Prometheus' HTTP API"),
        (200, b"[" * 100_000, "the answer is not that of Prometheus' HTTP API"),
        (200, {"status": "success"}, "the answer is not that of Prometheus' HTTP API"),
        (200, {"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}}, "the result is a scalar"),
        (200, {"status": "success", "data": {"resultType": "matrix", "result": []}}, "the result is a matrix"),
        (200, {"status": "success", "data": {"resultType": "vector", "result": [1]}}, "the samples of the answer"),
        (200, b'{"status":"success","data":{"resultType":"vector","result":[]}' + b" " * 5_000_000 + b"}", "more than"),
    ],
    ids=range(14),
)
def test_what_is_no_whole_vector_is_an_error(server: Scripted, status: int, answer: Any, message: str) -> None:
    """For that guard; the others are asked nevertheless."""
    server.answers = {"errors": answer}
    server.status, server.headers = status, {"Location": "http://127.0.0.1:1/"} if status == 302 else {}
    first, second = ask(server, guard(), guard("other"))
    assert first.verdict is Verdict.ERROR
    assert message in first.message
    assert "\n" not in first.message
    assert ("other" in [query for _, query, _ in server.asked]) == (second.name == "other")
    assert "other" in [query for _, query, _ in server.asked]


def test_infos_are_no_warnings(server: Scripted) -> None:
    server.answers = {"healthy": FULL}
    assert ask(server, guard("healthy", Expect.NOT_EMPTY))[0].verdict is Verdict.GOOD


@pytest.mark.parametrize(("pause", "drip"), [(5.0, 0.0), (0.0, 0.3)])
def test_no_answer_takes_longer_than_the_timeout(server: Scripted, pause: float, drip: float) -> None:
    """Whether nothing comes or byte after byte; the other guards are not waited for."""
    server.pause, server.drip = pause, drip
    began = time.monotonic()
    answers = ask(server, guard(), guard("other"))
    assert time.monotonic() - began < 2.5
    assert {answer.message for answer in answers} == {f"no answer from {server.url} within 1s"}
    assert {answer.verdict for answer in answers} == {Verdict.ERROR}


def test_a_prometheus_that_is_away_is_named(server: Scripted) -> None:
    server.close()
    (answer,) = ask(server)
    assert answer.verdict is Verdict.ERROR
    assert answer.message.startswith(f"{server.url} cannot be asked: ")
    assert "Connection refused" in answer.message


def test_the_token_is_read_for_each_question(server: Scripted, tmp_path: Path) -> None:
    """As the kubelet renews it; blanks around it are none of it."""
    file = tmp_path / "token"
    for text in ("first", f"{TOKEN}\n"):
        file.write_text(text)
        ask(server, token_file=str(file))
    assert [token for _, _, token in server.asked] == ["Bearer first"] * 2 + [f"Bearer {TOKEN}"] * 2


@pytest.mark.parametrize("content", ["", f"{TOKEN}\nHost: evil", f"{TOKEN}é", f"{TOKEN} more"])
def test_a_file_without_a_token_is_an_error_that_does_not_show_it(
    server: Scripted, tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    (answer,) = ask(server, token_file=str(file))
    assert answer.message == f"prometheus.tokenFile {file} holds no bearer token; expected one line of ASCII"
    assert not server.asked
    assert TOKEN not in "".join(capsys.readouterr())


def test_the_token_that_evicts_is_sent_nowhere(server: Scripted, tmp_path: Path) -> None:
    """Wherever it lies: who writes the policy chooses the address."""
    own, copy = tmp_path / "own", tmp_path / "copy"
    own.write_text(TOKEN)
    copy.write_text(f"{TOKEN}\n")
    for file in (own, copy):
        (answer,) = ask(server, own=own, token_file=str(file))
        assert "the token of the controller's own account; mount one for Prometheus" in answer.message
        assert TOKEN not in answer.message
    copy.write_text("another")
    ask(server, own=own, token_file=str(copy))
    assert [token for _, _, token in server.asked] == ["Bearer another"] * 2


def test_a_file_that_is_missing_is_named(server: Scripted, tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    for (answer,) in (ask(server, token_file=absent), ask(server, ca_file=absent)):
        assert answer.message == f"{tmp_path / 'absent'} cannot be read: No such file or directory"


def test_a_redirect_is_not_followed(server: Scripted, tmp_path: Path) -> None:
    """It might lead the token elsewhere."""
    other = Scripted()
    (tmp_path / "token").write_text(TOKEN)
    server.status, server.headers = 307, {"Location": f"{other.url}/api/v1/query?query=up"}
    (answer,) = ask(server, token_file=str(tmp_path / "token"))
    other.close()
    assert answer.message == "Prometheus answered 307"
    assert not other.asked
