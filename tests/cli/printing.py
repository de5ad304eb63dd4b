"""Commands run as on a terminal of a width, and the small API servers that those about a cluster reach."""

import io
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

import pytest
from msgspec import structs

from rebalancer.cli import main as entry
from rebalancer.cli.parsing import Parser
from rebalancer.cli.registry import VERBS
from rebalancer.documents.document import to_json
from rebalancer.documents.map import MapDocument
from rebalancer.documents.status import MoveEntry, PauseStatus, StatusDocument
from rebalancer.documents.waits import HoldStatus, RepairWait
from rebalancer.policy import Mode
from rebalancer.ports import STATUS_KEY
from tests.adapters.kubernetes.fake_server import Handler, reachable
from tests.cli import test_approve, test_pause
from tests.cli import test_status as test_cli_status
from tests.reporting.text import test_map, test_status


def paused_server() -> Handler:
    """Return the server of a cluster that alice has paused."""
    return test_pause.switch({"pause.yaml": "reason: zone b is upgraded\nby: alice\n"})


def running_server() -> Handler:
    """Return the server of a cluster whose kill switch nobody has used."""
    return test_pause.switch({})


def proposing_server() -> Handler:
    """Return the server of a cluster whose controller waits for an approval."""
    return test_approve.proposing(test_approve.proposed(Mode.APPROVE))


Waited = TypeVar("Waited", RepairWait, HoldStatus)


def repairing_status(now: datetime) -> StatusDocument:
    """Return a status whose times are as long before `now` as in the tests of its text."""
    late = now - timedelta(milliseconds=500) - test_status.NOW  # a second is not over while the command runs
    status = test_status.STATUS
    assert status.last_cycle is not None

    def moved(moves: Sequence[MoveEntry]) -> tuple[MoveEntry, ...]:
        return tuple(
            structs.replace(
                move,
                since=move.since + late,
                requested_at=move.requested_at + late,
                ready_at=move.ready_at + late if move.ready_at is not None else None,
            )
            for move in moves
            if move.requested_at is not None
        )

    def told(wait: Waited) -> Waited:
        return structs.replace(wait, until=wait.until + late) if wait.until is not None else wait

    return structs.replace(
        status,
        last_cycle=status.last_cycle + late,
        in_flight=moved(status.in_flight),
        last_moves=moved(status.last_moves),
        waits=tuple(map(told, status.waits)),
        holds=tuple(
            structs.replace(told(hold), since=hold.since + late) for hold in status.holds if hold.since is not None
        ),
        map=_as_of(now - timedelta(milliseconds=500), test_map.repair()),
    )


def _as_of(now: datetime, drawn: MapDocument) -> MapDocument:
    """Return a map of this moment."""
    zones = (
        structs.replace(
            zone,
            nodes=tuple(
                structs.replace(node, until=node.until + (now - test_map.NOW)) if node.until is not None else node
                for node in zone.nodes
            ),
        )
        for zone in drawn.zones
    )
    return structs.replace(drawn, zones=tuple(zones))


def repairing_server() -> Handler:
    """Return the server of a cluster whose controller is in the middle of a repair."""
    return _leading_server(lambda: repairing_status(datetime.now(UTC)))


def stopped_server() -> Handler:
    """Return the server of a cluster whose controller is paused."""
    paused = PauseStatus(until=None, reason="zone b is upgraded", by="alice")
    return _leading_server(lambda: structs.replace(repairing_status(datetime.now(UTC)), paused=paused))


def _leading_server(status: Callable[[], StatusDocument]) -> Handler:
    made = test_cli_status.running()
    test_cli_status.lead(made, test_cli_status.held(status().leader, since=test_cli_status.at(-3 * 3600 - 1)))
    made.answers["GET", test_cli_status.MAP] = lambda _: (
        200,
        {"metadata": {"name": "rebalancer-status"}, "data": {STATUS_KEY: to_json(status()).decode()}},
    )
    return made


_HASH = re.compile(r"(?<=\bpolicy )[0-9a-f]{16}\b|(?<=\bhash )[0-9a-f]{16}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T\n]\d\d:\d\d:\d\dZ|\d+(?=s ago)|(?<= in )[0-9hms]+(?= \(\d{4}-)")


def _has_color_flag(name: str) -> bool:
    verb = next(verb for verb in VERBS if verb.name == name)
    parser = Parser(prog=name, description="")
    verb.load().add_arguments(parser)
    return "--color" in parser.list_flags()


@contextmanager
def reached(make: Callable[[], Handler]) -> Iterator[None]:
    """Have an API server as the one cluster that commands reach while the block lasts; KUBECONFIG names it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as monkeypatch,
        reachable(make(), Path(folder), monkeypatch),
    ):
        yield


def printed(command: tuple[str, ...], width: int, color: str, server: Callable[[], Handler] | None = None) -> str:
    """Return what a command prints on a terminal of a width; hashes of policies and the times of now are hidden.

    `server` makes the handler of the API server that the command reaches.
    """
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    colors = ("--color", color) if _has_color_flag(command[0]) else ()
    with (
        nullcontext() if server is None else reached(server),
        patch.dict(os.environ, {"COLUMNS": str(width)}),
        redirect_stdout(out),
        redirect_stderr(io.StringIO()),
    ):
        entry.main([*command, *colors])
    out.seek(0)
    text = hide_hashes(out.read())
    return hide_times(text) if server is not None else text


def hide_hashes(text: str) -> str:
    """Write H in the place of the figures of a policy's hash, equally wide: every new field changes it."""
    return _HASH.sub("H" * 16, text)


def hide_times(text: str) -> str:
    """Write T in the place of the figures of times, and of seconds that have passed, equally wide."""
    return _TIME.sub(lambda moment: re.sub(r"\S| ", "T", moment[0]), text)
