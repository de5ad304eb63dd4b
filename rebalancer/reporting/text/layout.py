"""How text is fitted to a terminal: colour, lines within its width, tables whose words stay whole.

No library is used: in a narrow terminal rich breaks words, or leaves columns out. Outside a terminal text is not
wrapped, so that a line can be searched for, and has no colour.

Every text ends in `join_lines`, the only place that writes a line break or a colour. Control characters in names of the
cluster are made visible there. Until then a colour is a mark that nobody outside this process can guess.
"""

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import Final, NamedTuple

from rebalancer.model.reasons import State
from rebalancer.model.visible import OBEYED, visible

_TOKEN: Final = os.urandom(8).hex()
_MARK: Final = re.compile(f"\x1b{_TOKEN}\\[([0-9]+)m")
_MARK_OR_OBEYED: Final = re.compile(f"{_MARK.pattern}|{OBEYED}")
_GAP: Final = "  "
_NARROWEST: Final = 24
"""If the last column of a table has less room than this, its cells go on lines of their own, below their rows."""


class Style(StrEnum):
    """What a colour stands for, here and on the status page; its value is the terminal's code."""

    HEADING = "1"
    GOOD = "32"
    MOVING = "34"
    CAUTION = "33"
    """It waits, or its state is not known."""
    BAD = "31"
    STUCK = "35"
    """It cannot be repaired."""
    QUIET = "2"


STATE_STYLES: Final = {
    State.SATISFIED: Style.GOOD,
    State.VIOLATED: Style.BAD,
    State.INFEASIBLE: Style.STUCK,
    State.UNFIXABLE: Style.STUCK,
    State.UNKNOWN: Style.CAUTION,
}
"""The colour of each state, also by the state's name."""


class TextLayout(NamedTuple):
    """The terminal: its width in columns (None without one), whether to use colours, and what bars are made of.

    Without bars, the last is "".
    """

    width: int | None = None
    color: bool = False
    bar: str = ""

    def paint(self, text: str, style: Style | None) -> str:
        """Mark a text with its colour, which `join_lines` writes."""
        return f"{_mark(style)}{text}{_mark('0')}" if self.color and style is not None and text else text

    def heading(self, text: str) -> str:
        return self.paint(text, Style.HEADING)

    def wrap(self, text: str, indent: str = "", hang: str | None = None) -> list[str]:
        """Break a text at spaces into lines that begin with `indent`, those after the first with `hang`.

        A word that is wider than the terminal has a line of its own. A no-break space holds words together.
        """
        if self.width is None:
            return [f"{indent}{text}".replace("\xa0", " ")]
        if visible_width(indent) + visible_width(text) <= self.width:
            return [f"{indent}{text}".rstrip().replace("\xa0", " ")]
        following = indent if hang is None else hang
        lines, line, used = [], indent, visible_width(indent)
        empty = True
        for word in text.split(" "):
            width = visible_width(word)
            if not empty and used + 1 + width > self.width:
                lines.append(line.rstrip())
                line, used, empty = following, visible_width(following), True
            if empty and lines and not word:  # a line begins where its indentation ends
                continue
            line += word if empty else f" {word}"
            used += width if empty else width + 1
            empty = False
        return [part.replace("\xa0", " ") for part in (*lines, line.rstrip())]

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
        """Align the cells of a table in columns. The last column is wrapped where the terminal is narrower.

        Where hardly any room is left for it, it has lines of its own below each row, after the columns that do not fit.
        """
        painted = [self.heading(cell) for cell in head]
        widths = [max(visible_width(row[column]) for row in (head, *rows)) for column in range(len(head) - 1)]
        used = sum(widths) + len(_GAP) * len(widths)
        if self.width is not None and used + _NARROWEST > self.width:
            widest = max((visible_width(row[-1]) for row in rows), default=0)
            if used + widest > self.width:
                ends = list(accumulate(widths, lambda end, width: end + len(_GAP) + width))
                fitting = max(1, bisect_right(ends, self.width))
                return [line for row in (painted, *rows) for line in self._stacked(row, widths, fitting)]
        return [
            line
            for row in (painted, *rows)
            for line in self.wrap(row[-1], "".join(_padded(row[:-1], widths)), " " * used)
        ]

    def _stacked(self, row: Sequence[str], widths: Sequence[int], fitting: int) -> Iterator[str]:
        """Yield the first cells of a row, and the other cells below them."""
        *cells, last = row
        aligned = list(_aligned(cells, widths))
        yield from self.wrap(_GAP.join(aligned[:fitting]).rstrip(), "", _GAP)
        yield from self.wrap(_GAP.join((*aligned[fitting:], last)), _GAP * 2)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    for cell, width in zip(cells, widths, strict=True):
        yield cell + " " * (width - visible_width(cell))


def _padded(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    return (f"{cell}{_GAP}" for cell in _aligned(cells, widths))


def visible_width(text: str) -> int:
    """Return how many columns a text takes on the screen, without the marks of its colours."""
    return len(visible(_MARK.sub("", text) if "\x1b" in text else text))


def _mark(code: str) -> str:
    return f"\x1b{_TOKEN}[{code}m"


def finish_line(line: str) -> str:
    """Return a line as it is shown: with the codes of its colours, and nothing else that a terminal obeys."""
    return line if line.isprintable() else _MARK_OR_OBEYED.sub(_finish, line)


def _finish(found: re.Match[str]) -> str:
    return visible(found[0]) if found[1] is None else f"\x1b[{found[1]}m"


def join_lines(lines: Iterable[str]) -> str:
    """Return lines as the text that is shown."""
    return "".join(f"{finish_line(line)}\n" for line in lines)


def more_text(number: int) -> str:
    """Say how many workloads are not shown, and how to see them."""
    return f"and {number:,} more: -n, -l, --limit, -o json"


def sections(parts: Iterable[Sequence[str]]) -> list[str]:
    """Join the parts that are not empty, with an empty line between them."""
    lines: list[str] = []
    for part in parts:
        if part:
            lines += ["", *part] if lines else part
    return lines


PLAIN: Final = TextLayout()
