"""A thread that repeats one action whenever it is due, and survives every error in it.

A job of APScheduler only signals that the action is due, so a hanging read does not delay other jobs. The scheduler
follows the time of day. If that is set back by an hour, the thread continues by the monotonic clock.
"""

import threading
from collections.abc import Callable
from typing import Final

import structlog

_log = structlog.get_logger("rebalancer.policy")


LATEST: Final = 1.5
"""After this many intervals, the action runs without a signal."""


class PollingThread:
    """Calls `poll` at each signal, which comes at a fixed interval of seconds. Errors of `poll` are logged."""

    def __init__(self, name: str, seconds: float, poll: Callable[[], None]) -> None:
        self.name, self.seconds = name, seconds
        self._poll = poll
        self._due = threading.Event()
        self.stopping = threading.Event()
        """Set when the thread must end; a long `poll` checks it in between."""
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def signal(self) -> None:
        """Have it poll now; never blocks."""
        self._due.set()

    def stop(self) -> None:
        """End; the thread needs at most the time of one request."""
        self.stopping.set()
        self._due.set()

    def _run(self) -> None:
        while not self.stopping.is_set():
            self._due.wait(LATEST * self.seconds)
            if self.stopping.is_set():
                return
            try:
                self._poll()
            except Exception:  # noqa: BLE001  # the thread must not die; all is read again the next time
                _log.exception("not read", what=self.name)
            self._due.clear()  # now: whatever takes longer than an interval is not done without a pause
