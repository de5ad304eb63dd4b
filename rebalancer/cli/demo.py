"""`rebalancer demo`: two minutes of the real loop on a simulated cluster, in the terminal and on the status page.

A zone is lost and comes back, a share limit is broken, the kill switch is used, a deadlock is freed; then a night of
scale-downs, with prevention and without.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from datetime import timedelta
from typing import Final

from rich.console import Console
from rich.live import Live

from rebalancer.cli import logs
from rebalancer.cli.demo_night import REPLICAS, STEPS, play_night
from rebalancer.cli.demo_page import DemoPage
from rebalancer.cli.demo_play import LONGEST, DemoRun, StoryLine
from rebalancer.cli.demo_scenarios import SCENARIOS, ZONES
from rebalancer.cli.demo_view import draw, format_clock
from rebalancer.cli.errors import CliError, Exit
from rebalancer.cli.parsing import Parser
from rebalancer.cli.terminal import say
from rebalancer.locations import Address, parse_address
from rebalancer.reporting.phrases import plural
from rebalancer.simulator import START

_FRAME: Final = 0.1
"""Seconds between two pictures."""

_NIGHT: Final = "night"
_NEXT: Final = (
    "",
    "Next, on your own cluster; none of these changes anything:",
    "  rebalancer report                          what is violated now, and why",
    "  rebalancer plan                            the evictions that would repair it",
    "  rebalancer explain deployment/NAME -n NS   why it is, or is not, repaired",
)

Show = Callable[[list[StoryLine]], None]


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--scenario",
        choices=(*SCENARIOS, _NIGHT),
        help="play only one: zone (lost and back), deadlock, or night (scale-downs) (default: all, in this order)",
    )
    parser.add_argument("--step", action="store_true", help="wait for Enter after each scene and each alert")
    parser.add_argument(
        "--speed",
        metavar="FACTOR",
        type=_parse_factor,
        default=1.0,
        help="how many times faster than its own pace (default: 1, about two minutes in all)",
    )
    parser.add_argument(
        "--seed",
        metavar="NUMBER",
        type=int,
        default=1,
        help="decides delays, names and the scheduler's choice among equal nodes; a seed gives one run (default: 1)",
    )
    parser.add_argument(
        "--page-address",
        metavar="HOST:PORT",
        type=_parse_page_address,
        help="where the status page is served while the demo runs (default: in a terminal a free port of 127.0.0.1, "
        "else none)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo, then say what was shown; 0 if everything was repaired."""
    logs.configure_logs(level="error", form="console")  # the demo shows what the loop would log
    console = Console(highlight=False)
    address = args.page_address
    if address is None and console.is_terminal:
        address = Address("127.0.0.1", 0)
    runs = [DemoRun(scenario, args.seed) for scenario in SCENARIOS.values() if args.scenario in {None, scenario.name}]
    page = DemoPage(address) if address is not None and runs else None  # the night has no controller to show
    with nullcontext() if page is None else page.served():
        if page is not None:
            say([f"Status page, while the demo runs: {page.url}", ""])
        for play in runs:
            _play(play, console, page, args)
        shown = [line for play in runs for line in _conclude(play)]
        if args.scenario in {None, _NIGHT}:
            shown.append(_show_night(args.seed))
    say(("", "What was shown:", *(f"* {line}" for line in shown), *_NEXT))
    _check_repaired(runs, args.seed)
    return Exit.FINE


def _check_repaired(runs: Iterable[DemoRun], seed: int) -> None:
    for play in runs:
        if not play.repaired:
            name = play.scenario.name
            raise CliError(f"not repaired within {LONGEST}; --scenario {name} --seed {seed} repeats it")


def _parse_factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 0 < factor < math.inf:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number above 0 such as 8 or 0.5")
    return factor


def _parse_page_address(text: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _play(play: DemoRun, console: Console, page: DemoPage | None, args: argparse.Namespace) -> None:
    """Run a scenario at its pace, scene by scene with --step."""
    lines = [StoryLine(at=START, text=play.scene, is_scene=True)]

    def follow(show: Show, *, to_scene: bool) -> None:
        for new in _frames(play, args.speed, to_scene=to_scene):
            lines.extend(new)
            if page is not None:  # before the line about it, that nobody looks for it in vain
                page.show(play)
            show(new)

    if not console.is_terminal:
        _print_lines(lines)
    while not play.over:
        if console.is_terminal:
            with Live(console=console, auto_refresh=False) as live:
                follow(
                    lambda _: live.update(draw(play, lines, ascii_only=console.options.ascii_only), refresh=True),
                    to_scene=args.step,
                )
        else:
            follow(_print_lines, to_scene=args.step)
        if args.step and not play.over:
            _await_enter()
    say([""])


def _frames(play: DemoRun, speed: float, *, to_scene: bool) -> Iterator[list[StoryLine]]:
    """Advance the run at its pace, to the next scene or to its end; yield the new lines of each frame."""
    last = time.monotonic()
    while not play.over:
        time.sleep(_FRAME)
        now = time.monotonic()
        passed = min((now - last) * play.pace * speed, LONGEST.total_seconds())
        last = now
        new = list(play.advance(play.cluster.now + timedelta(seconds=passed), to_scene=to_scene))
        yield new
        if to_scene and any(line.ends_step for line in new):
            return


def _await_enter() -> None:
    sys.stdout.write("Enter: continue   Ctrl-C: end ")
    sys.stdout.flush()
    sys.stdin.readline()  # the end of a file continues, too
    if not sys.stdin.isatty():
        sys.stdout.write("\n")


def _print_lines(lines: Iterable[StoryLine]) -> None:
    say(f"{format_clock(line)}  {line.text}" for line in lines)


def _show_night(seed: int) -> str:
    """Print the pods by zone after each step of a night, without prevention and with it; return what it has shown."""
    steps = list(play_night(seed))
    say(
        (
            f"A night: an autoscaler scales {REPLICAS} pods down to {STEPS[-1]}. Pods in the zones {', '.join(ZONES)}:",
            "REPLICAS   prevention.scaleDown: Off   Steer",
        )
    )
    for step in steps:
        cells = [" ".join(map(str, counts)) for counts in (step.without, step.steered)]
        say([f"{step.replicas:<10} {cells[0]:<27} {cells[1]}"])
    plain, steered = (
        max(max(counts) - min(counts) for counts in rows)
        for rows in ([step.without for step in steps], [step.steered for step in steps])
    )
    return (
        f"A night of scale-downs: the zones differ by {plural(plain, 'pod')} at most without prevention, "
        f"by {steered} with it."
    )


def _conclude(play: DemoRun) -> Iterator[str]:
    """Say what a run has shown, in its own numbers."""
    yield (
        f"{play.scenario.title}: at most {plural(play.most_without_node, 'pod')} without a node at a time, "
        f"{plural(play.evicted, 'eviction')}; the proven minimum was {play.minimum}. "
        f"PodDisruptionBudgets refused {play.refused}."
    )
    alerts = ", ".join(f"{alert.text.partition(': ')[0]} at {format_clock(alert)}" for alert in play.alerts)
    if alerts:
        yield f"Reported by events, and by alerts in a cluster with Prometheus: {alerts}."
    if any(event.in_repair for event in play.scenario.events):
        yield f"Kill switch: {plural(play.evicted_while_paused, 'eviction')} while evictions were paused."
