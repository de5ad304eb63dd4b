"""What a client of the simulated API server knows of it: copies of its tables, which changes reach after a delay.

The changes of one table arrive in their order; those of two tables, and at two clients, do not. So the scheduler places
a pod by what it has seen, and an owner's controller counts the pods that it has seen, as the real ones do.
Source: `client-go/tools/cache/shared_informer.go`; every handler has a queue of its own.
"""

from collections import deque
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.store import Stored, Table

AnyTable = TypeVar("AnyTable", bound=Table[Any])


def follow(state: ClusterState, table: AnyTable, name: str) -> AnyTable:
    """Return a client's copy of a table; the table itself if changes are seen at once."""
    if not state.timings.informing.longest:
        return table
    copy = table.copy()
    _Stream(state, table, copy, name)
    return copy


class _Stream(Generic[Stored]):
    """The changes of one table that one client has not seen yet."""

    def __init__(self, state: ClusterState, table: Table[Stored], copy: Table[Stored], name: str) -> None:
        self._state = state
        self._copy = copy
        self._key = f"inform {name}"
        self._unseen: deque[tuple[datetime, Stored | None, Stored | None]] = deque()
        table.listeners.append(self._changed)

    def _changed(self, before: Stored | None, after: Stored | None) -> None:
        delay = timedelta(seconds=self._state.timings.informing.draw(self._state.random))
        due = self._state.event_queue.now + delay
        if self._unseen:
            due = max(due, self._unseen[-1][0])
        self._unseen.append((due, before, after))
        self._wait()

    def _wait(self) -> None:
        seconds = (self._unseen[0][0] - self._state.event_queue.now).total_seconds()
        self._state.event_queue.after(seconds, self._arrive, key=self._key)

    def _arrive(self) -> None:
        _, before, after = self._unseen.popleft()
        self._copy.take_over(before, after)
        if self._unseen:
            self._wait()
