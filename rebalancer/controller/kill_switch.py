"""Reads the kill switch afresh right before each request that changes something, in addition to its watch (`switches`).

An answer is valid for half a second. So even with a dead watch, no request begins later than a second after a pause was
stored.
"""

import threading
from typing import Final

from rebalancer.admission.pause import Pause
from rebalancer.controller.state import Clocks
from rebalancer.ports import Cluster, ReadFailedError

ANSWER_SERVES: Final = 0.5
"""Seconds for which an answer about the kill switch is valid for other requests, counted from when its request began.
"""

ANSWER_USABLE: Final = 0.8
"""Seconds after which a slow answer is too old for the request that waited for it."""


class KillSwitch:
    """Reads the pause, for any number of threads."""

    def __init__(self, cluster: Cluster, clocks: Clocks) -> None:
        self._cluster = cluster
        self._clocks = clocks
        self._reading = threading.Lock()
        self._read_at: float | None = None

    def read(self) -> Pause | None:
        """Return the pause in force, None if there is none: from the last answer if it is recent, else from a new one.

        Raise ReadFailedError if it cannot be read in time.
        """
        with self._reading:
            began = self._clocks.monotonic()
            if self._read_at is not None and began - self._read_at < ANSWER_SERVES:
                return None
            self._read_at = None
            pause = self._cluster.read_pause()
            took = self._clocks.monotonic() - began
            if took > ANSWER_USABLE:
                raise ReadFailedError(f"the answer took {took:.1f}s, more than {ANSWER_USABLE}s")
            if pause is not None and pause.holds(self._clocks.now()):
                return pause
            self._read_at = began
            return None
