"""Simulations that are watched: at a pace for people, drawn in a terminal or line by line, with the status page."""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from rich.console import Console
from rich.live import Live

from rebalancer.adapters.web import CannotListen
from rebalancer.cli.errors import CliError
from rebalancer.cli.picture import draw, format_clock
from rebalancer.cli.terminal import say
from rebalancer.locations import Address, parse_address
from rebalancer.simulator.page import SimulatedPage
from rebalancer.simulator.play import LONGEST, ImpossibleChangeError
from rebalancer.simulator.story import Story, StoryLine

_FRAME: Final = 0.1
"""Seconds between two pictures."""

_SILENCE: Final = 15.0
_HURRY: Final = 20.0
"""After so many seconds without a new line, so many times as fast: a simulation may wait for an hour."""

Show = Callable[[list[StoryLine]], None]


def add_live_arguments(parser: argparse._ActionsContainer, *, what: str, at_pace: str) -> None:
    """Declare the flags; `what` is played, `at_pace` says how long that takes."""
    parser.add_argument("--step", action="store_true", help="wait for Enter after each scene and each alert")
    parser.add_argument(
        "--speed",
        metavar="FACTOR",
        type=_parse_factor,
        default=1.0,
        help=f"how many times faster than its own pace (default: 1{at_pace})",
    )
    parser.add_argument(
        "--page-address",
        metavar="HOST:PORT",
        type=_parse_page_address,
        help=f"where the status page is served while {what} runs (default: in a terminal a free port of 127.0.0.1, "
        "else none)",
    )


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


def watch(stories: Iterable[Story], args: argparse.Namespace, *, what: str) -> None:
    """Play stories one after the other, with the status page of the one that is played, as the flags say."""
    console = Console(highlight=False)
    stories = list(stories)
    with _served(args.page_address, console, what, is_wanted=bool(stories)) as page:
        for story in stories:
            try:
                _watch(story, console, page, args)
            except ImpossibleChangeError as error:
                raise CliError(str(error)) from None


@contextmanager
def _served(address: Address | None, console: Console, what: str, *, is_wanted: bool) -> Iterator[SimulatedPage | None]:
    """Serve the page while the block lasts, where that is wanted, and say where it is."""
    if address is None and console.is_terminal:
        address = Address("127.0.0.1", 0)
    if address is None or not is_wanted:
        yield None
        return
    try:
        page = SimulatedPage(address, name=what, policy_source=f"the {what}'s policy")
    except CannotListen as error:
        raise CliError(f"{error}; choose another address with --page-address") from None
    page.start()
    try:
        say([f"Status page, while the {what} runs: {page.url}", ""])
        yield page
    finally:
        page.stop()


def _watch(story: Story, console: Console, page: SimulatedPage | None, args: argparse.Namespace) -> None:
    """Play a story at its pace, scene by scene with --step."""
    lines = [StoryLine(at=timedelta(0), text=story.scene, is_scene=True)]

    def follow(show: Show) -> None:
        for new in _frames(story, args.speed, to_scene=args.step):
            lines.extend(new)
            if page is not None:  # before the line about it, that nobody looks for it in vain
                page.show_play(story.play)
            show(new)

    if not console.is_terminal:
        _print_lines(lines)
    while not story.play.over:
        if console.is_terminal:
            with Live(console=console, auto_refresh=False) as live:
                follow(lambda _: live.update(draw(story, lines, ascii_only=console.options.ascii_only), refresh=True))
        else:
            follow(_print_lines)
        if args.step and not story.play.over:
            _await_enter()
    say([""])


def _frames(story: Story, speed: float, *, to_scene: bool) -> Iterator[list[StoryLine]]:
    """Play a story at its pace, to the next scene or to its end; yield the new lines of each frame."""
    last = last_line = time.monotonic()
    while not story.play.over:
        time.sleep(_FRAME)
        now = time.monotonic()
        hurry = _HURRY if now - last_line > _SILENCE else 1.0
        passed = min((now - last) * story.pace * speed * hurry, LONGEST.total_seconds())
        last = now
        new = list(story.advance(story.play.cluster.now + timedelta(seconds=passed), to_scene=to_scene))
        last_line = now if new else last_line
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
    say(f"{format_clock(line.at)}  {line.text}" for line in lines)
