"""A picture that is redrawn in place, on the terminal's alternate screen, as in `less` and `top`.

Each picture begins at the top, even after the terminal was resized; lines below the screen's end are left out. The
cursor is never hidden. The last picture stays on the normal screen, also after Ctrl-C and SIGTERM.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NoReturn

from rebalancer.reporting.text.layout import finish_line, join_lines

_ENTER: Final = "\x1b[?1049h"
_LEAVE: Final = "\x1b[?1049l"
_TO_TOP: Final = "\x1b[H"
_CLEAR_LINE: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"
_OF_SIGNAL: Final = 128
"""What a shell adds to the number of a signal that ended a process."""


def can_redraw() -> bool:
    """Return whether standard output is a terminal that can move the cursor."""
    return sys.stdout.isatty() and os.environ.get("TERM") not in {None, "", "dumb"}


@contextmanager
def redrawing() -> Iterator[Callable[[Sequence[str]], None]]:
    """Yield a function that shows the lines of a picture in the place of the last one."""
    last: Sequence[str] = ()

    def show(lines: Sequence[str]) -> None:
        nonlocal last
        last = lines
        height = shutil.get_terminal_size().lines
        rows = "".join(f"{finish_line(line)}{_CLEAR_LINE}\n" for line in lines[: height - 1])
        _write(f"{_TO_TOP}{rows}{_CLEAR_BELOW}")

    _write(_ENTER)
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield show
    finally:
        signal.signal(signal.SIGTERM, before)
        _write(f"{_LEAVE}{join_lines(last)}")


def _end(number: int, _: object) -> NoReturn:
    """End with the exit code of a process that a signal ended, but run the clean-up first."""
    raise SystemExit(_OF_SIGNAL + number)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
