"""The Lease object: whatever somebody has written into it is read, and what is written back is accepted."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from msgspec import structs

from rebalancer.adapters.kubernetes.lease import KubernetesLease
from rebalancer.ports import LeaseRecord
from tests.adapters.kubernetes.fake_server import answer, served

RENEWED = "2026-11-26T01:00:00.000000Z"
GHOST = LeaseRecord(
    holder="ghost", duration=15, renewed=datetime(2026, 11, 26, 1, tzinfo=UTC), transitions=3, version="7"
)
SPEC = {"holderIdentity": "ghost", "leaseDurationSeconds": 15, "renewTime": RENEWED, "leaseTransitions": 3}


@contextmanager
def lease_of(spec: Any, written: list[Any] | None = None) -> Iterator[KubernetesLease]:
    """Serve one Lease; what is written to it is appended to `written`, and answered as it is."""

    def handle(request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers.get("Content-Length") or 0)) or b"null")
        if written is not None and body is not None:
            written.append(body)
        stored = {"metadata": {"name": "rebalancer", "resourceVersion": "7"}, "spec": spec}
        answer(request, 200, stored if body is None else body)

    with served(handle) as transport:
        yield KubernetesLease(transport, namespace="rebalancer-system", timeout=5.0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {}),
        ({"holderIdentity": None}, {"holder": ""}),
        ({"holderIdentity": " a\nstrange\u0000 holder " * 20}, {"holder": " a\nstrange\u0000 holder " * 20}),
        ({"leaseDurationSeconds": None}, {"duration": 0}),
        ({"leaseDurationSeconds": -5}, {"duration": 0}),
        ({"leaseDurationSeconds": 2**31 - 1}, {"duration": 2**31 - 1}),
        ({"leaseTransitions": None}, {"transitions": 0}),
        ({"leaseTransitions": -1}, {"transitions": 0}),
        ({"leaseTransitions": 2**31 - 1}, {"transitions": 2**31 - 1}),
        ({"leaseTransitions": "3"}, {"transitions": 0}),
        ({"renewTime": None}, {"renewed": None}),
        ({"renewTime": "0000-01-01T00:00:00.000000Z"}, {"renewed": None}),
        ({"renewTime": "10000-01-01T00:00:00.000000Z"}, {"renewed": None}),
        ({"renewTime": "9999-12-31T23:59:59.000000Z"}, {"renewed": datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)}),
        ({"acquireTime": "0000-01-01T00:00:00.000000Z"}, {"acquired": None}),
        ({"acquireTime": RENEWED}, {"acquired": GHOST.renewed}),
        ({"strategy": "OldestEmulationVersion", "preferredHolder": "another"}, {}),
    ],
)
def test_whatever_stands_in_it_is_read(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    """A field that says nothing is as one that is missing; the others are read all the same."""
    with lease_of({**SPEC, **changes}) as lease:
        assert lease.read() == structs.replace(GHOST, **expected)


@pytest.mark.parametrize("spec", [{}, None])
def test_an_empty_one_is_free(spec: Any) -> None:
    with lease_of(spec) as lease:
        assert lease.read() == LeaseRecord(holder="", duration=0, version="7")


@pytest.mark.parametrize(("transitions", "sent"), [(4, 4), (2**31 - 1, 2**31 - 1), (2**31, 2**31 - 1)])
def test_transitions_are_never_more_than_the_api_server_takes(transitions: int, sent: int) -> None:
    written: list[Any] = []
    with lease_of(SPEC, written) as lease:
        lease.write(structs.replace(GHOST, transitions=transitions))
    assert written == [
        {"metadata": {"resourceVersion": "7"}, "spec": {**SPEC, "leaseTransitions": sent, "acquireTime": None}}
    ]
