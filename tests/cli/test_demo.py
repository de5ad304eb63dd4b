"""The demo, which is a live simulation of a shipped scenario: paced and drawn in a terminal, lines elsewhere."""

import io
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import urllib3

from rebalancer.cli import live
from rebalancer.cli.main import main
from tests.simulator.test_story import FEWEST

COMMAND = [sys.executable, "-m", "rebalancer.cli.main"]
ENVIRONMENT = dict(os.environ)
"""Passed on as it is: without it a child also gets the COLUMNS that GNU readline sets behind Python's back."""

STORY = "docs/examples/zone-back/scenario.yaml"


def story_at(pace: int, folder: Path) -> str:
    """Write the story for another pace than that for people, 30, at which it takes 12 seconds on a terminal."""
    scenario = folder / "story.yaml"
    text = Path(STORY).read_text(encoding="utf-8")
    assert "pace: 30\n" in text
    scenario.write_text(text.replace("pace: 30\n", f"pace: {pace}\n"), encoding="utf-8")
    return str(scenario)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in this process."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = main(words)
    return subprocess.CompletedProcess(words, code, out.getvalue(), errors.getvalue())


def run_process(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT)


def test_without_a_terminal_it_prints_lines_and_then_the_result() -> None:
    """At once: nobody watches."""
    done = run_process("demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1] == "00:10  Zone c is lost with its nodes"
    assert "\n\nSimulated: 11 evictions (proved minimum), " in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("flags", "scenario"),
    [((), "builtin:zone"), (("--scenario", "builtin:deadlock"), "builtin:deadlock"), (("--scenario", STORY), STORY)],
)
def test_it_is_a_live_simulation_of_a_scenario(flags: Sequence[str], scenario: str) -> None:
    """Of a shipped one if none is named."""
    assert run("demo", *flags).stdout == run("simulate", "--live", "--scenario", scenario).stdout != ""


@pytest.mark.parametrize("flag", ["--each=zone", "--live", "--snapshot=x", "--policy=x", "-n=shop", "--output=json"])
def test_flags_that_a_demo_has_no_use_for_are_none_of_its(flag: str) -> None:
    done = run("demo", flag)
    assert done.returncode == 2
    assert flag in done.stderr


@contextmanager
def started(*flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the demo with pipes; it is ended with the block."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, "demo", *flags], stdin=pipe, stdout=pipe, bufsize=0, env=ENVIRONMENT) as child:
        try:
            yield child
        finally:
            child.kill()


def read_until(child: subprocess.Popen[bytes], text: str) -> str:
    """Read what a process prints until a text is there."""
    assert child.stdout is not None
    shown = b""
    while text.encode() not in shown:
        assert select.select([child.stdout], [], [], 30)[0], shown
        more = os.read(child.stdout.fileno(), 65536)
        assert more, shown
        shown += more
    return shown.decode()


def press_enter(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    child.stdin.write(b"\n")


def test_step_waits_for_enter_after_each_scene() -> None:
    """Nothing more is printed before; the lines are those without --step."""
    with started("--step", "--scenario", "builtin:deadlock") as child:
        shown = read_until(child, "Enter: continue   Ctrl-C: end ")
        assert child.stdout is not None
        assert not select.select([child.stdout], [], [], 0.5)[0]
        assert "The last shard gets its second pod" in shown
        assert "The repair needs" not in shown
        rest, _ = child.communicate(b"\n" * 10, timeout=30)
        assert child.returncode == 0
    stepped = (shown + rest.decode()).replace("Enter: continue   Ctrl-C: end \n", "")
    assert stepped == run("demo", "--scenario", "builtin:deadlock").stdout


def test_the_status_page_shows_the_same_run() -> None:
    """At the address that is printed first: the violations of the moment, by the simulated clock, as JSON too."""
    with started("--page-address", "127.0.0.1:0", "--step") as child:
        shown = read_until(child, "Enter: continue")
        url = shown.splitlines()[0].removeprefix("Status page, while the simulation runs: ")
        assert "ShareLimitInfeasible" in shown
        for scene in ("is back and empty", "The repair needs"):
            press_enter(child)
            assert scene in read_until(child, "Enter: continue")
        page = urllib3.request("GET", url, timeout=5.0, retries=False)
        assert (page.status, page.headers["Refresh"]) == (200, "2; url=./")
        assert "mode Evict: the controller evicts" in page.data.decode()
        assert re.search(r"Last cycle 2026-01-01 00:0\d:\d\d UTC, \ds ago", page.data.decode())
        document = json.loads(urllib3.request("GET", f"{url}status.json", timeout=5.0, retries=False).data)
        assert document["totals"]["evictions"] == document["totals"]["lowerBound"] == FEWEST["zone"]


def test_a_page_address_in_use_is_named() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as used:
        done = run("demo", "--page-address", f"127.0.0.1:{used.getsockname()[1]}")
    assert done.returncode == 1
    assert "Address already in use; choose another address with --page-address" in done.stderr


@pytest.mark.parametrize(
    ("words", "code"), [(["--scenario"], 2), (["--scenario", "zone"], 1), (["--scenario", "builtin:fire"], 1)]
)
def test_without_a_scenario_that_is_there_those_that_are_shipped_are_listed(words: list[str], code: int) -> None:
    """What can be typed, as it is typed."""
    done = run("demo", *words)
    assert done.returncode == code
    assert "builtin:zone or builtin:deadlock" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_same_seed_prints_the_same() -> None:
    """In another process, whose hashes differ, too."""
    assert run_process("demo", "--seed", "5").stdout == run("demo", "--seed", "5").stdout
    assert run("demo", "--seed", "5").stdout != run("demo", "--seed", "6").stdout


@pytest.mark.parametrize("flags", [["--seed", "x"], ["--page-address", "8081"], ["--speed", "2"], ["-o", "json"]])
def test_values_that_mean_nothing_are_refused(flags: Sequence[str]) -> None:
    done = run("demo", *flags)
    assert done.returncode == 2
    assert flags[0] in done.stderr


def test_ctrl_c_ends_it_with_130() -> None:
    command = [*COMMAND, "demo", "--step"]
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert child.stdout is not None
    assert child.stdout.readline()
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=10)
    assert (child.returncode, errors) == (130, "")


def shown_on_terminal(*words: str, term: str = "xterm") -> tuple[bytes, float]:
    """Run a command on a terminal to its end; return what it has written, and the seconds since its first output.

    Its standard input is none, so that nothing waits for Enter.
    """
    screen, terminal = pty.openpty()
    nothing = subprocess.DEVNULL
    child = subprocess.Popen([*COMMAND, *words], stdin=nothing, stdout=terminal, env={**ENVIRONMENT, "TERM": term})
    os.close(terminal)
    shown = os.read(screen, 65536)
    began = time.monotonic()
    while time.monotonic() - began < 60:
        try:
            shown += os.read(screen, 65536)
        except OSError:  # the other end is closed: it has ended
            break
    os.close(screen)
    assert child.wait(timeout=10) == 0
    return shown, time.monotonic() - began


def test_on_a_terminal_it_draws_and_ends_by_itself(tmp_path: Path) -> None:
    shown, seconds = shown_on_terminal("demo", "--scenario", story_at(100, tmp_path))
    assert b"\x1b[?1049h" in shown
    assert b"ZONE b" in shown
    assert b"the proven minimum for the whole repair is 3" in b" ".join(shown.split())
    assert b"Status page, while the simulation runs: http://localhost:" in shown
    assert seconds > 1.5


KEPT = re.compile(rb"Status page, until you press Enter: (http://localhost:\d+/)")


def test_on_a_terminal_the_page_stays_until_enter(tmp_path: Path) -> None:
    """After the tables, which say the address once more; the page shows the end."""
    screen, terminal = pty.openpty()
    on_terminal = {"stdin": terminal, "stdout": terminal, "env": {**ENVIRONMENT, "TERM": "dumb"}}
    with subprocess.Popen([*COMMAND, "demo", "--scenario", story_at(1000, tmp_path)], **on_terminal) as child:  # type: ignore[call-overload]
        os.close(terminal)
        try:
            shown = b""
            while not (kept := KEPT.search(shown)) and select.select([screen], [], [], 30)[0]:
                shown += os.read(screen, 65536)
            assert kept is not None
            assert b"AT THE END" in shown
            answer = urllib3.request("GET", f"{kept[1].decode()}status.json", timeout=5.0, retries=False)
            assert json.loads(answer.data)["totals"]["evictions"] == 0
            assert child.poll() is None
            os.write(screen, b"\n")
            assert child.wait(timeout=10) == 0
        finally:
            child.kill()
            os.close(screen)


def test_a_terminal_that_only_adds_lines_gets_lines_at_the_same_pace(tmp_path: Path) -> None:
    shown, seconds = shown_on_terminal("demo", "--scenario", story_at(100, tmp_path), term="dumb")
    assert b"\x1b" not in shown
    assert b"00:20  Zone b is lost" in shown
    assert seconds > 1.5


@pytest.mark.parametrize("term", ["dumb", ""])
def test_such_a_terminal_shows_the_first_line_at_once(term: str) -> None:
    """Not when the simulation ends, half a minute later."""
    screen, terminal = pty.openpty()
    with subprocess.Popen([*COMMAND, "demo"], stdout=terminal, env={**ENVIRONMENT, "TERM": term}) as child:
        os.close(terminal)
        shown, began = b"", time.monotonic()
        while b"evenly spread" not in shown and select.select([screen], [], [], 10)[0]:
            shown += os.read(screen, 65536)
        assert child.poll() is None
        child.kill()
    os.close(screen)
    assert b"00:00  Three zones, three workloads, evenly spread" in shown
    assert time.monotonic() - began < 15  # a busy machine takes seconds to start a process; the end comes after 45


def test_an_hour_without_news_is_shown_in_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the pace of the scenario it would take an hour."""
    assert live._LONGEST_SILENCE == 5
    monkeypatch.setattr(live, "_LONGEST_SILENCE", 1.0)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    scenario = tmp_path / "hour.yaml"
    scenario.write_text(
        "pace: 1\nquiet: 1s\ncluster: {zones: {a: 1}, workloads: [{kind: Deployment, name: web, pods: {a-1: 1}}]}\n"
        "policy: |\n  apiVersion: rebalancer.dev/v1alpha1\n  kind: RebalancePolicy\n"
        "steps: [{scale: default/deployment/web=1, after: 1h}]\n"
    )
    began = time.monotonic()
    assert main(["demo", "--scenario", str(scenario)]) == 0
    assert 1 < time.monotonic() - began < 25
