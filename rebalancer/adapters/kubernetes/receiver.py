"""A second process that receives the pages of a long list while this one decodes them.

TLS hands over 16 KiB at a time, and needs the interpreter for each: in one process, receiving and decoding take turns.
The receiver is a fork with connections of its own, and writes each page into memory that both processes share. It ends
at whatever goes wrong, and the caller goes on by itself: an error is raised where it always is.
"""

import mmap
import os
import select
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from typing import Final, NoReturn

from rebalancer.adapters.processes import end, fork, silence

_SLOTS: Final = 3
"""Pages that may have been received and not decoded."""

_SLOT_LENGTH: Final = 64 * 1024 * 1024
"""Bytes of the largest page that is handed over; what is not written takes no memory."""

_SILENT_SECONDS: Final = 90.0
"""Longer than a request may take: a receiver that hands over nothing for so long is ended."""

_LENGTH: Final = struct.Struct("Q")
_FREE: Final = b"."

Request = Callable[[str], Callable[[], bytes]]
"""Requests the page of a token, as `Transport.begin` does."""

Reduce = Callable[[bytes], Iterator[memoryview]]
"""Yields the pieces of a page that are handed over."""


@contextmanager
def receiving(
    connect: Callable[[], Request], find_token: Callable[[bytes], str], reduce: Reduce, token: str
) -> Iterator[Iterator[memoryview]]:
    """Give the bodies of the pages from that of `token` on, reduced; each is valid until the next one is taken.

    `connect` is called in the other process; `find_token` returns the token of the next page, "" where it is not known.
    They end after the last page, and before, if there is no such process any more. Nothing may keep a part of a body.
    """
    pipes: list[int] = []
    try:
        pipes += os.pipe()
        pipes += os.pipe()
        full, filled, freed, free = pipes
        slots = [mmap.mmap(-1, _SLOT_LENGTH) for _ in range(_SLOTS)]
        os.write(free, _FREE * (_SLOTS - 1))  # before the fork, which may end at once: nobody would read it
        process = fork()
    except OSError:  # there may be no more processes, files or address space
        for pipe in pipes:
            os.close(pipe)
        yield iter(())
        return
    if not process:
        _serve(connect, find_token, reduce, token, slots, pipes)
    os.close(filled)
    os.close(freed)
    try:
        yield _take(slots, full, free)
    finally:
        os.close(full)
        os.close(free)
        end(process)


def _take(slots: list[mmap.mmap], full: int, free: int) -> Iterator[memoryview]:
    """Yield what the receiver hands over."""
    handed_over = select.poll()
    handed_over.register(full, select.POLLIN)
    for slot in cycle(slots):
        _allow(free)
        length = os.read(full, _LENGTH.size) if handed_over.poll(1000 * _SILENT_SECONDS) else b""
        if len(length) < _LENGTH.size:
            return
        body = memoryview(slot)[: _LENGTH.unpack(length)[0]]
        yield body
        body.release()  # it fails where somebody has kept a part


def _allow(free: int) -> None:
    """Let one more page be handed over."""
    with suppress(BrokenPipeError):  # the last one has been
        os.write(free, _FREE)


def _serve(
    connect: Callable[[], Request],
    find_token: Callable[[bytes], str],
    reduce: Reduce,
    token: str,
    slots: list[mmap.mmap],
    pipes: list[int],
) -> NoReturn:
    """Receive pages in the forked process, and end it without anything that the first one has to do at its end."""
    try:
        full, filled, freed, free = pipes
        os.close(full)
        os.close(free)
        silence()
        begin, number = connect(), 0
        body = begin(token)
        while True:
            data = body()
            if token := find_token(data):
                body = begin(token)
            if not os.read(freed, 1):
                break
            slot, length = slots[number % _SLOTS], 0
            for piece in reduce(data):
                slot[length : length + len(piece)] = piece
                length += len(piece)
            os.write(filled, _LENGTH.pack(length))
            if not token:
                break
            number += 1
        os.close(filled)
        while os.read(freed, 1):  # until the last page has been taken
            pass
    finally:
        os._exit(0)
