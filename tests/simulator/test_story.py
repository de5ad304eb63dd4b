"""Stories: a play line by line and frame by frame, and that the shipped ones repair everything."""

from datetime import timedelta

import pytest

from rebalancer.simulator import START, TraceKind
from rebalancer.simulator.scenario import SHIPPED, shipped_scenario
from rebalancer.simulator.story import Story, StoryLine

FEWEST = {"zone": 11, "deadlock": 1}


def load_story(name: str, seed: int = 1) -> Story:
    """Return a shipped scenario as a story that has not begun."""
    scenario = shipped_scenario(name)
    return Story(scenario, scenario.play(seed=seed))


def played(story: Story, seconds: float | None = None) -> list[StoryLine]:
    """Play to the first frame at or after a simulated time, None: to the end; return the lines."""
    lines: list[StoryLine] = []
    for new in story.advance():
        lines += new
        if seconds is not None and story.elapsed >= timedelta(seconds=seconds):
            break
    return lines


def test_every_shipped_scenario_is_tested() -> None:
    assert set(SHIPPED) == set(FEWEST)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", FEWEST)
def test_everything_is_repaired_with_the_fewest_evictions(name: str, seed: int) -> None:
    """Whatever the seed: as many evictions as were proved to be needed, none refused, and in time."""
    story = load_story(name, seed)
    lines = played(story)
    assert story.play.evicted == story.minimum == FEWEST[name]
    assert not [entry for entry in story.play.cluster.trace if entry.kind is TraceKind.REFUSED]
    assert lines[-1].text == story.scenario.repaired
    assert story.play.cluster.now - START < timedelta(minutes=4)


def test_a_story_that_is_played_in_parts_is_the_same() -> None:
    at_once, in_parts = load_story("zone", 3), load_story("zone", 3)
    lines = played(at_once)
    parts: list[StoryLine] = []
    while not in_parts.play.over:
        parts += played(in_parts, 0)
    assert parts == lines
    assert in_parts.loop.memory == at_once.loop.memory


def test_each_frame_has_a_cycle_and_each_scene_is_in_a_frame_of_its_own() -> None:
    """Zone lost, zone back, repair, all well; what the controller reports of a change comes with it."""
    story, scenes = load_story("zone"), []
    cycle = None
    for lines in story.advance():
        assert story.loop.cycle is not cycle or story.play.over
        cycle = story.loop.cycle
        scenes.append([line.text for line in lines if line.is_scene])
    assert [len(begun) for begun in scenes if begun] == [1] * 4
    story = load_story("deadlock")
    first = next(lines for lines in story.advance() if any(line.is_scene for line in lines))
    assert first[0].text.startswith("The last shard gets its second pod")
    assert (first[-1].text.partition(":")[0], first[-1].is_alert) == ("PlacementDeadlock", True)


def test_a_violated_limit_is_reported_in_red() -> None:
    alerts = {line.text.partition(":")[0] for line in played(load_story("zone")) if line.is_alert}
    assert alerts == {"ShareLimitViolated", "ShareLimitInfeasible"}
