"""What a client of the simulated API server knows: changes reach the client after a delay.

The scheduler and the owners' controllers have copies of tables (`follow`). The changes of one table arrive in order,
but changes of two tables, or at two clients, do not. So the scheduler places a pod by what it has seen, and an owner's
controller counts the pods that it has seen, as in a real cluster. The rebalancer gets snapshots without the changes of
the last seconds (`Watch`).

Source: `client-go/tools/cache/shared_informer.go`; every handler has a queue of its own.
"""

from collections import deque
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from msgspec import Struct

from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.store import Listener, Stored, Table, get_sort_key

AnyTable = TypeVar("AnyTable", bound=Table[Any])


def follow(state: ClusterState, table: AnyTable, name: str) -> AnyTable:
    """Return a client's copy of a table, or the table itself if the client sees changes at once."""
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


class Watch:
    """A client's view of the store, which is `delay` seconds old."""

    def __init__(self, state: ClusterState, first: Snapshot, delay: float) -> None:
        self._event_queue = state.event_queue
        self._delay = timedelta(seconds=delay)
        self._known = first
        self._pending: deque[tuple[datetime, str, str, Struct | None]] = deque()
        self._objects: dict[str, dict[str, Any]] = {}
        store = state.store
        self._follow("pods", store.pods, lambda pod: pod.uid)
        self._follow("nodes", store.nodes, lambda node: node.name)
        self._follow("workloads", store.workloads, lambda workload: workload.uid)
        self._follow("budgets", store.budgets, str)

    def _follow(self, field: str, table: Table[Any], key: Any) -> None:
        self._objects[field] = {key(item): item for item in table}

        def changed(before: Struct | None, after: Struct | None) -> None:
            name = key(before if after is None else after)
            self._pending.append((self._event_queue.now, field, name, after))

        listener: Listener[Any] = changed
        table.listeners.append(listener)

    def snapshot(self, now: datetime) -> Snapshot:
        """Return the client's view at a point in time."""
        changed: set[str] = set()
        while self._pending and self._pending[0][0] <= now - self._delay:
            _, field, key, after = self._pending.popleft()
            changed.add(field)
            if after is None:
                del self._objects[field][key]
            else:
                self._objects[field][key] = after
        if changed:
            tables: dict[str, Any] = {
                field: tuple(
                    sorted(self._objects[field].values(), key=_get_node_name if field == "nodes" else get_sort_key)
                )
                for field in sorted(changed)
            }
            self._known = replace(self._known, taken_at=now, **tables)
        elif now != self._known.taken_at:
            self._known = self._known.at(now)
        return self._known


def _get_node_name(node: Any) -> str:
    name: str = node.name
    return name
