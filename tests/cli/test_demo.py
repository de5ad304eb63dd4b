"""The demo: it plays the real loop, ends by itself, and shows the same play at any pace."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from io import StringIO

import pytest
from rich.console import Console

from rebalancer.adapters.simulator import START, TraceKind
from rebalancer.cli.demo_night import play_night
from rebalancer.cli.demo_play import DemoRun, StoryLine
from rebalancer.cli.demo_view import draw

HOUR = START + timedelta(hours=1)
COMMAND = [sys.executable, "-m", "rebalancer.cli.main", "demo"]


@pytest.mark.parametrize("seed", range(8))
def test_everything_is_repaired_with_the_fewest_evictions(seed: int) -> None:
    """Whatever the seed: as many evictions as were proved to be needed, none refused, and in time."""
    play = DemoRun(seed)
    reported = list(play.advance(HOUR))
    assert play.repaired
    assert play.evicted == play.minimum == 11
    assert not [entry for entry in play.cluster.trace if entry.kind is TraceKind.REFUSED]
    assert reported[-1].text == "Everything is evenly spread again"
    assert timedelta(minutes=2) < play.cluster.now - START < timedelta(minutes=4)


def test_the_play_is_the_same_at_any_pace() -> None:
    at_once, bit_by_bit = DemoRun(3), DemoRun(3)
    reported = list(at_once.advance(HOUR))
    lines: list[StoryLine] = []
    moment = START
    while not bit_by_bit.over:
        moment += timedelta(seconds=0.7)
        lines += bit_by_bit.advance(moment)
    assert [line.text for line in lines] == [line.text for line in reported]
    assert bit_by_bit.loop.memory == at_once.loop.memory


def drawn(play: DemoRun, reported: Sequence[StoryLine], *, ascii_only: bool) -> str:
    console = Console(width=120, file=StringIO())
    with console.capture() as captured:
        console.print(draw(play, reported, ascii_only=ascii_only))
    return captured.get()


@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_picture_shows_workloads_moves_and_the_minimum(ascii_only: bool) -> None:
    play = DemoRun(1)
    reported = list(play.advance(START + timedelta(seconds=122)))
    text = drawn(play, reported, ascii_only=ascii_only)
    assert "the proven minimum for the whole repair is 11" in text
    assert all(f"\n{name} " in text for name in ("cart", "db", "web"))
    assert "-> zone c" in text
    assert "zone 9/1" in text
    assert text.isascii() == ascii_only


def test_while_the_zone_is_away_the_picture_says_so() -> None:
    play = DemoRun(1)
    reported = list(play.advance(START + timedelta(seconds=50)))
    assert "away" in drawn(play, reported, ascii_only=True)


def test_before_it_acts_the_picture_says_what_it_waits_for() -> None:
    play = DemoRun(1)
    reported = list(play.advance(START + timedelta(seconds=105)))
    assert "Nothing is evicted yet: NodeSettling" in drawn(play, reported, ascii_only=True)


def demo(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *flags], capture_output=True, text=True, timeout=60, check=False)


def test_without_a_terminal_it_prints_lines_and_the_report() -> None:
    done = demo("--speed", "1000000")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "00:20  Zone c is lost with its nodes"
    assert lines[-1] == "11 evictions; the proven minimum was 11."
    assert any(line.startswith("NAMESPACE") for line in lines)
    assert "\x1b" not in done.stdout


def test_the_same_seed_prints_the_same() -> None:
    first, second = (demo("--speed", "1000000", "--seed", "5").stdout for _ in range(2))
    assert first == second != demo("--speed", "1000000", "--seed", "6").stdout


@pytest.mark.parametrize("flags", [["--speed", "0"], ["--speed", "fast"], ["--speed", "inf"], ["--seed", "x"]])
def test_values_that_mean_nothing_are_refused(flags: Sequence[str]) -> None:
    done = demo(*flags)
    assert done.returncode == 2
    assert flags[0] in done.stderr


def test_ctrl_c_ends_it_with_130() -> None:
    child = subprocess.Popen([*COMMAND, "--speed", "20"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline()
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=10)
    assert (child.returncode, errors) == (130, "")


def test_on_a_terminal_it_draws_and_ends_by_itself() -> None:
    screen, terminal = pty.openpty()
    child = subprocess.Popen([*COMMAND, "--speed", "200"], stdout=terminal, env={**os.environ, "TERM": "xterm"})
    os.close(terminal)
    shown = b""
    began = time.monotonic()
    while time.monotonic() - began < 30:
        try:
            shown += os.read(screen, 65536)
        except OSError:  # the other end is closed: it has ended
            break
    os.close(screen)
    assert child.wait(timeout=10) == 0
    assert b"\x1b[" in shown
    assert b"ZONE c" in shown
    assert b"the proven minimum was 11" in shown


def test_the_night_stays_spread_with_prevention_only() -> None:
    """At every step the zones differ by one pod at most with Steer, and at some step by more with Off."""
    for seed in (1, 2, 3):
        steps = list(play_night(seed))
        assert [step.replicas for step in steps] == [30, 20, 12, 6, 3]
        assert all(sum(step.without) == sum(step.steered) == step.replicas for step in steps)
        assert all(max(step.steered) - min(step.steered) <= 1 for step in steps)
        assert any(max(step.without) - min(step.without) > 1 for step in steps)
