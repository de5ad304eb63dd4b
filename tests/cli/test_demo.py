"""The demo: it plays the real loop, ends by itself, and shows the same play at any pace."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
import urllib3
from rich.console import Console

from rebalancer.cli.demo import load_story, play_night
from rebalancer.cli.logs import configure_logs
from rebalancer.cli.picture import draw
from rebalancer.simulator import START, TraceKind
from rebalancer.simulator.story import Story, StoryLine

HOUR = START + timedelta(hours=1)
COMMAND = [sys.executable, "-m", "rebalancer.cli.main", "demo"]
ENVIRONMENT = dict(os.environ)
"""Passed on as it is: without it a child also gets the COLUMNS that GNU readline sets behind Python's back."""

PICTURES = Path(__file__).parent / "golden" / "output" / "demo-pictures.txt"
FEWEST = {"zone": 11, "deadlock": 1}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("scenario", FEWEST)
def test_everything_is_repaired_with_the_fewest_evictions(scenario: str, seed: int) -> None:
    """Whatever the seed: as many evictions as were proved to be needed, none refused, and in time."""
    story = load_story(scenario, seed)
    reported = list(story.advance(HOUR))
    assert story.repaired
    assert story.play.evicted == story.minimum == FEWEST[scenario]
    assert not [entry for entry in story.play.cluster.trace if entry.kind is TraceKind.REFUSED]
    assert reported[-1].text == story.scenario.repaired
    assert story.play.cluster.now - START < timedelta(minutes=4)


def test_the_play_is_the_same_at_any_pace() -> None:
    at_once, bit_by_bit, scene_by_scene = (load_story("zone", 3) for _ in range(3))
    reported = list(at_once.advance(HOUR))
    lines: list[StoryLine] = []
    moment = START
    while not bit_by_bit.play.over:
        moment += timedelta(seconds=0.7)
        lines += bit_by_bit.advance(moment)
    scenes: list[StoryLine] = []
    while not scene_by_scene.play.over:
        scenes += scene_by_scene.advance(HOUR, to_scene=True)
    assert [line.text for line in lines] == [line.text for line in scenes] == [line.text for line in reported]
    assert bit_by_bit.loop.memory == scene_by_scene.loop.memory == at_once.loop.memory


def test_each_step_ends_with_a_scene_or_an_alert() -> None:
    """Zone lost, zone back, repair, pause, resume, all well, each in a step of its own, and the quiet end.

    The controller's alert about a change comes with its next cycle, a second later, and ends a step, too.
    """
    story, steps = load_story("zone", 1), []
    while not story.play.over:
        steps.append([line.text for line in story.advance(HOUR, to_scene=True) if line.is_scene])
    assert [len(step) for step in steps] == [1, 0, 1, 0, 1, 1, 1, 1, 0]
    story = load_story("deadlock", 1)
    for expected in ("The last shard gets its second pod", "PlacementDeadlock: "):
        assert any(line.text.startswith(expected) for line in story.advance(HOUR, to_scene=True))
    assert len(story.look().without_node) == 1


def seconds_of(scenario: str) -> dict[str, float]:
    """Return how many seconds of a spectator each scene of a scenario lasts."""
    story, lasted, began = load_story(scenario, 1), {}, START
    while not story.play.over:
        scene, pace = story.scene, story.pace
        list(story.advance(HOUR, to_scene=True))
        lasted[scene] = (story.play.cluster.now - began).total_seconds() / pace
        began = story.play.cluster.now
    return lasted


def test_it_takes_two_minutes_and_the_repair_is_the_longest_part() -> None:
    zone, deadlock = seconds_of("zone"), seconds_of("deadlock")
    assert 90 < sum(zone.values()) + sum(deadlock.values()) < 130
    names = list(zone)
    first = next(number for number, name in enumerate(names) if name.startswith("The repair needs"))
    repair = sum(zone[name] for name in names[first : names.index("Everything is evenly spread again")])
    assert repair > max(zone[name] for name in names[:first])
    assert repair > sum(deadlock.values())


def test_while_it_is_paused_nothing_is_evicted_and_a_violated_limit_is_reported() -> None:
    story = load_story("zone", 1)
    lines = list(story.advance(HOUR))
    texts = [line.text for line in lines]
    paused = next(number for number, text in enumerate(texts) if text.startswith("Kill switch"))
    resumed = next(number for number, text in enumerate(texts) if "resumes" in text)
    assert not [text for text in texts[paused:resumed] if text.startswith("Evicted")]
    assert [text for text in texts[resumed:] if text.startswith("Evicted")]
    assert story.evicted_while_paused == 0
    alerts = {line.text.partition(":")[0] for line in lines if line.is_alert}
    assert alerts == {"ShareLimitViolated", "ShareLimitInfeasible"}


def test_a_deadlock_is_reported_and_freed() -> None:
    story = load_story("deadlock", 1)
    list(story.advance(START + timedelta(seconds=12)))
    assert len(story.look().without_node) == 1
    assert "PlacementDeadlock" in story.alerts[0].text
    list(story.advance(HOUR))
    assert story.look().without_node == []


def drawn(story: Story, reported: Sequence[StoryLine], *, width: int = 120, color: bool = False, plain: bool) -> str:
    console = Console(width=width, file=StringIO(), force_terminal=color, color_system="standard" if color else None)
    with console.capture() as captured:
        console.print(draw(story, reported, ascii_only=plain))
    return captured.get()


def pictures() -> str:
    """Return the display at five moments, at 80 and 120 columns, with and without colour, each under its title."""
    texts = []
    for name, moments in (("zone", (12, 98, 110)), ("deadlock", (12, 32))):
        story, lines = load_story(name, 1), list[StoryLine]()
        for moment in moments:
            lines += story.advance(START + timedelta(seconds=moment))
            for width in (80, 120):
                for color in (False, True):
                    title = f"--- {name} after {moment} s, {width} columns, color {color}\n"
                    texts.append(title + drawn(story, lines, width=width, color=color, plain=False))
    return "".join(re.sub(" +\n", "\n", text) for text in texts)


def test_what_is_drawn() -> None:
    """To the letter; `python -m tests.cli.test_demo` writes the file anew."""
    assert pictures() == PICTURES.read_text(encoding="utf-8")


@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_picture_shows_workloads_moves_and_the_minimum(ascii_only: bool) -> None:
    story = load_story("zone", 1)
    reported = list(story.advance(START + timedelta(seconds=87)))
    text = drawn(story, reported, plain=ascii_only)
    assert "the proven minimum for the whole repair is 11" in text
    assert all(f"\n{name} " in text for name in ("cart", "db", "web"))
    assert "-> zone c" in text
    assert text.isascii() == ascii_only


@pytest.mark.parametrize("width", [80, 120])
def test_bars_and_skew_are_of_one_instant(width: int) -> None:
    """At every second: the skew over zones is what the numbers beside the bars give."""
    story = load_story("zone", 2)
    compared = 0
    for second in range(160):
        list(story.advance(START + timedelta(seconds=second)))
        for line in drawn(story, [], width=width, plain=True).splitlines():
            if skew := re.search(r"^(?:cart|db|web) .* zone (\d+)/1", line):
                cells = line[9 : 9 + 3 * 13]
                zones = [cells[start : start + 13] for start in (0, 13, 26)]
                counts = [int((re.findall(r"\d+", zone) or ["0"])[0]) for zone in zones if "lost" not in zone]
                assert max(counts) - min(counts) == int(skew[1]), line
                compared += 1
    assert compared > 400


def test_pods_without_a_node_are_red_and_counted() -> None:
    """While the zone is lost: nobody reads that there is nothing to repair."""
    story = load_story("zone", 1)
    reported = list(story.advance(START + timedelta(seconds=12)))
    text = drawn(story, reported, color=True, plain=True)
    assert "\x1b[31m!!!\x1b[0m" in text
    assert "\x1b[1;31m11 pods without a node.\x1b[0m" in text
    assert "lost" in text
    assert "nothing to repair" not in text


def test_before_it_acts_the_picture_says_what_it_waits_for() -> None:
    story = load_story("zone", 1)
    reported = list(story.advance(START + timedelta(seconds=75)))
    assert "Nothing is evicted yet: NodeSettling" in drawn(story, reported, plain=True)


def demo(*flags: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *flags], capture_output=True, text=True, timeout=60, check=False, input=stdin, env=ENVIRONMENT
    )


def test_without_a_terminal_it_prints_lines_what_was_shown_and_what_comes_next() -> None:
    done = demo("--speed", "1000000")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[1] == "00:10  Zone c is lost with its nodes"
    assert any("11 evictions; the proven minimum was 11." in line for line in lines)
    assert "Kill switch: 0 evictions while evictions were paused." in done.stdout
    assert [line.split()[:2] for line in lines[-3:]] == [["rebalancer", verb] for verb in ("report", "plan", "explain")]
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("name", [*FEWEST, "night"])
def test_a_scenario_is_played_alone(name: str) -> None:
    done = demo("--speed", "1000000", "--scenario", name)
    assert (done.returncode, done.stderr) == (0, "")
    begins = {known: load_story(known, 1).scenario.begins for known in FEWEST} | {"night": "A night: an autoscaler"}
    assert [known for known, text in begins.items() if text in done.stdout] == [name]


@contextmanager
def started(*flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the demo with pipes; it is ended with the block."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, *flags], stdin=pipe, stdout=pipe, bufsize=0, env=ENVIRONMENT) as child:
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
    with started("--step", "--scenario", "deadlock", "--speed", "1000") as child:
        shown = read_until(child, "Enter: continue   Ctrl-C: end ")
        assert child.stdout is not None
        assert not select.select([child.stdout], [], [], 1.0)[0]
        assert "The last shard gets its second pod" in shown
        assert "PlacementDeadlock" not in shown
        rest, _ = child.communicate(b"\n" * 10, timeout=30)
        assert child.returncode == 0
    stepped = (shown + rest.decode()).replace("Enter: continue   Ctrl-C: end \n", "")
    assert stepped == demo("--scenario", "deadlock", "--speed", "1000").stdout


def test_the_status_page_shows_the_same_run() -> None:
    """At the address that is printed first: the violations of the moment, by the simulated clock, as JSON too."""
    with started("--page-address", "127.0.0.1:0", "--step", "--speed", "1000") as child:
        shown = read_until(child, "Enter: continue")
        url = shown.splitlines()[0].removeprefix("Status page, while the demo runs: ")
        for scene in ("ShareLimitInfeasible", "is back and empty", "ShareLimitViolated", "The repair needs"):
            press_enter(child)
            assert scene in read_until(child, "Enter: continue")
        page = urllib3.request("GET", url, timeout=5.0, retries=False)
        assert (page.status, page.headers["Refresh"]) == (200, "2")
        assert "mode Evict: the controller evicts" in page.data.decode()
        assert re.search(r"Last cycle 2026-01-01 00:0\d:\d\d UTC, \d s ago", page.data.decode())
        document = json.loads(urllib3.request("GET", f"{url}status.json", timeout=5.0, retries=False).data)
        assert document["totals"]["evictions"] == document["totals"]["lowerBound"] == FEWEST["zone"]


def test_a_page_address_in_use_is_named() -> None:
    with started("--page-address", "127.0.0.1:0") as child:
        port = read_until(child, "/\n").splitlines()[0].rstrip("/").rpartition(":")[2]
        done = demo("--page-address", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert "Address already in use; choose another address with --page-address" in done.stderr


def test_the_same_seed_prints_the_same() -> None:
    first, second = (demo("--speed", "1000000", "--seed", "5").stdout for _ in range(2))
    assert first == second != demo("--speed", "1000000", "--seed", "6").stdout


@pytest.mark.parametrize(
    "flags",
    [
        ["--speed", "0"],
        ["--speed", "fast"],
        ["--speed", "inf"],
        ["--seed", "x"],
        ["--scenario", "fire"],
        ["--page-address", "8081"],
    ],
)
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
    child = subprocess.Popen([*COMMAND, "--speed", "200"], stdout=terminal, env={**ENVIRONMENT, "TERM": "xterm"})
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
    assert b"the proven minimum was 11" in b" ".join(shown.split())
    assert b"Status page, while the demo runs: http://localhost:" in shown


def test_the_night_stays_spread_with_prevention_only() -> None:
    """At every step the zones differ by one pod at most with Steer, and at some step by more with Off."""
    for seed in (1, 2, 3):
        steps = list(play_night(seed))
        assert [sum(step.without) for step in steps] == [30, 20, 12, 6, 3]
        assert [sum(step.steered) for step in steps] == [30, 20, 12, 6, 3]
        assert all(max(step.steered) - min(step.steered) <= 1 for step in steps)
        assert any(max(step.without) - min(step.without) > 1 for step in steps)


if __name__ == "__main__":
    configure_logs(level="error", form="console")
    PICTURES.write_text(pictures(), encoding="utf-8")
