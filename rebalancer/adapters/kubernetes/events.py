"""Events through events.k8s.io/v1, from a queue of its own: a slow or full API server never holds the loop up."""

import hashlib
import queue
import threading
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Transport
from rebalancer.model.events import Event

CONTROLLER = "rebalancer.dev/rebalancer"
_QUEUED = 1000
_API_VERSIONS = {
    "Pod": "v1",
    "ReplicationController": "v1",
    "ConfigMap": "v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
}

_CONFLICT, _GONE = 409, 404
_REMEMBERED = 1000


class _Series(msgspec.Struct, frozen=True):
    count: int


class _Published(msgspec.Struct, frozen=True):
    series: _Series | None = None


_log = structlog.get_logger("rebalancer.events")


class Recorder:
    """Publishes events in the order in which they were given, from a thread of its own.

    An event that comes again is a series: one object, patched. Its name follows from what it says, so that a process
    that has just started finds those of the last one.
    """

    def __init__(self, transport: Transport, *, instance: str) -> None:
        self._transport = transport
        self._instance = instance
        self._queue: queue.Queue[Event | None] = queue.Queue(_QUEUED)
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def record(self, event: Event) -> None:
        """Take an event; where the queue is full it is dropped, and the log says so."""
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            _log.warning("event dropped, too many are waiting", reason=event.reason)

    def close(self, timeout: float) -> None:
        """Publish what is queued, then end; what takes longer than `timeout` seconds is left."""
        try:
            self._queue.put(None, timeout=timeout)
        except queue.Full:
            return
        self._thread.join(timeout)

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            try:
                self._publish(event)
            except ClusterError as error:
                _log.warning("event not published", reason=event.reason, error=str(error))

    def _publish(self, event: Event) -> None:
        """Create the event, or count it up where it is there already. The API server forgets events after an hour."""
        namespace = event.regarding.namespace or "default"
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        name = _name(event)
        key = f"{namespace}/{name}"
        known = self._counts.pop(key, 0)
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        try:
            count = self._counted_up(f"{path}/{name}", known, now) if known else 0
            if not count:
                self._transport.request("POST", path, body=self._body(event, name, namespace, now))
                count = 1
        except RequestRefused as error:
            if error.status != _CONFLICT:
                raise
            count = self._counted_up(f"{path}/{name}", 0, now) or 1
        self._counts[key] = count
        if len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)

    def _counted_up(self, path: str, known: int, now: str) -> int:
        """Add one to a series and return its count; 0 where the event is gone. `known` 0: ask the server first."""
        try:
            if not known:
                # A patch without a change is an answer to a question, and needs no right to read events.
                found = msgspec.json.decode(self._patch(path, {}), type=_Published)
                known = found.series.count if found.series is not None else 1
            self._patch(path, {"series": {"count": known + 1, "lastObservedTime": now}})
        except RequestRefused as error:
            if error.status != _GONE:
                raise
            return 0
        except msgspec.DecodeError as error:
            raise ClusterError(f"PATCH {path}: the answer is no event: {error}") from error
        return known + 1

    def _patch(self, path: str, change: dict[str, Any]) -> bytes:
        return self._transport.request("PATCH", path, body=change, content_type="application/merge-patch+json")

    def _body(self, event: Event, name: str, namespace: str, now: str) -> dict[str, Any]:
        regarding = event.regarding
        reference = {
            "apiVersion": _API_VERSIONS.get(regarding.kind, "v1"),
            "kind": regarding.kind,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": regarding.uid,
        }
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": now,
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance[:128],
            "action": event.action,
            "reason": str(event.reason),
            "type": event.type,
            "note": event.note,
            "regarding": {key: value for key, value in reference.items() if value},
        }


def _name(event: Event) -> str:
    """Name an event by all that it says; the API server refuses to change any of it later."""
    regarding = event.regarding
    said = f"{regarding.kind}\0{regarding.uid}\0{event.reason}\0{event.note}"
    return f"{regarding.name[:230]}.{hashlib.sha256(said.encode()).hexdigest()[:16]}"
