"""Notices that the process was stopped by a signal, or that its machine was suspended.

After a stop, the process's data and the buffers of its sockets are as old as the stop was long. CLOCK_MONOTONIC goes on
under SIGSTOP and stops while the machine is suspended; CLOCK_BOOTTIME goes on in both cases. So one clock is enough: a
thread beats, and a gap between two beats by CLOCK_BOOTTIME is a stop. Other threads must check for themselves before
they rely on data, since they may run before the beating thread. A virtual machine that is frozen with its clocks shows
no gap; the read before each step notices the changes.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Without CLOCK_BOOTTIME (not on Linux), CLOCK_MONOTONIC goes on while the machine sleeps."""

_LONGEST_WAIT: Final = 1.0
"""Seconds between two beats, at most."""

_log = structlog.get_logger("rebalancer")


def elapsed() -> float:
    """Return seconds that never decrease, and also count while the process is stopped or the machine suspended."""
    return time.clock_gettime(_CLOCK)


class Standstill:
    """Beats from `start` to `stop`, and calls `resumed` with the seconds of each stop that is longer than the limit.

    `resumed` is called by the first thread that notices, before `check` returns in any thread.
    """

    def __init__(self, resumed: Callable[[float], None], *, clock: Callable[[], float] = elapsed) -> None:
        self._resumed = resumed
        self._clock = clock
        self._lock = threading.Lock()
        self._beat_at: float | None = None
        self._limit = math.inf
        self._stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="standstill", daemon=True)

    def set_limit(self, seconds: float) -> None:
        """Notice stops that are longer than this, from now on."""
        self._limit = seconds

    def start(self) -> None:
        self._beat_at = self._clock()
        self.thread.start()

    def stop(self) -> None:
        """End; the thread ends at once."""
        self._stopping.set()

    def check(self) -> None:
        """Notice a stop that has ended since the last beat, and beat."""
        with self._lock:
            now = self._clock()
            before, self._beat_at = self._beat_at, now if self._beat_at is not None else None
            if before is not None and now - before > self._limit:
                _log.warning("the process was stopped", seconds=round(now - before, 1))
                self._resumed(now - before)

    def _run(self) -> None:
        while not self._stopping.wait(min(_LONGEST_WAIT, self._limit / 4)):
            self.check()
