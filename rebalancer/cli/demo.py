"""`rebalancer demo`: two minutes of the real loop on a simulated cluster, in the terminal and on the status page.

A zone is lost and comes back, a share limit is broken, the kill switch is used, a deadlock is freed: the shipped
scenarios, as `simulate --live` plays them. Then a night of scale-downs, with prevention and without.
"""

import argparse
import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from rebalancer.cli import logs
from rebalancer.cli.errors import CliError, Exit
from rebalancer.cli.live import add_live_arguments, watch
from rebalancer.cli.parsing import Parser
from rebalancer.cli.picture import format_clock
from rebalancer.cli.terminal import say
from rebalancer.model.words import plural
from rebalancer.policy import ScaleDownPrevention
from rebalancer.simulator import ZONE
from rebalancer.simulator.play import with_prevention
from rebalancer.simulator.scenario import shipped_scenario
from rebalancer.simulator.story import Story

_STORIES: Final = ("zone", "deadlock")
_NIGHT: Final = "night"
_ZONES: Final = ("a", "b", "c")
_NEXT: Final = (
    "",
    "Next, on your own cluster; none of these changes anything:",
    "  rebalancer report                          what is violated now, and why",
    "  rebalancer plan                            the evictions that would repair it",
    "  rebalancer explain deployment/NAME -n NS   why it is, or is not, repaired",
)


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--scenario",
        choices=(*_STORIES, _NIGHT),
        help="play only one: zone (lost and back), deadlock, or night (scale-downs) (default: all, in this order)",
    )
    add_live_arguments(parser, what="the demo", at_pace=", about two minutes in all")
    parser.add_argument(
        "--seed",
        metavar="NUMBER",
        type=int,
        default=1,
        help="decides delays, names and the scheduler's choice among equal nodes; a seed gives one run (default: 1)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo, then say what was shown; 0 if everything was repaired."""
    logs.configure_logs(level="error", form="console")  # the demo shows what the loop would log
    stories = {name: load_story(name, args.seed) for name in _STORIES if args.scenario in {None, name}}
    watch(stories.values(), args, what="demo")
    shown = [line for story in stories.values() for line in _conclude(story)]
    if args.scenario in {None, _NIGHT}:
        shown.append(_show_night(args.seed))
    say(("", "What was shown:", *(f"* {line}" for line in shown), *_NEXT))
    for name, story in stories.items():
        if not story.repaired:
            raise CliError(f"not everything was repaired; --scenario {name} --seed {args.seed} repeats it")
    return Exit.FINE


def load_story(name: str, seed: int) -> Story:
    """Return a shipped scenario as a story that has not begun."""
    scenario = shipped_scenario(name)
    return Story(scenario, scenario.play(seed=seed))


def _conclude(story: Story) -> Iterator[str]:
    """Say what a story has shown, in its own numbers."""
    yield (
        f"{story.scenario.title}: at most {plural(story.most_without_node, 'pod')} without a node at a time, "
        f"{plural(story.play.evicted, 'eviction')}; the proven minimum was {story.minimum}. "
        f"PodDisruptionBudgets refused {story.refused}."
    )
    alerts = ", ".join(f"{alert.text.partition(': ')[0]} at {format_clock(alert.at)}" for alert in story.alerts)
    if alerts:
        yield f"Reported by events, and by alerts in a cluster with Prometheus: {alerts}."
    if any(change.in_repair for change in story.scenario.steps):
        yield f"Kill switch: {plural(story.evicted_while_paused, 'eviction')} while evictions were paused."


class NightStep(NamedTuple):
    """The pods by zone at the end of a step, without prevention and with it."""

    without: tuple[int, ...]
    steered: tuple[int, ...]


def play_night(seed: int) -> Iterator[NightStep]:
    """Yield the steps of the night, which is played with prevention and without."""
    modes = (ScaleDownPrevention.OFF, ScaleDownPrevention.STEER)
    return itertools.starmap(NightStep, zip(*(_count_steps(mode, seed) for mode in modes), strict=True))


def _count_steps(mode: ScaleDownPrevention, seed: int) -> Iterator[tuple[int, ...]]:
    """Yield the pods by zone at the end of each step."""
    night = shipped_scenario(_NIGHT)
    assert night.policy is not None
    play = night.play(seed=seed, policy=with_prevention(night.policy, mode))
    ended = 0
    for _ in play.advance():
        if len(play.steps) > ended:  # the next change has been made, but no controller has acted on it
            ended = len(play.steps)
            snapshot = play.cluster.snapshot(play.cluster.now)
            zones = Counter(
                snapshot.node[pod.node].labels[ZONE] for pod in snapshot.pods if pod.node and not pod.terminating
            )
            yield tuple(zones[zone] for zone in _ZONES)


def _show_night(seed: int) -> str:
    """Print the pods by zone after each step of the night; return what it has shown."""
    steps = list(play_night(seed))
    first, last = (sum(step.without) for step in (steps[0], steps[-1]))
    say(
        (
            f"A night: an autoscaler scales {first} pods down to {last}. Pods in the zones {', '.join(_ZONES)}:",
            "REPLICAS   prevention.scaleDown: Off   Steer",
        )
    )
    for step in steps:
        without, steered = (" ".join(map(str, counts)) for counts in step)
        say([f"{sum(step.without):<10} {without:<27} {steered}"])
    plain, steered = (max(max(counts) - min(counts) for counts in counted) for counted in zip(*steps, strict=True))
    return (
        f"A night of scale-downs: the zones differ by {plural(plain, 'pod')} at most without prevention, "
        f"by {steered} with it."
    )
