"""The terminal of the output: its width, and whether it shows colours."""

import os
import shutil
import sys
from collections.abc import Iterable

from rebalancer.model.visible import visible
from rebalancer.reporting.text.layout import TextLayout, join_lines


def find_layout(color: str) -> TextLayout:
    """Return the layout of text on standard output; `color` is auto, always or never.

    Without a terminal the text is not wrapped, unless COLUMNS names a width. NO_COLOR is https://no-color.org.
    """
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal or os.environ.get("COLUMNS", "").isdecimal() else None
    bar = "" if width is None else "█" if encodes_unicode() else "#"
    shows_colors = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return TextLayout(width=width, color=color == "always" or (color == "auto" and shows_colors), bar=bar)


def encodes_unicode() -> bool:
    """Return whether standard output can encode more than ASCII."""
    return "utf" in (sys.stdout.encoding or "").lower()


def say(lines: Iterable[str]) -> None:
    """Write lines to standard output at once, wrapped between words to the width of the terminal."""
    layout = find_layout("never")
    write_lines(row for line in lines for row in layout.wrap(line))


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to standard output at once, unwrapped."""
    sys.stdout.write(join_lines(lines))
    sys.stdout.flush()


def ask(question: str) -> str:
    """Write a question to standard output, and return the typed line, "" at the end of the input."""
    sys.stdout.write(f"{visible(question)} ")
    sys.stdout.flush()
    return sys.stdin.readline()
