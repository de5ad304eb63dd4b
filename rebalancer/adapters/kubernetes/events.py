"""Events through events.k8s.io/v1, from a queue of its own: a slow or full API server never holds the loop up."""

import hashlib
import queue
import threading
from datetime import UTC, datetime
from typing import Any

import structlog

from rebalancer.adapters.kubernetes.transport import ClusterError, Transport
from rebalancer.reporting.events import Event

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

_log = structlog.get_logger("rebalancer.events")


class Recorder:
    """Publishes events in the order in which they were given, from a thread of its own."""

    def __init__(self, transport: Transport, *, instance: str) -> None:
        self._transport = transport
        self._instance = instance
        self._queue: queue.Queue[Event | None] = queue.Queue(_QUEUED)
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
            namespace = event.regarding.namespace or "default"
            path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
            try:
                self._transport.request("POST", path, body=self._body(event, namespace, datetime.now(UTC)))
            except ClusterError as error:
                _log.warning("event not published", reason=event.reason, error=str(error))

    def _body(self, event: Event, namespace: str, now: datetime) -> dict[str, Any]:
        regarding = event.regarding
        stamp = now.isoformat(timespec="microseconds").replace("+00:00", "Z")
        seed = f"{regarding.kind}{regarding.uid}{event.reason}{event.note}{stamp}"
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
            "metadata": {
                "name": f"{regarding.name[:230]}.{hashlib.sha256(seed.encode()).hexdigest()[:16]}",
                "namespace": namespace,
            },
            "eventTime": stamp,
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance[:128],
            "action": event.action,
            "reason": str(event.reason),
            "type": event.type,
            "note": event.note,
            "regarding": {key: value for key, value in reference.items() if value},
        }
