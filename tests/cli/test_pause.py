"""`rebalancer pause` and `resume`: what they write, what they say, and what they say where they may not."""

import getpass
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rebalancer.admission.pause import read_pause
from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit
from rebalancer.history.declared import ANNOTATION, Declaration, read_declaration
from rebalancer.history.people import pause_token
from rebalancer.model.history import UNKNOWN
from tests.adapters.kubernetes.fake_server import Answer, ApiServer, reachable

MAP = "/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-control"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/rebalancer-system/leases/rebalancer"
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def switch(data: dict[str, str] | None = None) -> ApiServer:
    """Return an API server as far as the switch needs one: `data` of the ConfigMap, None: there is none."""
    made = ApiServer()
    made.answers["POST", REVIEW] = 201, {"status": {"userInfo": {"username": "alice"}}}
    made.put(LEASE, spec={})
    if data is not None:
        made.put(MAP, data=data)
    return made


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    made = switch()
    with reachable(made, tmp_path, monkeypatch):
        yield made


def test_pause_and_resume(server: ApiServer) -> None:
    """Keys of others stay as they are; what each says is a golden text."""
    server.put(MAP, data={"approved": "f00"})
    assert entry.main(["pause", "--reason", "zone b\nis upgraded"]) == Exit.FINE
    assert server.data(MAP) == {"approved": "f00", "pause.yaml": "reason: zone b is upgraded\nby: alice\n"}
    assert entry.main(["resume"]) == Exit.FINE
    assert server.data(MAP) == {"approved": "f00"}
    assert entry.main(["resume"]) == Exit.FINE
    assert server.data(MAP) == {"approved": "f00"}


@pytest.mark.parametrize(
    ("review", "who"), [((201, {"status": {"userInfo": {"username": "bob"}}}), "bob"), (403, UNKNOWN)]
)
def test_who_resumes_is_declared(server: ApiServer, review: Answer, who: str) -> None:
    """Beside the change, with the pause that it ends; the next pause removes that."""
    assert entry.main(["pause"]) == Exit.FINE
    pause = read_pause(server.data(MAP)["pause.yaml"])
    server.answers["POST", REVIEW] = review
    assert entry.main(["resume"]) == Exit.FINE
    declared = read_declaration(server.objects[MAP]["metadata"]["annotations"][ANNOTATION])
    assert declared == Declaration(by=who, of=pause_token(pause))
    assert entry.main(["pause"]) == Exit.FINE
    assert ANNOTATION not in server.objects[MAP]["metadata"]["annotations"]


def test_a_pause_for_a_while(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """It ends so long after now; the ConfigMap is made where there was none."""
    now = datetime.now(UTC)
    assert entry.main(["pause", "--for", "1h30m", "--reason", "a look first"]) == Exit.FINE
    pause = read_pause(server.data(MAP)["pause.yaml"])
    assert pause.until is not None
    assert timedelta(seconds=-1) <= pause.until - now - timedelta(hours=1, minutes=30) < timedelta(seconds=60)
    assert f"paused until {pause.until:%Y-%m-%d %H:%M:%SZ} by alice: a look first" in capsys.readouterr().out


def test_a_pause_needs_no_reason(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """In an emergency nobody looks a flag up; the pause says that none was given."""
    assert entry.main(["pause"]) == Exit.FINE
    assert capsys.readouterr().out.startswith("Now paused until resumed by alice: no reason given\n")
    assert read_pause(server.data(MAP)["pause.yaml"]).message == "paused until resumed by alice: no reason given"


def test_what_was_written_by_hand_is_resumed_too(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A pause that is over or unreadable is removed, and its text is printed."""
    server.put(MAP, data={"pause.yaml": "until: 2020-01-01T00:00:00Z"})
    assert entry.main(["resume"]) == Exit.FINE
    assert "(it had ended)" in capsys.readouterr().out
    server.put(MAP, data={"pause.yaml": "untill: tomorrow"})
    assert entry.main(["resume"]) == Exit.FINE
    assert capsys.readouterr().out.startswith("Resumed; the pause could not be read (Object contains unknown field")
    assert server.data(MAP) == {}
    server.put(MAP, data={"pause.yml": "", "approved": "f00"})
    assert entry.main(["resume"]) == Exit.FINE
    assert "Removed pause.yml from ConfigMap" in capsys.readouterr().out
    assert server.data(MAP) == {"approved": "f00"}


def test_somebody_else_was_quicker(server: ApiServer) -> None:
    """A ConfigMap that came to be meanwhile is merged into."""

    def create(_: Any) -> Answer:
        server.put(MAP, data={"theirs": "kept"})
        return 409

    server.answers["POST", MAP.rpartition("/")[0]] = create
    assert entry.main(["pause", "--reason", "x"]) == Exit.FINE
    assert server.data(MAP) == {"theirs": "kept", "pause.yaml": "reason: x\nby: alice\n"}


def test_a_server_that_does_not_say_who_asks(server: ApiServer) -> None:
    """Then it is the local user: a kill switch does not fail without a name."""
    server.answers["POST", REVIEW] = 403
    assert entry.main(["pause", "--reason", "x"]) == Exit.FINE
    assert read_pause(server.data(MAP)["pause.yaml"]).by == getpass.getuser()


def test_a_namespace_without_a_controller(server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """It is written, and warned of: a switch in the wrong place stops nobody."""
    del server.objects[LEASE]
    assert entry.main(["pause", "--reason", "x"]) == Exit.FINE
    assert capsys.readouterr().err == (
        "warning: no controller has run in namespace rebalancer-system; choose its namespace with --namespace\n"
    )
    server.answers["GET", LEASE] = 403
    assert entry.main(["pause", "--reason", "x"]) == Exit.FINE
    assert capsys.readouterr().err == "", "who may not read leases is not warned of what is not known"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (403, ["not allowed: scripted answer 403", "the verbs patch and create on configmaps", "rebalancer-system"]),
        (404, ["choose the controller's namespace with --namespace"]),
        (500, ["PATCH", "HTTP 500"]),
    ],
)
def test_a_refusal(server: ApiServer, capsys: pytest.CaptureFixture[str], code: int, words: list[str]) -> None:
    """What was refused and what it takes, in one line; the exit code is 1."""
    server.put(MAP, data={"pause.yaml": "reason: x"})
    server.answers["POST", MAP.rpartition("/")[0]] = 404
    for command in (["pause", "--reason", "x"], ["resume"]):
        server.answers["PATCH", MAP] = code
        assert entry.main(command) == Exit.ERROR
        message = capsys.readouterr().err
        assert message.startswith("error: ")
        assert message.count("\n") == 1
        if command[0] == "pause":
            assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--reason", " \n"], "--reason is empty"),
        (["--reason", "x", "--for", "5"], "found '5', expected a duration such as 90s"),
        (["--reason", "x", "--for", "0s"], "expected more than 0s"),
        (["--reason", "x", "--for", "9999h"], "expected at most 8760h"),
    ],
)
def test_wrong_usage(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No request is sent to any server."""
    assert entry.main(["pause", *flags]) == Exit.USAGE
    assert message in capsys.readouterr().err
