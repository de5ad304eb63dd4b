"""Counts the requests to the API server in the last minutes, and the failures among them, for the breaker.

The metric of these requests only grows, and is read from outside. The breaker needs its own counts per second: at most
3,600 entries for any number of requests.

An outage is one failure, even if it affects many watches and retries. Requests without an answer count once until the
next answer. A request that was sent before that answer and fails after it belongs to the same outage.

    answers, and `-` for none:  200 200 - - - - 200 - 200     6 requests, 2 failures
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from rebalancer.admission.breaker import RequestCounts

_LONGEST: Final = 3_600
"""Seconds; `breaker.window` is at most one hour."""

_REFUSED_RIGHTS: Final = frozenset({401, 403})


def is_failure(code: int) -> bool:
    """Return whether a request failed, as the alert RebalancerAPIErrors counts it: no answer, no right, server error.

    A 429 of a disruption budget, a conflict and a deleted object are answers like any other.
    """
    return code == 0 or code in _REFUSED_RIGHTS or code >= 500


class RequestWindow:
    """Every method may be called from any thread; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: deque[tuple[int, int, int]] = deque()
        self._answered_at: float | None = -math.inf
        """The time of the first answer after the last outage, None during an outage."""
        self._last_answer = self._began = -math.inf
        """The time of the last answer, and that of the last answer before the last outage."""
        self._ended_in_outage = False
        """Whether the last failure was an outage."""
        self._lock = threading.Lock()

    def count(self, code: int, waited: float = 0.0) -> None:
        """Count a request by its HTTP code, or 0 if it was sent `waited` seconds ago and had no answer."""
        with self._lock:
            now, failed = self._clock(), int(is_failure(code))
            if failed:
                self._ended_in_outage = code == 0
            if code:
                self._answered_at = now if self._answered_at is None else self._answered_at
                self._last_answer = now
            elif self._answered_at is None or self._began <= now - waited < self._answered_at:
                return  # the request was sent during the present or the last outage
            else:
                self._answered_at, self._began = None, self._last_answer
            second = int(now)
            total = 1
            if self._seconds and self._seconds[-1][0] == second:
                _, total_before, failed_before = self._seconds.pop()
                total, failed = total_before + 1, failed_before + failed
            self._seconds.append((second, total, failed))
            while self._seconds[0][0] <= second - _LONGEST:
                self._seconds.popleft()

    def read(self, window: timedelta) -> RequestCounts:
        """Return the requests of the last seconds."""
        with self._lock:
            now = self._clock()
            earliest = now - window.total_seconds()
            recent = [(total, failed) for second, total, failed in self._seconds if second > earliest]
            ended = self._answered_at if self._ended_in_outage else None
        return RequestCounts(
            total=sum(total for total, _ in recent),
            failed=sum(failed for _, failed in recent),
            outage_ended=timedelta(seconds=now - ended) if ended is not None else None,
        )
