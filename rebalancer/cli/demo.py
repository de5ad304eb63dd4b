"""`rebalancer demo`: a zone is lost and comes back, and the real loop repairs it, on a simulated cluster.

Then a night of scale-downs follows, with prevention and without, and the report.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from datetime import timedelta

from rich.console import Console
from rich.live import Live

from rebalancer.adapters.simulator import START
from rebalancer.assessment.findings import find_findings
from rebalancer.assessment.unmatched import find_unmatched
from rebalancer.cli.demo_night import REPLICAS, STEPS, play_night
from rebalancer.cli.demo_play import LONGEST, ZONES, DemoRun, StoryLine
from rebalancer.cli.demo_view import draw, format_clock
from rebalancer.cli.errors import CliError, Exit
from rebalancer.cli.parsing import Parser
from rebalancer.cli.terminal import find_layout, say
from rebalancer.controller import logs
from rebalancer.reporting.documents.report import report_document
from rebalancer.reporting.phrases import plural
from rebalancer.reporting.text.report import report_text

_FRAME = 0.1
"""Seconds between two pictures."""


def add_arguments(parser: Parser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--speed",
        metavar="FACTOR",
        type=_parse_factor,
        default=8.0,
        help="how many times faster than in a real cluster (default: 8, about 25 seconds in all)",
    )
    parser.add_argument(
        "--seed",
        metavar="NUMBER",
        type=int,
        default=1,
        help="decides delays, names and the scheduler's choice among equal nodes; a seed gives one run (default: 1)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo, then print the report; 0 if everything was repaired."""
    logs.configure_logs(level="error", form="console")  # the demo shows what the loop would log
    console = Console(highlight=False)
    play = DemoRun(args.seed)
    if console.is_terminal:
        _play_live(play, console, args.speed)
    else:
        _play(play, args.speed, _print_lines)
    _print_night(args.seed)
    _print_report(play)
    if not play.repaired:
        raise CliError(f"not repaired within {LONGEST}; seed {args.seed} shows it again")
    return Exit.FINE


def _parse_factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 0 < factor < math.inf:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number above 0 such as 8 or 0.5")
    return factor


def _play(play: DemoRun, speed: float, show: Callable[[list[StoryLine]], None]) -> None:
    """Run the demo at a pace; `show` gets the new lines of each frame."""
    began = time.monotonic()
    while not play.over:
        passed = min((time.monotonic() - began) * speed, LONGEST.total_seconds())
        show(list(play.advance(START + timedelta(seconds=passed))))
        time.sleep(_FRAME)


def _play_live(play: DemoRun, console: Console, speed: float) -> None:
    lines: list[StoryLine] = []

    def show(new: list[StoryLine]) -> None:
        lines.extend(new)
        live.update(draw(play, lines, ascii_only=console.options.ascii_only), refresh=True)

    with Live(console=console, auto_refresh=False) as live:
        _play(play, speed, show)


def _print_lines(lines: list[StoryLine]) -> None:
    say(f"{format_clock(line)}  {line.text}" for line in lines)


def _print_report(play: DemoRun) -> None:
    cycle = play.loop.cycle
    assert cycle is not None
    unmatched = find_unmatched(cycle.view, cycle.assessment, cycle.context.policy)
    findings = find_findings(cycle.view, cycle.assessment, unmatched)
    report = report_document(cycle.assessment, cycle.plan, cycle.causes, findings)
    sys.stdout.write(f"\n{report_text(report, layout=find_layout('auto'))}\n")
    say([f"{plural(play.evicted, 'eviction')}; the proven minimum was {play.minimum}."])


def _print_night(seed: int) -> None:
    """Print the pods by zone after each step of a night, without prevention and with it."""
    say(
        (
            "",
            f"A night: an autoscaler scales {REPLICAS} pods down to {STEPS[-1]}. Pods in the zones {', '.join(ZONES)}:",
            "REPLICAS   prevention.scaleDown: Off   Steer",
        )
    )
    for step in play_night(seed):
        without, steered = (" ".join(map(str, counts)) for counts in (step.without, step.steered))
        say([f"{step.replicas:<10} {without:<27} {steered}"])
