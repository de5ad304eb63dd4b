"""Second processes: forks that have all that this one has, and do a part of its work on another processor.

A fork takes none of the other threads along, so that what these hold stays held: a process that waits for it is ended,
and the caller does its part. Linux only, as is sharing memory with a fork without a name for it.
"""

import os
import select
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

_SILENT_SECONDS: Final = 90.0
"""A process that has not finished so long after its work is wanted is ended."""

_FINISHED: Final = b"."
_BLOCK: Final = 1024 * 1024


def has_second_processor() -> bool:
    """Return whether a second process can be had and helps."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


def fork() -> int:
    """Fork; Ctrl-C ends the first process, and with it the fork, in which the signal stays blocked."""
    process = -1
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with warnings.catch_warnings():
            # Other threads may run, as that which shows the progress; the fork needs nothing that one of them holds.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
    finally:
        if process:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process


def end(process: int) -> None:
    """End a fork, whatever it does, and wait until it has ended."""
    with suppress(ProcessLookupError, ChildProcessError):  # the kernel removes it where SIGCHLD is ignored
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def silence() -> None:
    """Close the standard streams of a fork: whoever reads what the first one writes does not wait for this one."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)


@contextmanager
def beside(make: Callable[[], Iterable[str]]) -> Iterator[Callable[[], Iterable[str]]]:
    """Have a second process make a text; gives a function that waits for it and returns it, in pieces.

    Where there is no such process, or it has not made all of it, the function is `make`: the text is the same.
    """
    files: list[int] = []
    process = 0
    try:
        files += os.pipe()
        files.append(os.memfd_create("text"))
        process = fork()
    except OSError:  # there may be no more processes, files or address space
        for file in files:
            os.close(file)
        yield make
        return
    finished, finish, text = files
    if not process:
        _write(make, finish, text)
    os.close(finish)

    def take() -> Iterable[str]:
        poll = select.poll()
        poll.register(finished, select.POLLIN)
        if poll.poll(1000 * _SILENT_SECONDS) and os.read(finished, 1):
            return _read(text)
        return make()

    try:
        yield take
    finally:
        os.close(finished)
        os.close(text)
        end(process)


def _write(make: Callable[[], Iterable[str]], finish: int, text: int) -> NoReturn:
    """Make the text in the forked process; what goes wrong here is raised where the first process makes it again."""
    try:
        silence()
        with open(text, "w", encoding="utf-8", newline="") as file:
            file.writelines(make())
        os.write(finish, _FINISHED)
    finally:
        os._exit(0)


def _read(text: int) -> Iterator[str]:
    os.lseek(text, 0, os.SEEK_SET)
    with open(text, encoding="utf-8", newline="", closefd=False) as file:
        while piece := file.read(_BLOCK):
            yield piece
