"""A watch on the simulated API server: a client's view, which may be delayed."""

from collections import deque
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.store import Listener, Table, get_sort_key


class Watch:
    """Follows the store with a delay of `delay` seconds."""

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
