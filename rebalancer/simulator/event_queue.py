"""Simulated time: a queue of actions, sorted by due time.

Nothing here reads a clock. The owner of a simulation advances the time, and the actions that fall due run one after the
other, each at its own time. Actions with the same due time run in the order in which they were queued, so each seed
gives exactly one trace.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from heapq import heappop, heappush

Action = Callable[[], None]


class EventQueue:
    """A queue of actions with their due times."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._due: list[tuple[datetime, int, str, Action]] = []
        self._sequence = 0
        self._keys: set[str] = set()

    def after(self, seconds: float, action: Action, *, key: str = "") -> None:
        """Queue an action that is due in `seconds` seconds.

        With a key, the action is queued only if the queue has no action of that key. So a controller reconciles once
        after ten changes.
        """
        if key:
            if key in self._keys:
                return
            self._keys.add(key)
        self._sequence += 1
        heappush(self._due, (self.now + timedelta(seconds=seconds), self._sequence, key, action))

    @property
    def next_due(self) -> datetime | None:
        """When the next action is due; None if the queue is empty."""
        return self._due[0][0] if self._due else None

    def run(self, until: datetime) -> None:
        """Run every action that is due by a moment, and set the time to that moment."""
        while self._due and self._due[0][0] <= until:
            moment, _, key, action = heappop(self._due)
            self.now = moment
            self._keys.discard(key)
            action()
        self.now = until
