"""Decides when the next cycle begins: of all requests for a cycle, the earliest wins.

In order of precedence:

1. *At once*: leadership, the policy, a team policy, a pause or an approval has changed, or APScheduler signals the end
  of the interval.
2. *A second later*: a decision waits for a change in the cluster (`triggers`), a place in a window is free again, or
  the memory is saved after a failure. Changes that come together make one cycle.
3. *At a computed time*: a rate admits an eviction again, a replacement is overdue, placeholders exist.
4. *At the latest* one and a half intervals after the last cycle, because APScheduler follows the time of day, which may
  be set back by an hour.

A cycle that need not begin at once waits after the end of the last cycle, for twice the duration of that cycle. So
changes in the cluster use a third of one processor at most. A cycle that is due while evictions wait for the answers of
requests under way begins after these answers (`runner`).
"""

import math
import threading
from collections.abc import Callable
from typing import Final

_AT_ONCE: Final = -math.inf


class CycleTimer:
    """Holds when the next cycle is due; from any thread. `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._due = math.inf
        self._earliest = -math.inf

    def ask(self, seconds: float | None) -> bool:
        """Ask for a cycle after this many seconds, None: at once; return whether that is earlier than the cycle due."""
        now = self._clock()
        with self._lock:
            due = _AT_ONCE if seconds is None else max(now + seconds, self._earliest)
            if self._due <= due:
                return False
            self._due = due
            return True

    @property
    def is_asked(self) -> bool:
        """Whether a cycle is to begin at once."""
        return self._due == _AT_ONCE

    def begin(self) -> float:
        """Note that a cycle begins, which fulfils all earlier requests. Returns the time, for `end`."""
        with self._lock:
            self._due = math.inf
        return self._clock()

    def end(self, began: float) -> None:
        """Note that the cycle that began at `began` has ended."""
        now = self._clock()
        self._earliest = now + 2 * (now - began)

    def left(self) -> float | None:
        """Return in how many seconds the next cycle is due, None if none is, or one has been asked for at once."""
        due = self._due
        return max(0.0, due - self._clock()) if math.isfinite(due) else None
