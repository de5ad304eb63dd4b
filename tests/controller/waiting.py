"""Waiting for what threads do."""

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds; fail after half a minute."""
    limit = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < limit, f"waited in vain for {what}"
        time.sleep(0.005)
