"""Every answer to an eviction request means what it means on a real server."""

import json
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rebalancer.adapters.kubernetes.evictions import evict
from rebalancer.adapters.kubernetes.transport import connect
from rebalancer.ports import EvictionResult as Result
from tests.adapters.kubernetes.fake_server import answer, served
from tests.tracking.test_moves import MOVE

SUCCESS = {"kind": "Status", "status": "Success"}


def failure(code: int, message: str = "", **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "message": message, "details": details}


BUDGET: dict[str, Any] = {
    "causes": [{"reason": "DisruptionBudget", "message": "needs 4 healthy pods and has 4 currently"}]
}

DENIED = 'admission webhook "guard" denied the request: not now'


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        (201, SUCCESS, Result.EVICTED),
        (200, SUCCESS, Result.EVICTED),
        (201, failure(500), Result.UNKNOWN),
        (201, b"<html>", Result.UNKNOWN),
        (201, [], Result.UNKNOWN),
        (400, failure(400), Result.FAILED),
        (401, failure(401), Result.FORBIDDEN),
        (403, failure(403, kind="pods"), Result.FORBIDDEN),
        (403, failure(403, kind="pods", causes=[{"reason": "NamespaceTerminating"}]), Result.GONE),
        (403, failure(403, DENIED, causes=[{"reason": "NamespaceTerminating"}]), Result.FAILED),
        (404, failure(404, kind="pods"), Result.GONE),
        (404, failure(404, kind="poddisruptionbudgets"), Result.STALE),
        (404, failure(404, DENIED, kind="pods", name="web-0"), Result.FAILED),
        (404, failure(404), Result.FAILED),
        (404, b"404 page not found", Result.FAILED),
        (403, failure(403, DENIED), Result.FAILED),
        (409, failure(409, DENIED), Result.FAILED),
        (500, failure(500, DENIED), Result.FAILED),
        (500, failure(500, 'Internal error occurred: failed calling webhook "guard": timeout'), Result.UNKNOWN),
        (409, failure(409, kind="Pod"), Result.CONFLICT),
        (422, failure(422), Result.FAILED),
        (429, failure(429, **BUDGET), Result.BUDGET),
        (429, failure(429, **BUDGET, retryAfterSeconds=10), Result.STALE),
        (429, failure(429), Result.FAILED),
        (429, failure(429, retryAfterSeconds=1), Result.THROTTLED),
        (429, failure(429, DENIED, retryAfterSeconds=1), Result.FAILED),
        (429, b"too many", Result.THROTTLED),
        (500, failure(500, "This pod has more than one PodDisruptionBudget, which the eviction…"), Result.FAILED),
        (500, failure(500, "etcd trouble"), Result.UNKNOWN),
        (503, b"", Result.UNKNOWN),
        (504, failure(504), Result.UNKNOWN),
    ],
)
def test_answers(code: int, body: Any, expected: Result) -> None:
    """Code and body together tell; a body that does not say Success is no success whatever the code."""
    with served(lambda request: answer(request, code, body)) as transport:
        response = evict(transport, MOVE)
    assert response.result is expected
    assert response.result is Result.EVICTED or response.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
STATUSES = JSON | st.fixed_dictionaries(
    {},
    optional={
        "message": JSON,
        "details": JSON
        | st.fixed_dictionaries(
            {},
            optional={
                "kind": JSON,
                "retryAfterSeconds": JSON,
                "causes": JSON | st.lists(JSON | st.fixed_dictionaries({"reason": JSON})),
            },
        ),
    },
)


class Answering:
    """Answers each request with what was set last, so that one server does for all examples."""

    code = 500
    body: Any = None

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        request.rfile.read(int(request.headers["Content-Length"]))
        answer(request, self.code, self.body)


def test_no_answer_is_an_error_of_our_own() -> None:
    """Whatever JSON comes with whatever code: it has a result, and no granted one but for a Success."""
    answering = Answering()
    with served(answering) as transport:

        @given(st.sampled_from([201, 400, 401, 403, 404, 409, 418, 422, 429, 500, 503]), STATUSES)
        @example(429, {"details": "rate limited"})
        @example(429, {"details": {"causes": 3}})
        @example(429, {"details": {"causes": [{"reason": []}]}})
        @example(404, {"details": {"kind": []}})
        @example(500, {"message": None})
        @example(500, [1])
        @example(500, b"[" * 100_000)
        @example(201, b"[" * 100_000)
        def check(code: int, body: Any) -> None:
            answering.code, answering.body = code, body
            result = evict(transport, MOVE).result
            assert result is not Result.EVICTED
            assert code == 404 or result is not Result.GONE

        check()


def test_the_request() -> None:
    """The pod's UID is a precondition, so that a late request cannot hit its successor."""
    seen: list[tuple[str, str, dict[str, Any]]] = []

    def handle(request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        seen.append((request.command, request.path, body))
        answer(request, 201, SUCCESS)

    with served(handle) as transport:
        evict(transport, MOVE)
    assert seen == [
        (
            "POST",
            "/api/v1/namespaces/shop/pods/web-0/eviction",
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": "web-0", "namespace": "shop"},
                "deleteOptions": {"preconditions": {"uid": "old"}},
            },
        )
    ]


@pytest.mark.parametrize("rude", ["hangs up", "says nothing", "breaks off"])
def test_no_answer(rude: str) -> None:
    """A connection that breaks or stays silent leaves the outcome unknown."""

    def handle(request: BaseHTTPRequestHandler) -> None:
        if rude == "breaks off":
            request.send_response(201)
            request.send_header("Content-Length", "100")
            request.end_headers()
            request.wfile.write(b"{")
        elif rude == "says nothing":
            request.connection.settimeout(3)
            request.rfile.read(10_000)
        request.close_connection = True
        request.connection.close()

    with served(handle) as transport:
        answer = evict(transport, MOVE)
    assert answer.result is Result.UNKNOWN
    assert "127.0.0.1" in answer.message


def test_how_long_the_server_asks_to_wait() -> None:
    """Its header is passed on, in seconds; anything but a number is no answer, and no server is waited for all day."""
    for header, expected in (("7", 7.0), ("86400", 600.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0), ("-1", 0.0)):
        with served(partial(answer, code=429, body=b"too many", headers={"Retry-After": header})) as transport:
            assert evict(transport, MOVE).retry_after == expected


def test_a_request_is_sent_once() -> None:
    """A plea for patience is not answered by silent retries: the loop decides."""
    count = 0

    def handle(request: BaseHTTPRequestHandler) -> None:
        nonlocal count
        count += 1
        answer(request, 429, failure(429), {"Retry-After": "1"})

    with served(handle) as transport:
        evict(transport, MOVE)
    assert count == 1


def test_retries_are_off_on_every_connection(tmp_path: Any) -> None:
    """A transport made from a kubeconfig does not retry by itself either."""
    file = tmp_path / "kubeconfig"
    file.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
                "current-context": "c",
            }
        )
    )
    transport = connect(kubeconfig=str(file))
    assert transport._client.configuration.retries is False
    assert transport.host == "http://127.0.0.1:1"
    transport.close()
