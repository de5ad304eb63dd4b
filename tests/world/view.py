"""What one replica's watches have received: with a delay, and nothing while they are silent."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from rebalancer.model.snapshot import Snapshot
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.store import get_sort_key
from tests.world.hub import Hub

KINDS = ("pods", "nodes", "workloads", "budgets")
SILENT_AFTER = 150.0


class View:
    """One replica's view of the cluster; `changed` is called with each object before and after its change."""

    def __init__(self, state: ClusterState, hub: Hub, changed: Callable[[Any, Any], None]) -> None:
        self._state, self._hub, self._changed = state, hub, changed
        self._snapshot = state.store.snapshot(state.event_queue.now)
        self._objects: dict[str, dict[str, Any]] = {}
        self._pending: dict[str, deque[tuple[float, str, Any]]] = {kind: deque() for kind in KINDS}
        self._listeners: list[tuple[Any, Any]] = []
        self.delay = 0.05
        self.silent: dict[str, float] = dict.fromkeys(KINDS, 0.0)
        """Until when a kind's watch is silent, and its connection alive."""
        self._silent_since: dict[str, float] = {}
        self._delivered: set[str] = set()
        """The kinds of which something was received since the last snapshot."""
        for kind in KINDS:
            self._follow(kind, getattr(state.store, kind))

    def _follow(self, kind: str, table: Any) -> None:
        key = _get_node_name if kind == "nodes" else str if kind == "budgets" else _get_uid
        self._objects[kind] = {key(item): item for item in table}

        def listen(before: Any, after: Any) -> None:
            self._pending[kind].append((self._hub.seconds, key(before if after is None else after), after))
            self._hub.after(self.delay, lambda: self._deliver(kind))

        table.listeners.append(listen)
        self._listeners.append((table, listen))

    def close(self) -> None:
        """Follow nothing any more."""
        for table, listen in self._listeners:
            table.listeners.remove(listen)
        self._pending = {kind: deque() for kind in KINDS}

    def silence(self, kind: str, seconds: float) -> None:
        """Let a watch deliver nothing for a while, without an error."""
        self.silent[kind] = self._hub.seconds + seconds
        self._silent_since[kind] = self._hub.seconds
        self._hub.after(seconds + 0.01, lambda: self._deliver(kind))

    @property
    def silent_for(self) -> float:
        """For how many seconds a watch has been silent."""
        now = self._hub.seconds
        return max((now - self._silent_since[kind] for kind, until in self.silent.items() if until > now), default=0.0)

    def staleness(self) -> str:
        """Say which watch has been silent for too long, "" if none has."""
        return f"nothing received for {self.silent_for:.0f}s" if self.silent_for > SILENT_AFTER else ""

    def _deliver(self, kind: str) -> None:
        pending, objects, now = self._pending[kind], self._objects[kind], self._hub.seconds
        if self.silent[kind] > now:
            return
        delivered = False
        while pending and pending[0][0] <= now - self.delay + 1e-6:
            _, key, after = pending.popleft()
            before = objects.pop(key, None) if after is None else objects.get(key)
            if after is not None:
                objects[key] = after
            delivered = True
            self._changed(before, after)
        if delivered:
            self._delivered.add(kind)

    def snapshot(self, now: datetime) -> Snapshot:
        """Return what was received."""
        items: dict[str, Any] = {
            kind: tuple(sorted(self._objects[kind].values(), key=_get_node_name if kind == "nodes" else get_sort_key))
            for kind in sorted(self._delivered)
        }
        self._delivered.clear()
        self._snapshot = replace(self._snapshot, taken_at=now, **items) if items else self._snapshot.at(now)
        return self._snapshot


def _get_node_name(node: Any) -> str:
    name: str = node.name
    return name


def _get_uid(item: Any) -> str:
    uid: str = item.uid
    return uid
