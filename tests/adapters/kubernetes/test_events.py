"""Events that come again are one object with a count, whoever published them first."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

import pytest
from structlog.testing import capture_logs

from rebalancer.adapters.kubernetes import events
from rebalancer.adapters.kubernetes.events import Recorder
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.model.events import Event, EventReason, Regarding
from rebalancer.model.visible import visible
from tests.adapters.kubernetes.fake_server import ApiServer, answer, served
from tests.control_plane.api import wait_until

WEB = Regarding(kind="Deployment", namespace="shop", name="web", uid="u-1")


def event(note: str = "too many on a", **fields: Any) -> Event:
    return Event(**{"reason": EventReason.SHARE_LIMIT_VIOLATED, "note": note, "regarding": WEB, **fields})


def counts(server: ApiServer) -> list[int]:
    return [event.get("series", {}).get("count", 1) for event in server.objects.values()]


def methods(server: ApiServer) -> list[str]:
    return [method for method, _ in server.requests]


@contextmanager
def recording(transport: Transport) -> Iterator[Recorder]:
    recorder = Recorder(transport, instance="pod-1")
    yield recorder
    recorder.close(timeout=30)


def test_what_comes_again_is_counted_not_repeated() -> None:
    """One object; another note or another object is another event."""
    server = ApiServer()
    with served(server) as transport, recording(transport) as recorder:
        for _ in range(3):
            recorder.record(event())
        recorder.record(event("too many on b"))
        recorder.record(event(regarding=Regarding(kind="Pod", namespace="shop", name="web", uid="u-2")))
    assert counts(server) == [3, 1, 1]
    assert methods(server) == ["POST", "PATCH", "PATCH", "POST", "POST"]
    (first, *_) = server.objects.values()
    assert first["regarding"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "namespace": "shop",
        "name": "web",
        "uid": "u-1",
    }
    assert (first["reason"], first["action"], first["type"]) == ("ShareLimitViolated", "Assess", "Warning")
    assert first["series"]["lastObservedTime"] > first["eventTime"]


def test_times_have_six_digits_on_a_whole_second_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them the API server refuses an event, and the client's model of one writes none there."""

    class Noon(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls(2026, 1, 1, 12, tzinfo=tz)

    monkeypatch.setattr(events, "datetime", Noon)
    server = ApiServer()
    with served(server) as transport, recording(transport) as recorder:
        recorder.record(event())
        recorder.record(event())
    (stored,) = server.objects.values()
    assert stored["eventTime"] == "2026-01-01T12:00:00.000001+00:00"
    assert stored["series"]["lastObservedTime"] == "2026-01-01T12:00:00.000000Z"


def test_the_next_process_goes_on_counting() -> None:
    """It reads the count of the series from the server, with no permission but patch."""
    server = ApiServer()
    with served(server) as transport:
        for _ in range(3):
            with recording(transport) as recorder:
                recorder.record(event())
    assert counts(server) == [3]
    assert methods(server) == ["POST", *("POST", "PATCH", "PATCH") * 2]


def test_an_event_that_the_server_has_forgotten_is_made_anew() -> None:
    """They live for an hour."""
    server = ApiServer()
    with served(server) as transport:
        with recording(transport) as recorder:
            recorder.record(event())
            recorder.record(event("another"))
            recorder.record(event())
            wait_until(lambda: len(server.requests) == 3, what="the series")
            server.objects.clear()
            recorder.record(event())
        assert counts(server) == [1]


def test_an_event_for_a_namespace_that_is_being_deleted_is_dropped_in_silence() -> None:
    """Nobody would read it, and nothing is wrong: other refusals are in the log."""
    answers = iter(({"causes": [{"reason": "NamespaceTerminating"}]}, {}))

    def handle(request: BaseHTTPRequestHandler) -> None:
        request.rfile.read(int(request.headers["Content-Length"]))
        answer(request, 403, {"details": next(answers)})

    with capture_logs() as logs, served(handle) as transport, recording(transport) as recorder:
        recorder.record(event())
        recorder.record(event("another"))
    assert [line["event"] for line in logs] == ["event not published"]


def test_a_server_that_hangs_does_not_hold_the_caller() -> None:
    """Events are queued at once, up to a thousand; more are dropped, and the log says so."""
    server, released = ApiServer(), threading.Event()

    def slow(request: BaseHTTPRequestHandler) -> None:
        released.wait(timeout=30)
        server(request)

    with served(slow) as transport, capture_logs() as logs:
        with recording(transport) as recorder:
            for number in range(1_500):
                recorder.record(event(f"number {number}"))
            released.set()
        dropped = [line for line in logs if line["event"].startswith("event dropped")]
    assert len(server.objects) in {1_000, 1_001}
    assert len(server.objects) + len(dropped) == 1_500


def test_an_event_that_cannot_be_sent_does_not_end_the_thread() -> None:
    """It is logged, and the next one is published."""
    server = ApiServer()
    with served(server) as transport, capture_logs() as logs, recording(transport) as recorder:
        recorder.record(event("\ud800"))
        recorder.record(event())
    assert counts(server) == [1]
    assert [(line["event"], line["log_level"]) for line in logs] == [("event not published", "error")]


def test_names_are_shown_in_an_event_and_its_note_is_as_long_as_the_api_server_takes() -> None:
    """Kubectl prints both; the limit is in bytes, of what is shown."""
    hostile = "web\x1b[2J\u202e\n"
    regarding = Regarding(kind=hostile, namespace="shop", name=hostile, uid="u-1")
    server = ApiServer()
    with served(server) as transport, recording(transport) as recorder:
        recorder.record(event(hostile, regarding=regarding))
        recorder.record(event("\n" * 1024))
        recorder.record(event("é" * 1024))
    texts = [json.dumps(stored, ensure_ascii=False) for stored in server.objects.values()]
    assert [visible(text) for text in texts] == texts
    named, *long = server.objects.values()
    assert (named["note"], named["regarding"]["name"]) == ("web\\x1b[2J\\u202e\\n",) * 2
    assert [len(stored["note"].encode()) for stored in long] == [1024, 1023]
    assert all(stored["note"].endswith("…") for stored in long)
