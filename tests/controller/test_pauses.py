"""The kill switch is read from its ConfigMap, whatever somebody has put there."""

import json
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import cast

import pytest
from structlog.testing import capture_logs

from rebalancer.adapters.kubernetes.configmaps import find_pause
from rebalancer.adapters.kubernetes.reflector import Contents
from rebalancer.adapters.kubernetes.transport import Transport
from rebalancer.admission.pause import Pause
from rebalancer.controller.state import LoopEvent, PauseRead
from rebalancer.controller.switches import watch_pauses
from rebalancer.decoding.config_maps import CONFIG_MAPS
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.lists import decode
from rebalancer.model.cluster import ConfigMap
from rebalancer.model.history import NOBODY
from tests.adapters.kubernetes.fake_server import answer, begin_stream, chunk, served


def control(**fields: object) -> dict[str, object]:
    return {"metadata": {"name": "rebalancer-control", "namespace": "ns", "resourceVersion": "2"}, **fields}


def test_each_change_is_reported_when_it_comes() -> None:
    """What was there at first is known before the watch counts as filled; then each change, and that it is gone."""
    changes = [
        ("MODIFIED", control(data={"pause.yaml": "until: never"})),
        ("MODIFIED", control(data=5)),
        ("MODIFIED", control(binaryData={"pause.yaml": "//4="})),
        ("DELETED", control(data={"pause.yaml": "reason: x"})),
    ]
    requested: list[str] = []
    over = Event()

    def handle(request: BaseHTTPRequestHandler) -> None:
        requested.append(request.path)
        if "watch" not in request.path:
            first = control(data={"pause.yaml": "reason: an upgrade"})
            answer(request, 200, {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [first]})
            return
        begin_stream(request)
        for kind, contents in changes:
            chunk(request, json.dumps({"type": kind, "object": contents}).encode() + b"\n")
        over.wait(10)

    reported: list[LoopEvent] = []
    all_reported = Event()

    def tell(event: LoopEvent) -> None:
        reported.append(event)
        if len(reported) == 1 + len(changes):
            all_reported.set()

    with served(handle) as transport:
        reflector = watch_pauses(transport, "ns", tell)
        reflector.start()
        assert reflector.synced.wait(10)
        assert reported[0] == PauseRead(pause=Pause(reason="an upgrade"), author=NOBODY)
        assert all_reported.wait(10)
        over.set()
        reflector.stop()
    assert all("/namespaces/ns/configmaps?" in path for path in requested)
    assert all("fieldSelector=metadata.name%3Drebalancer-control" in path for path in requested)
    pauses = [event.pause for event in reported if isinstance(event, PauseRead)]
    assert [pause is not None and bool(pause.unreadable) for pause in pauses] == [False, True, True, True, False]
    assert pauses[-1] is None


def test_a_pause_that_has_ended_already_is_logged_once() -> None:
    """It pauses nothing, and its author should know; the same ConfigMap again is no news."""
    past = control(data={"pause.yaml": "until: 2020-01-31T12:00:00Z"})
    other = control(data={"pause.yaml": "until: 2020-01-31T12:00:00Z", "theirs": "x"})
    lasting = control(data={"pause.yaml": "reason: x"})
    reported: list[LoopEvent] = []
    with capture_logs() as logs:
        report = watch_pauses(cast("Transport", None), "ns", reported.append)._changed
        assert report is not None
        for contents in (past, other, lasting, past):
            decoded = decode(CONFIG_MAPS, json.dumps(contents).encode(), Interner())
            report(Contents(objects=(decoded,), faults=()))
    assert [entry["log_level"] for entry in logs] == ["warning", "warning"]
    assert "until 2020-01-31 12:00:00Z is in the past" in logs[0]["reason"]
    assert len(reported) == 4


@pytest.mark.parametrize(
    ("data", "expected"),
    [({}, None), ({"approved": "f00"}, None), ({"pause.yaml": ""}, Pause()), ({"pause.yaml": "by: a"}, Pause(by="a"))],
)
def test_only_its_own_key_counts(data: dict[str, str], expected: Pause | None) -> None:
    """The ConfigMap holds other switches too; an empty one is a pause."""
    config_map = ConfigMap(namespace="ns", name="rebalancer-control", uid="u", data=data)
    assert find_pause(config_map) == expected
