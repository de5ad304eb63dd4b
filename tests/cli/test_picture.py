"""The picture of a running simulation."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import pytest

from rebalancer.cli.logs import configure_logs
from rebalancer.cli.picture import draw
from rebalancer.policy import default_policy
from rebalancer.reporting.text.layout import TextLayout, join_lines
from rebalancer.simulator import ZONE
from rebalancer.simulator.changes import parse_change
from rebalancer.simulator.scenario import Scenario, shipped_scenario
from rebalancer.simulator.story import Story, StoryLine
from tests.build import a_cluster
from tests.simulator.test_story import load_story, played
from tools.environment import locked

MOMENTS = {"zone": (11, 98, 110), "deadlock": (9, 32)}
"""In seconds of each story."""

SOLVED = {"deadlock"}
"""Stories whose plan the integer solver finds: another release may find another one of as few evictions."""


def picture_file(name: str) -> Path:
    return Path(__file__).parent / "golden" / "output" / f"demo-pictures-{name}.txt"


def drawn(story: Story, lines: Sequence[StoryLine], *, width: int = 120, color: bool = False, plain: bool) -> str:
    return join_lines(draw(story, lines, TextLayout(width=width, color=color), ascii_only=plain))


def pictures(name: str) -> str:
    """Return the display at some moments, at 80 and 120 columns, with and without colour, each under its title."""
    texts = []
    story, lines = load_story(name), list[StoryLine]()
    for moment in MOMENTS[name]:
        lines += played(story, moment)
        for width in (80, 120):
            for color in (False, True):
                title = f"--- {name} after {moment} s, {width} columns, color {color}\n"
                texts.append(title + drawn(story, lines, width=width, color=color, plain=False))
    return "".join(texts)


@pytest.mark.parametrize("name", MOMENTS)
def test_what_is_drawn(name: str) -> None:
    """To the letter; `python -m tests.cli.test_picture` writes the files anew."""
    (solver,) = (one.requirement for one in locked() if one.requirement.name == "highspy")
    if name in SOLVED and version("highspy") not in solver.specifier:
        pytest.skip(f"the picture is of {solver}")
    assert pictures(name) == picture_file(name).read_text(encoding="utf-8")


@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_picture_shows_workloads_moves_and_the_minimum(ascii_only: bool) -> None:
    story = load_story("zone")
    lines = played(story, 86)
    text = drawn(story, lines, plain=ascii_only)
    assert "the proven minimum for the whole repair is 11" in text
    assert all(f"\n{name} " in text for name in ("cart", "db", "web"))
    assert "-> zone c" in text
    assert text.isascii() == ascii_only


@pytest.mark.parametrize("width", [80, 120])
def test_bars_and_skew_are_of_one_instant(width: int) -> None:
    """In every frame the skew over zones is what the numbers beside the bars give."""
    story = load_story("zone", 2)
    compared = 0
    for _ in story.advance():
        for line in drawn(story, [], width=width, plain=True).splitlines():
            if skew := re.search(r"^(?:cart|db|web) .* zone (\d+)/1", line):
                zones = [line[start : start + 14] for start in (10, 24, 38)]
                counts = [int((re.findall(r"\d+", zone) or ["0"])[0]) for zone in zones if "lost" not in zone]
                assert max(counts) - min(counts) == int(skew[1]), line
                compared += 1
    assert compared > 100


def test_pods_without_a_node_are_red_and_counted() -> None:
    """While the zone is lost: nobody reads that there is nothing to repair."""
    story = load_story("zone")
    text = drawn(story, played(story, 11), color=True, plain=True)
    assert "\x1b[31m!!!\x1b[0m" in text
    assert "\x1b[31m11 pods without a node.\x1b[0m" in text
    assert "lost" in text
    assert "nothing to repair" not in text


def test_a_deadlock_is_shown_and_freed() -> None:
    story = load_story("deadlock")
    assert "1 pod without a node." in drawn(story, played(story, 9), plain=True)
    assert "without a node" not in drawn(story, played(story), plain=True)


def test_before_it_acts_the_picture_says_what_it_waits_for() -> None:
    story = load_story("zone")
    assert "Nothing is evicted yet: NodeSettling" in drawn(story, played(story, 75), plain=True)


def test_a_pause_is_shown_with_who_paused_and_why() -> None:
    scenario = shipped_scenario("zone")
    pause = parse_change("pause", "alice: an incident elsewhere")
    scenario = replace(scenario, steps=(*scenario.steps, replace(pause, after=timedelta(seconds=90))))
    story = Story(scenario, scenario.play(seed=1))
    text = drawn(story, played(story, 100), color=True, plain=True)
    said = r"\x1b\[33mPaused by alice until somebody resumes: an incident elsewhere\. \d evicted so far\."
    assert re.search(said, text)


def test_a_large_cluster_is_drawn_on_one_screen() -> None:
    """What has no row is counted; a bar that would be too wide is a number; names say their namespace if they must."""
    blueprint = a_cluster("abcdef", 1)
    for number in range(14):
        blueprint.deployment(f"web-{number:02}", namespace=f"team-{number % 2}", on={"a-1": 40}, spread={ZONE: 1})
    scenario = Scenario(steps=())
    story = Story(scenario, scenario.play(seed=1, snapshot=blueprint.snapshot(), policy=default_policy()))
    played(story, 0)
    lines = drawn(story, [], plain=True).splitlines()
    assert "2 more zones not shown." in lines
    assert "2 more workloads not shown." in lines
    assert sum(line.startswith("team-") and "#40" in line for line in lines) == 12
    assert sum(line.startswith("Limit ") for line in lines) == 4
    assert len(lines) <= 40


if __name__ == "__main__":
    configure_logs(level="error", form="console")
    for story_name in MOMENTS:
        picture_file(story_name).write_text(pictures(story_name), encoding="utf-8")
