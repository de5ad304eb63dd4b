"""Pictures that are redrawn in place: what a terminal gets, and in which state it is left."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"

PROGRAM = """\
import sys
from rebalancer.cli.redraw import can_redraw, redrawing
assert can_redraw()
with redrawing() as show:
    for picture in range(2):
        show([f"picture {picture} line {number}" for number in range(9)])
        sys.stdin.readline()
"""


@contextmanager
def running(program: str, *, height: int, term: str = "xterm") -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run a program on a terminal of a height; yield it and the terminal's other end."""
    screen, terminal = pty.openpty()
    resize(screen, height)
    environment = {name: value for name, value in os.environ.items() if name not in {"LINES", "COLUMNS"}}
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=terminal,
        stderr=subprocess.PIPE,
        env={**environment, "TERM": term},
    )
    os.close(terminal)
    try:
        yield child, screen
    finally:
        child.kill()
        child.communicate(timeout=10)
        os.close(screen)


def resize(screen: int, height: int) -> None:
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", height, 80, 0, 0))


def read_until(screen: int, end: bytes) -> bytes:
    """Read what the terminal gets until it ends so; the terminal writes a carriage return before each new line."""
    shown = b""
    while not shown.endswith(end):
        shown += os.read(screen, 65536)
    return shown.replace(b"\r\n", b"\n")


def press_enter(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    child.stdin.write(b"\n")
    child.stdin.flush()


def rows(picture: int, number: int, end: bytes = b"\x1b[K") -> bytes:
    return b"".join(b"picture %d line %d%s\n" % (picture, line, end) for line in range(number))


def test_a_picture_takes_the_place_of_the_last_one_and_the_last_one_stays() -> None:
    """It begins at the top, and what is right of it and below is cleared; the normal screen gets the last picture."""
    with running(PROGRAM, height=24) as (child, screen):
        assert read_until(screen, b"\x1b[J") == ENTER + b"\x1b[H" + rows(0, 9) + b"\x1b[J"
        press_enter(child)
        assert read_until(screen, b"\x1b[J") == b"\x1b[H" + rows(1, 9) + b"\x1b[J"
        press_enter(child)
        assert read_until(screen, b"line 8\r\n") == LEAVE + rows(1, 9, end=b"")
        assert child.wait(timeout=10) == 0


def test_a_picture_fits_a_terminal_that_was_resized() -> None:
    """A line is left for what is typed; what does not fit is left out, but not of the picture that stays."""
    with running(PROGRAM, height=6) as (child, screen):
        assert read_until(screen, b"\x1b[J") == ENTER + b"\x1b[H" + rows(0, 5) + b"\x1b[J"
        resize(screen, 4)
        press_enter(child)
        assert read_until(screen, b"\x1b[J") == b"\x1b[H" + rows(1, 3) + b"\x1b[J"
        press_enter(child)
        assert read_until(screen, b"line 8\r\n") == LEAVE + rows(1, 9, end=b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_normal_screen_with_its_cursor(number: signal.Signals) -> None:
    with running(PROGRAM, height=24) as (child, screen):
        shown = read_until(screen, b"\x1b[J")
        child.send_signal(number)
        shown += read_until(screen, b"line 8\r\n")
        assert shown.count(ENTER) == shown.count(LEAVE) == 1
        assert b"\x1b[?25l" not in shown


def test_where_nothing_can_be_redrawn_it_is_not_tried() -> None:
    """In a pipe, and in a terminal that only adds lines."""
    program = "from rebalancer.cli.redraw import can_redraw; print(can_redraw())"
    with running(program, height=24, term="dumb") as (_, screen):
        assert read_until(screen, b"\n") == b"False\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"False\n"
