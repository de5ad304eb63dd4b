"""A simulation that is watched: drawn in a terminal at a pace for people, line by line elsewhere, with the status page.

A frame is a cycle of the controller. In a terminal, the scenario's pace sets the time from the last line to a frame,
limited to some seconds, because a simulation may wait for an hour. At its end, the page stays until Enter. Without a
terminal, there are no waits.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Final

from rebalancer.adapters.web import CannotListen
from rebalancer.cli.errors import CliError
from rebalancer.cli.picture import draw, format_clock
from rebalancer.cli.redraw import can_redraw, redrawing
from rebalancer.cli.terminal import ask, encodes_unicode, find_layout, say
from rebalancer.locations import Address, parse_address
from rebalancer.simulator.page import SimulatedPage
from rebalancer.simulator.play import ImpossibleChangeError
from rebalancer.simulator.story import Story, StoryLine

_LONGEST_SILENCE: Final = 5.0
"""The most seconds from a line to the next one in a terminal."""


def add_live_arguments(parser: argparse._ActionsContainer) -> None:
    """Declare the flags."""
    parser.add_argument("--live", action="store_true", help="play it in the terminal, at a pace for people")
    add_watching_arguments(parser)


def add_watching_arguments(parser: argparse._ActionsContainer) -> None:
    """Declare the flags that say how a simulation is watched."""
    parser.add_argument("--step", action="store_true", help="wait for Enter after each scene and each alert")
    parser.add_argument(
        "--page-address",
        metavar="HOST:PORT",
        type=_parse_page_address,
        help="where the status page is served while it runs, and in a terminal until Enter after its end (default: in "
        "a terminal a free port of 127.0.0.1, else none)",
    )


def _parse_page_address(text: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


@contextmanager
def watching(story: Story, *, page_address: Address | None, waits_for_enter: bool) -> Iterator[None]:
    """Play a story to its end, with `waits_for_enter` scene by scene; its status page is served until the block ends.

    In a terminal, the page is served until Enter is pressed after the block.
    """
    with _served(page_address) as page:
        try:
            _play(story, page, waits_for_enter=waits_for_enter)
        except ImpossibleChangeError as error:
            raise CliError(str(error)) from None
        say([""])
        yield
        if page is not None and sys.stdin.isatty() and sys.stdout.isatty():
            say([""])
            _await_enter(f"Status page, until you press Enter: {page.url}")


@contextmanager
def _served(address: Address | None) -> Iterator[SimulatedPage | None]:
    """Serve the page while the block lasts; without an address, serve none."""
    if address is None and sys.stdout.isatty():
        address = Address("127.0.0.1", 0)
    if address is None:
        yield None
        return
    try:
        page = SimulatedPage(address)
    except CannotListen as error:
        raise CliError(f"{error}; choose another address with --page-address") from None
    page.start()
    try:
        yield page
    finally:
        page.stop()


def _play(story: Story, page: SimulatedPage | None, *, waits_for_enter: bool) -> None:
    """Show the frames of a story; with `waits_for_enter`, wait for Enter after a scene or an alert."""
    head = [] if page is None else [f"Status page, while the simulation runs: {page.url}", ""]
    lines = [StoryLine(at=timedelta(0), text=story.scene, is_scene=True)]
    with redrawing() if can_redraw() else nullcontext() as redraw:
        if redraw is None:
            say(head)
            _print_lines(lines)
        for new in _at_pace(story) if sys.stdout.isatty() else story.advance():
            lines += new
            if page is not None:  # before the line about it, so that the page exists when somebody opens it
                page.show_play(story.play)
            if redraw is None:
                _print_lines(new)
            else:
                redraw([*head, *draw(story, lines, find_layout("auto"), ascii_only=not encodes_unicode())])
            if waits_for_enter and any(line.ends_step for line in new) and not story.play.over:
                _await_enter("Enter: continue   Ctrl-C: end")


def _at_pace(story: Story) -> Iterator[list[StoryLine]]:
    """Yield the frames of a story, each when it is time to show it."""
    line_at, line_shown = story.elapsed, time.monotonic()
    for lines in story.advance():
        silence = min((story.elapsed - line_at).total_seconds() / story.scenario.pace, _LONGEST_SILENCE)
        time.sleep(max(0.0, line_shown + silence - time.monotonic()))
        yield lines
        if lines:
            line_at, line_shown = story.elapsed, time.monotonic()


def _await_enter(prompt: str) -> None:
    ask(prompt)  # the end of input continues, too
    if not sys.stdin.isatty():
        sys.stdout.write("\n")


def _print_lines(lines: Iterable[StoryLine]) -> None:
    say(f"{format_clock(line.at)}  {line.text}" for line in lines)
