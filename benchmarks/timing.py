"""Measuring on machines where others work too."""

import time
from collections.abc import Callable
from typing import Any


def seconds(function: Callable[[], Any], times: int = 3) -> float:
    """Return the least processor time of several runs: what others do on the machine counts less that way."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best
