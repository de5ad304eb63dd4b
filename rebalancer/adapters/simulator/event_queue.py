"""Simulated time: what is still to happen, in the order in which it falls due.

Nothing here reads a clock. The owner of a simulation says how far time goes on, and everything that falls due by then
happens one after the other, each at its own moment. What falls due at the same moment happens in the order in which it
was put down, so that a seed gives one history only.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from heapq import heappop, heappush

Action = Callable[[], None]


class EventQueue:
    """A queue of actions with their moments."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._due: list[tuple[datetime, int, str, Action]] = []
        self._sequence = 0
        self._keys: set[str] = set()

    def after(self, seconds: float, action: Action, *, key: str = "") -> None:
        """Put an action down for so many seconds from now.

        With a key it is put down only if nothing of that key is due already: a controller that is told of ten changes
        looks once.
        """
        if key:
            if key in self._keys:
                return
            self._keys.add(key)
        self._sequence += 1
        heappush(self._due, (self.now + timedelta(seconds=seconds), self._sequence, key, action))

    @property
    def next_due(self) -> datetime | None:
        """When the next action falls due, None if nothing is put down."""
        return self._due[0][0] if self._due else None

    def play(self, until: datetime) -> None:
        """Let everything happen that falls due by a moment, which then is now."""
        while self._due and self._due[0][0] <= until:
            moment, _, key, action = heappop(self._due)
            self.now = moment
            self._keys.discard(key)
            action()
        self.now = until
