"""Events through events.k8s.io/v1, from a queue in a thread: a slow API server never delays the control loop."""

import hashlib
import queue
import threading
import time
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog
from kubernetes import client

from rebalancer.adapters.kubernetes.transport import MERGE_PATCH, ClusterError, RequestRefused, Transport
from rebalancer.model.events import NOTE_LIMIT, Event
from rebalancer.model.moments import micro_time
from rebalancer.model.visible import visible

CONTROLLER = "rebalancer.dev/rebalancer"
_QUEUED = 1000
API_VERSIONS = {
    "Pod": "v1",
    "ReplicationController": "v1",
    "ConfigMap": "v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
}

_CONFLICT, _GONE = 409, 404
_REMEMBERED = 1000

_log = structlog.get_logger("rebalancer.events")


class _Series(msgspec.Struct, frozen=True):
    count: int


class _Published(msgspec.Struct, frozen=True):
    series: _Series | None = None


class Recorder:
    """Publishes events in the order in which they were recorded, from a thread of its own.

    A repeated event is a series: one object, patched. Its name is a hash of its content, so that a restarted process
    continues the series of its predecessor.
    """

    def __init__(self, transport: Transport, *, instance: str) -> None:
        self._transport = transport
        self._instance = instance
        self._queue: queue.Queue[Event | None] = queue.Queue(_QUEUED)
        self._counts: OrderedDict[str, int] = OrderedDict()
        self.thread = threading.Thread(target=self._run, name="events", daemon=True)
        self.thread.start()

    def record(self, event: Event) -> None:
        """Queue an event; if the queue is full, drop it and log that."""
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            _log.warning("event dropped: the queue is full", reason=event.reason)

    def close(self, timeout: float) -> None:
        """Publish the queued events, then end; after `timeout` seconds the rest is dropped."""
        deadline = time.monotonic() + timeout
        try:
            self._queue.put(None, timeout=timeout)
        except queue.Full:
            return
        self.thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            try:
                self._publish(event)
            except ClusterError as error:
                if isinstance(error, RequestRefused) and error.namespace_terminating:
                    continue  # nobody would read it: the namespace is being deleted
                _log.warning("event not published", reason=event.reason, error=str(error))
            except Exception:  # noqa: BLE001  # without this thread no further event would be published
                _log.exception("event not published", reason=event.reason)

    def _publish(self, event: Event) -> None:
        """Create the event, or increment the count of its series. The API server deletes events after an hour."""
        namespace = event.regarding.namespace or "default"
        name = _make_name(event)
        key = f"{namespace}/{name}"
        known = self._counts.pop(key, 0)
        now = datetime.now(UTC)
        try:
            count = self._increment_series(namespace, name, known, now) if known else 0
            if not count:
                create = client.EventsV1Api(self._transport).create_namespaced_event
                self._transport.call(create, namespace, self._body(event, name, now))
                count = 1
        except RequestRefused as error:
            if error.status != _CONFLICT:
                raise
            count = self._increment_series(namespace, name, 0, now) or 1
        self._counts[key] = count
        if len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)

    def _increment_series(self, namespace: str, name: str, known: int, now: datetime) -> int:
        """Add one to a series and return its count; 0 if the event was deleted. `known` 0: read the count first."""
        try:
            if not known:
                # A patch without a change returns the event, and needs no permission to read events.
                published = msgspec.json.decode(self._patch(namespace, name, {}), type=_Published)
                known = published.series.count if published.series is not None else 1
            series = {"count": known + 1, "lastObservedTime": micro_time(now)}
            self._patch(namespace, name, {"series": series})
        except RequestRefused as error:
            if error.status != _GONE:
                raise
            return 0
        except msgspec.DecodeError as error:
            raise ClusterError(f"event {namespace}/{name}: the response is not an event: {error}") from error
        return known + 1

    def _patch(self, namespace: str, name: str, change: dict[str, Any]) -> bytes:
        patch = client.EventsV1Api(self._transport).patch_namespaced_event
        return self._transport.call(patch, name, namespace, change, _content_type=MERGE_PATCH)

    def _body(self, event: Event, name: str, now: datetime) -> dict[str, Any]:
        regarding = event.regarding
        reference = {
            "apiVersion": regarding.api_version or API_VERSIONS.get(regarding.kind, ""),
            "kind": regarding.kind.partition(".")[0],
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": regarding.uid,
        }
        return {
            "metadata": {"name": name},
            # The client omits the fraction of a whole second, but the API server wants six digits.
            "eventTime": micro_time(now.replace(microsecond=now.microsecond or 1)),
            "reportingController": CONTROLLER,
            "reportingInstance": visible(self._instance)[:128],
            "action": event.action,
            "reason": str(event.reason),
            "type": event.type,
            "note": _cut(visible(event.note)),
            "regarding": {key: visible(value) for key, value in reference.items() if value},
        }


def _cut(note: str) -> str:
    """Shorten a note, with an ellipsis, to the bytes that the API server takes."""
    data = note.encode()
    return note if len(data) <= NOTE_LIMIT else f"{data[: NOTE_LIMIT - 3].decode(errors='ignore')}…"


def _make_name(event: Event) -> str:
    """Return an event's name: a hash of its content, which the API server does not allow to change later."""
    regarding = event.regarding
    content = f"{regarding.kind}\0{regarding.uid}\0{event.reason}\0{event.note}"
    return f"{visible(regarding.name)[:230]}.{hashlib.sha256(content.encode()).hexdigest()[:16]}"
