"""A thread that does the same thing every few seconds, and outlives every error of it."""

import threading
from collections.abc import Callable

import structlog

_log = structlog.get_logger("rebalancer.policy")


class PollingThread:
    """Calls `poll` every so many seconds until it is stopped; what `poll` raises is logged, and the next call comes."""

    def __init__(self, name: str, seconds: float, poll: Callable[[], None]) -> None:
        self._name, self._seconds, self._poll = name, seconds, poll
        self.stopping = threading.Event()
        """Set when the thread is to end: a long `poll` looks at it in between."""
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to poll."""
        self.thread.start()

    def stop(self) -> None:
        """End; the thread needs at most the time of one request."""
        self.stopping.set()

    def _run(self) -> None:
        while not self.stopping.wait(self._seconds):
            try:
                self._poll()
            except Exception:  # noqa: BLE001  # the thread must not die; all is read again the next time
                _log.exception("not read", what=self._name)
