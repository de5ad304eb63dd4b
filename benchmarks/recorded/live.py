"""What happens in a recorded cluster: pods are evicted and replaced at once, and a node can be lost.

Everything here is as fast as an API server and its controllers can be at best, so that what is measured is the client.
A replacement is Ready when it is created. It lands in the zone that has the fewest pods of its workload, on the node of
that zone that comes next.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from queue import Empty, SimpleQueue
from typing import Final

from benchmarks.recorded import objects
from benchmarks.recorded.pages import VERSION
from benchmarks.recorded.states import ZONES, State, Workload, zone_of

LOST: Final = "/recorded/lost"
"""A write of a node's number there takes the node away."""

FIGURES: Final = "/recorded/figures"
"""Answers when evictions were granted and events written, in seconds of the monotonic clock."""


def bookmark(version: int) -> bytes:
    """Return the event of a watch that says how far it has come."""
    return b'{"type":"BOOKMARK","object":{"kind":"","metadata":{"resourceVersion":"%d"}}}\n' % version


class _Pods:
    """The pods of one workload: by name the node and the texts that are a pod's own."""

    def __init__(self, workload: Workload, first: int) -> None:
        template = objects.pod(workload)
        self.workload = workload
        self.owner = template["metadata"]["ownerReferences"][0]["name"]
        self._template = objects.Template.of(json.dumps(template, separators=(",", ":")).encode())
        self.held: dict[str, tuple[int, tuple[bytes, ...]]] = {}
        for replica, node in enumerate(workload.nodes):
            self.add(replica, node, first + replica)

    def add(self, replica: int, node: int, number: int) -> str:
        """Create a pod and return its name."""
        texts = objects.pod_texts(replica, node, number)
        name = f"{self.owner}-{texts[0].decode()}"
        self.held[name] = node, texts
        return name

    def get(self, name: str, version: int = 0) -> bytes:
        """Return a pod, as of another version if there is one."""
        *texts, own = self.held[name][1]
        return self._template.fill([*texts, str(version).encode() if version else own])


class LiveCluster:
    """The pods of a made state; every method may be called by any thread."""

    def __init__(self, state: State) -> None:
        self._lock = threading.Lock()
        self._workloads: dict[tuple[str, str], _Pods] = {}
        self._of_owner: dict[tuple[str, str], _Pods] = {}
        first = 0
        for workload in state.workloads:
            pods = _Pods(workload, first)
            self._workloads[workload.namespace, workload.name] = pods
            self._of_owner[workload.namespace, pods.owner] = pods
            first += len(workload.nodes)
        self._nodes = state.nodes
        self._numbers = count(first)
        self._version = int(VERSION)
        self._next_node = dict.fromkeys(range(ZONES), 0)
        self._lost: set[int] = set()
        self._watches: dict[str, list[SimpleQueue[bytes]]] = {"pods": [], "nodes": []}
        self.evictions: list[float] = []
        self.events: list[tuple[float, str]] = []

    # What is read

    def read(self, namespace: str, plural: str, name: str) -> bytes | None:
        """Return an owner of pods, None if there is none."""
        pods = self._workloads.get((namespace, name))
        if pods is None:
            return None
        return next((json.dumps(made).encode() for kind, made in objects.owners(pods.workload) if kind == plural), None)

    def list_pods(self, namespace: str, selector: str) -> bytes:
        """Return the pods that a selector like `app=NAME` selects."""
        wanted = next((part.partition("=")[2] for part in selector.split(",") if part.startswith("app=")), "")
        pods = self._workloads.get((namespace, wanted))
        with self._lock:
            items = [pods.get(name) for name in pods.held] if pods is not None else []
        head = json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": VERSION}})
        return head[:-1].encode() + b',"items":[' + b",".join(items) + b"]}"

    def watch(self, plural: str) -> Iterator[bytes]:
        """Yield the events of pods or nodes, and a bookmark in each second without one."""
        events: SimpleQueue[bytes] = SimpleQueue()
        with self._lock:
            self._watches[plural].append(events)
        try:
            while True:
                try:
                    yield events.get(timeout=1.0)
                except Empty:
                    yield bookmark(self._version)
        finally:
            with self._lock:
                self._watches[plural].remove(events)

    def figures(self) -> bytes:
        """Return what has happened."""
        return json.dumps({"evictions": self.evictions, "events": self.events}).encode()

    # What is written

    def evict(self, namespace: str, name: str, uid: str) -> bool:
        """Evict a pod; return whether there is such a pod."""
        pods = self._of_owner.get((namespace, name.rpartition("-")[0]))
        with self._lock:
            if pods is None or name not in pods.held or not uid.endswith(pods.held[name][1][1].decode()):
                return False
            self._replace(pods, name, ())
            self.evictions.append(time.monotonic())
        return True

    def lose(self, node: int) -> None:
        """Take a node away; its pods are replaced in other zones."""
        with self._lock:
            self._lost.add(node)
            made = objects.node(node)
            made["metadata"]["resourceVersion"] = str(self._take_version())
            self._tell("nodes", "DELETED", json.dumps(made).encode())
            for pods in self._workloads.values():
                for name in [name for name, (on, _) in pods.held.items() if on == node]:
                    self._replace(pods, name, (zone_of(node),))

    def note_event(self, body: bytes) -> None:
        """Note an event that was published."""
        self.events.append((time.monotonic(), json.loads(body).get("reason", "")))

    def _replace(self, pods: _Pods, name: str, without: tuple[int, ...]) -> None:
        self._tell("pods", "DELETED", pods.get(name, self._take_version()))
        del pods.held[name]
        number = next(self._numbers)
        by_zone = Counter({zone: 0 for zone in range(ZONES) if zone not in without})
        by_zone.update(zone_of(on) for on, _ in pods.held.values() if zone_of(on) in by_zone)
        zone = min(by_zone, key=lambda zone: (by_zone[zone], zone))
        made = pods.add(number, self._take_node(zone), number)
        self._tell("pods", "ADDED", pods.get(made, self._take_version()))

    def _take_version(self) -> int:
        self._version += 1
        return self._version

    def _take_node(self, zone: int) -> int:
        of_zone = range(zone, self._nodes, ZONES)
        while True:
            self._next_node[zone] += 1
            node = of_zone[self._next_node[zone] % len(of_zone)]
            if node not in self._lost:
                return node

    def _tell(self, plural: str, what: str, made: bytes) -> None:
        event = b'{"type":"%b","object":%b}\n' % (what.encode(), made)
        for events in self._watches[plural]:
            events.put(event)
