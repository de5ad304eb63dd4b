"""Shows on standard error what a command is doing, if it takes longer than a second and runs in a terminal."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rebalancer.model.visible import visible

_PATIENCE: Final = 1.0
"""Seconds before anything is shown."""

_INTERVAL: Final = 0.5


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Show what is being done, and for how long, until the block ends; only in a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(doing, ended), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show(doing: str, ended: threading.Event) -> None:
    began, shown = time.monotonic(), False
    wait = _PATIENCE
    while not ended.wait(wait):
        sys.stderr.write(f"\r\x1b[K{visible(doing)} … {time.monotonic() - began:.0f}s")
        sys.stderr.flush()
        shown, wait = True, _INTERVAL
    if shown:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
