"""The objects of a simulated cluster, as its API server stores them.

Objects are immutable. A change replaces an object by a new version with the next resourceVersion. Then it calls the
listeners in the order of their registration, so each seed gives exactly one trace.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import count
from typing import Generic, Self, TypeVar

from msgspec import Struct, structs

from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload

Stored = TypeVar("Stored", bound=Struct)
Listener = Callable[[Stored | None, Stored | None], None]
"""Called with (before, after): before is None for a new object, after is None for a removed one."""


class Table(Generic[Stored]):
    """Objects of one kind, by key."""

    def __init__(self, objects: Iterable[Stored], key: Callable[[Stored], str], versions: Iterator[int]) -> None:
        self._key = key
        self._versions = versions
        self._objects = {key(item): item for item in objects}
        self.listeners: list[Listener[Stored]] = []

    def __iter__(self) -> Iterator[Stored]:
        return iter(self._objects.values())

    def get(self, key: str) -> Stored | None:
        """Return the object with a key; None if there is none."""
        return self._objects.get(key)

    def put(self, written: Stored) -> None:
        """Create an object, or replace the one with its key."""
        key = self._key(written)
        before = self._objects.get(key)
        self.take_over(before, structs.replace(written, resource_version=str(next(self._versions))))

    def drop(self, key: str) -> None:
        self.take_over(self._objects[key], None)

    def take_over(self, before: Stored | None, after: Stored | None) -> None:
        """Store an object as it is, with the version that it has."""
        if after is not None:
            self._objects[self._key(after)] = after
        elif before is not None:
            del self._objects[self._key(before)]
        self._index(before, after)
        for listener in self.listeners:
            listener(before, after)

    def copy(self) -> Self:
        """Return a table of the same objects, without listeners."""
        return type(self)(self, self._key, self._versions)

    def _index(self, before: Stored | None, after: Stored | None) -> None:
        """Update the other indexes after a change; the base class has none."""


class PodTable(Table[Pod]):
    """Pods by UID, with indexes by name, owner, node and namespace."""

    def __init__(self, pods: Iterable[Pod], key: Callable[[Pod], str], versions: Iterator[int]) -> None:
        super().__init__(pods, key, versions)
        self._named: dict[tuple[str, str], str] = {}
        self._of: dict[str, dict[str, None]] = {}
        self._on: dict[str, dict[str, None]] = {}
        self._in: dict[str, dict[str, None]] = {}
        for pod in self:
            self._index(None, pod)

    def _index(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None:
            self._named.pop((before.namespace, before.name))
        for index, group in ((self._of, _get_owner), (self._on, _get_node), (self._in, _get_namespace)):
            old = None if before is None else group(before)
            new = None if after is None else group(after)
            if old != new:
                if before is not None and old is not None:
                    del index[old][before.uid]
                if after is not None and new is not None:
                    index.setdefault(new, {})[after.uid] = None
        if after is not None:
            self._named[after.namespace, after.name] = after.uid

    def named(self, namespace: str, name: str) -> Pod | None:
        """Return the pod with a name; None if there is none."""
        return self._objects.get(self._named.get((namespace, name), ""))

    def of(self, owner: str) -> list[Pod]:
        """Return the pods of a controller by its UID; "" means the pods without a controller."""
        return [self._objects[uid] for uid in self._of.get(owner, ())]

    def on(self, node: str) -> list[Pod]:
        """Return the pods bound to a node of this name, even if the node does not exist."""
        return [self._objects[uid] for uid in self._on.get(node, ())]

    def within(self, namespace: str) -> list[Pod]:
        """Return the pods of a namespace."""
        return [self._objects[uid] for uid in self._in.get(namespace, ())]


def _get_owner(pod: Pod) -> str:
    return pod.owner.uid if pod.owner is not None else ""


def _get_node(pod: Pod) -> str | None:
    return pod.node


def _get_namespace(pod: Pod) -> str:
    return pod.namespace


class Store:
    """The objects that change in a simulated cluster; all others stay as in the first snapshot."""

    def __init__(self, first: Snapshot) -> None:
        self._first = first
        versions = count(1 + max((_read_version(item) for item in _iterate_objects(first)), default=0))
        self.pods = PodTable(first.pods, lambda pod: pod.uid, versions)
        self.nodes: Table[Node] = Table(first.nodes, lambda node: node.name, versions)
        self.workloads: Table[Workload] = Table(first.workloads, lambda workload: workload.uid, versions)
        self.budgets: Table[DisruptionBudget] = Table(first.budgets, str, versions)

    def snapshot(
        self, now: datetime, *, pods: Iterable[Pod] | None = None, nodes: Iterable[Node] | None = None
    ) -> Snapshot:
        """Return a snapshot of the current state, sorted by name as the API server lists objects.

        `pods` and `nodes` are those that a client has seen; None means the stored pods and nodes.
        """
        return replace(
            self._first,
            taken_at=now,
            pods=tuple(sorted(self.pods if pods is None else pods, key=get_sort_key)),
            nodes=tuple(sorted(self.nodes if nodes is None else nodes, key=lambda node: node.name)),
            workloads=tuple(sorted(self.workloads, key=get_sort_key)),
            budgets=tuple(sorted(self.budgets, key=get_sort_key)),
        )


def get_sort_key(item: Pod | Workload | DisruptionBudget) -> tuple[str, str, str]:
    """Return the key by which objects of a kind are sorted."""
    return item.namespace, getattr(item, "kind", ""), item.name


def _iterate_objects(first: Snapshot) -> Iterator[Pod | Node | Workload | DisruptionBudget]:
    yield from first.pods
    yield from first.nodes
    yield from first.workloads
    yield from first.budgets


def _read_version(item: Pod | Node | Workload | DisruptionBudget) -> int:
    """Return a resourceVersion as a number; 0 if it is not a number, as in files that people have written."""
    text = item.resource_version
    return int(text) if text.isascii() and text.isdigit() else 0
