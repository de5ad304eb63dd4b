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
from rebalancer.ports import Denial
from rebalancer.ports import EvictionResult as Result
from tests.adapters.kubernetes.fake_server import answer, served, write_kubeconfig
from tests.tracking.test_moves import MOVE

SUCCESS = {"kind": "Status", "status": "Success"}


def failure(code: int, message: str = "", **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "message": message, "details": details}


BUDGET: dict[str, Any] = {
    "causes": [{"reason": "DisruptionBudget", "message": "needs 4 healthy pods and has 4 currently"}]
}

DENIED = 'admission webhook "guard" denied the request: not now'
TERMINATING = 'pods "web-0" is forbidden: unable to create new content in namespace shop because it is being terminated'
NO_RIGHT = (
    'pods "web-0" is forbidden: User "system:serviceaccount:rebalancer-system:rebalancer" cannot create resource '
    '"pods/eviction" in API group "" in the namespace "shop"'
)
BUDGET_IN_DISORDER = 'poddisruptionbudgets.policy "web" is forbidden: pdb disruptions allowed is negative'


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
        (403, failure(403, TERMINATING, kind="pods", causes=[{"reason": "NamespaceTerminating"}]), Result.GONE),
        (403, failure(403, DENIED, causes=[{"reason": "NamespaceTerminating"}]), Result.REFUSED),
        (403, failure(403, NO_RIGHT, kind="pods", name="web-0"), Result.FORBIDDEN),
        (403, failure(403, BUDGET_IN_DISORDER, kind="poddisruptionbudget", name="web"), Result.BUDGET),
        (403, failure(403, BUDGET_IN_DISORDER, **BUDGET), Result.BUDGET),
        (403, failure(403, DENIED, **BUDGET), Result.REFUSED),
        (404, failure(404, kind="pods"), Result.GONE),
        (404, failure(404, kind="poddisruptionbudgets"), Result.STALE),
        (404, failure(404, DENIED, kind="pods", name="web-0"), Result.REFUSED),
        (404, failure(404), Result.FAILED),
        (404, b"404 page not found", Result.FAILED),
        (403, failure(403, DENIED), Result.REFUSED),
        (409, failure(409, DENIED), Result.REFUSED),
        (500, failure(500, DENIED), Result.REFUSED),
        (500, failure(500, 'Internal error occurred: failed calling webhook "guard": timeout'), Result.UNKNOWN),
        (409, failure(409, kind="Pod"), Result.CONFLICT),
        (422, failure(422), Result.FAILED),
        (429, failure(429, **BUDGET), Result.BUDGET),
        (429, failure(429, **BUDGET, retryAfterSeconds=10), Result.STALE),
        (429, failure(429), Result.FAILED),
        (429, failure(429, retryAfterSeconds=1), Result.THROTTLED),
        (429, failure(429, DENIED, retryAfterSeconds=1), Result.REFUSED),
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


WEBHOOK = 'admission webhook "zone-budget.example.com" denied the request'
POLICY = "pods \"web-0\" is forbidden: ValidatingAdmissionPolicy 'freeze' with binding 'freeze-shop' denied request"


def of_policy(code: int, words: str) -> dict[str, Any]:
    message = f"{POLICY}: {words}"
    causes = [{"message": message.partition("forbidden: ")[2]}]
    return failure(code, message, name="web-0", kind="pods", causes=causes)


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        (403, failure(403, f"{WEBHOOK}: not now"), ("admission webhook zone-budget.example.com", "not now", False)),
        (429, failure(429, f"{WEBHOOK}: not now"), ("admission webhook zone-budget.example.com", "not now", True)),
        (
            429,
            failure(429, f"{WEBHOOK}: not now", retryAfterSeconds=7),
            ("admission webhook zone-budget.example.com", "not now", True),
        ),
        (400, failure(400, f"{WEBHOOK}: Gone"), ("admission webhook zone-budget.example.com", "Gone", False)),
        (
            403,
            failure(403, f"{WEBHOOK} without explanation"),
            ("admission webhook zone-budget.example.com", "without explanation", False),
        ),
        (
            403,
            failure(403, f'{WEBHOOK}: two\nlines of "words"'),
            ("admission webhook zone-budget.example.com", 'two lines of "words"', False),
        ),
        (
            403,
            failure(403, f"{WEBHOOK}: {NO_RIGHT}", kind="pods"),
            ("admission webhook zone-budget.example.com", NO_RIGHT, False),
        ),
        (422, of_policy(422, "frozen"), ("ValidatingAdmissionPolicy freeze", "frozen", False)),
        (403, of_policy(403, "frozen"), ("ValidatingAdmissionPolicy freeze", "frozen", False)),
        (
            413,
            of_policy(413, "failed expression: false"),
            ("ValidatingAdmissionPolicy freeze", "failed expression: false", False),
        ),
        (
            403,
            failure(403, 'pods "web-0" is forbidden: this node keeps its pods', kind="pods", name="web-0"),
            ("an admission plugin", "this node keeps its pods", False),
        ),
    ],
)
def test_what_admission_control_refuses(code: int, body: Any, expected: tuple[str, str, bool]) -> None:
    """It has the refuser's name and words, as API server 1.36 sends them; with 429 the pod may go later."""
    with served(lambda request: answer(request, code, body)) as transport:
        response = evict(transport, MOVE)
    assert (response.result, response.denial) == (Result.REFUSED, Denial(*expected))


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (422, f"{POLICY}: expression 'object.x' resulted in error: no such key: x", Result.FAILED),
        (403, f"{POLICY}: expression 'object.x' resulted in error: no such key: x", Result.FAILED),
        (422, f"{POLICY}: failed to configure binding: no params found", Result.FAILED),
        (500, 'Internal error occurred: failed calling webhook "guard": connection refused', Result.UNKNOWN),
        (403, NO_RIGHT, Result.FORBIDDEN),
        (403, NO_RIGHT.replace("rebalancer-system:rebalancer", '\\"odd\\" name'), Result.FORBIDDEN),
        (401, "Unauthorized", Result.FORBIDDEN),
        (403, "blocked by the gateway", Result.FORBIDDEN),
    ],
)
def test_what_admission_control_does_not_refuse_on_purpose(code: int, message: str, expected: Result) -> None:
    """A webhook that is down and a policy that cannot be evaluated are failures; the authorizer's 403 is no right."""
    with served(lambda request: answer(request, code, failure(code, message, kind="pods"))) as transport:
        response = evict(transport, MOVE)
    assert (response.result, response.denial) == (expected, None)


def test_the_words_of_a_webhook_are_bounded() -> None:
    """The memory stores them for each group, whatever a webhook writes."""
    message = f'admission webhook "{"n" * 300}" denied the request: {"w" * 30_000}'
    with served(lambda request: answer(request, 403, failure(403, message))) as transport:
        denial = evict(transport, MOVE).denial
    assert denial is not None
    assert (len(denial.refuser), len(denial.words)) == (120, 240)
    assert denial.words.endswith("…")


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
    transport = connect(kubeconfig=str(write_kubeconfig(tmp_path)))
    assert transport.configuration.retries is False
    assert transport.host == "http://127.0.0.1:1"
    transport.close()
