"""The EndpointSlices of a few Services, listed when they are wanted.

A watch would receive the slices of every Service of the cluster, which change with every pod. Instead, a separate
thread lists them. A snapshot waits for it a moment, and does without slices that have not come by then.
"""

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import chain
from typing import Final

import structlog

from rebalancer.adapters.kubernetes.pages import read_pages
from rebalancer.adapters.kubernetes.reflector import FORBIDDEN_WAIT, Contents
from rebalancer.adapters.kubernetes.transport import RequestRefused, Transport
from rebalancer.decoding.kinds import ENDPOINT_SLICES

Service = tuple[str, str]
"""Namespace and name."""

LIST_SECONDS: Final = 5.0
"""How long the list of one Service may take."""
_WAIT_SECONDS: Final = 1.0
"""How long a snapshot waits for lists."""
_AGAIN_SECONDS: Final = 30.0
"""Seconds between two lists of a Service."""
_LONGEST_KNOWN: Final = 90.0
"""Seconds after which a list is out of date if no newer list has come."""
_FORBIDDEN: Final = 403
_NOTHING: Final = Contents(objects=(), faults=())

_log = structlog.get_logger("rebalancer.endpoint_slices")


def select_service(service: Service) -> tuple[str, dict[str, str]]:
    """Return path and query of the list of a Service's slices."""
    namespace, name = service
    return ENDPOINT_SLICES.path_in(namespace), {"labelSelector": f"kubernetes.io/service-name={name}"}


def list_slices(transport: Transport, service: Service) -> Contents:
    """List the slices of a Service; raise ClusterError or UnreadableList."""
    path, query = select_service(service)
    pages = list(read_pages(transport, ENDPOINT_SLICES, path, query=query, timeout=LIST_SECONDS))
    return Contents(
        objects=tuple(chain.from_iterable(page.objects for page in pages)),
        faults=tuple(chain.from_iterable(page.faults for page in pages)),
    )


@dataclass(frozen=True, kw_only=True)
class SlicesRead:
    """The slices of Services with known slices; `of_all`: the slices of every requested Service are known."""

    contents: Contents
    of_all: bool
    is_forbidden: bool


@dataclass
class _Entry:
    """What is known of a Service; `listed_at` is None where its last list has failed."""

    due: float = 0.0
    listed_at: float | None = None
    contents: Contents = _NOTHING


class ServiceSlices:
    """Lists the slices of requested Services in its own thread, each every half a minute while they are used."""

    def __init__(self, transport: Transport, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._transport = transport
        self._clock = clock
        self._changed = threading.Condition()
        self._entries: dict[Service, _Entry] = {}
        self._wanted: frozenset[Service] = frozenset()
        self._is_forbidden = self._stopping = False
        self._last = _NOTHING
        """The last result; the same object is returned while nothing has changed."""
        self.thread = threading.Thread(target=self._run, name="endpoint-slices", daemon=True)

    def start(self) -> None:
        """Begin to list requested slices."""
        self.thread.start()

    def stop(self) -> None:
        """Ask the thread to end; a request that is under way ends with the transport."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def forget(self) -> None:
        """Forget all lists; list again at the next request."""
        with self._changed:
            self._entries = {}

    def join(self, timeout: float) -> None:
        """Wait for the thread's end; it need not have been started."""
        if self.thread.is_alive():
            self.thread.join(timeout)

    def read(self, services: Collection[Service]) -> SlicesRead:
        """Return the slices of these Services; wait a second at most for slices that have to be listed."""
        with self._changed:
            self._wanted = frozenset(services)
            self._entries = {service: self._entries.get(service) or _Entry() for service in sorted(self._wanted)}
            self._changed.notify_all()
            if self.thread.is_alive():
                self._changed.wait_for(lambda: self._stopping or self._find_due() is None, _WAIT_SECONDS)
            earliest = self._clock() - _LONGEST_KNOWN
            known = [
                entry.contents
                for entry in self._entries.values()
                if entry.listed_at is not None and entry.listed_at >= earliest
            ]
            contents = Contents(
                objects=tuple(chain.from_iterable(part.objects for part in known)),
                faults=tuple(chain.from_iterable(part.faults for part in known)),
            )
            if contents != self._last:
                self._last = contents
            of_all = len(known) == len(self._entries)
            return SlicesRead(contents=self._last, of_all=of_all, is_forbidden=self._is_forbidden and not of_all)

    def _find_due(self) -> Service | None:
        now = self._clock()
        return next((service for service, entry in self._entries.items() if entry.due <= now), None)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self._find_due() is not None)
                service = self._find_due()
                if self._stopping or service is None:
                    return
            self._list(service)

    def _list(self, service: Service) -> None:
        """List the slices of a Service; it stays due until the list has ended."""
        with self._changed:
            wanted = self._entries.get(service)
        began, contents, wait = self._clock(), None, _AGAIN_SECONDS
        try:
            contents = list_slices(self._transport, service)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is listed again; the thread must not die
            if isinstance(error, RequestRefused) and error.status == _FORBIDDEN:
                wait = FORBIDDEN_WAIT
            self._report(service, error, is_refused=wait == FORBIDDEN_WAIT)
        with self._changed:
            entry = self._entries.get(service)
            if entry is not None and entry is wanted:  # otherwise the Service was forgotten meanwhile
                entry.due = began + wait
                entry.listed_at = began if contents is not None else None
                entry.contents = contents or _NOTHING
            if contents is not None:
                self._is_forbidden = False
            self._changed.notify_all()

    def _report(self, service: Service, error: Exception, *, is_refused: bool) -> None:
        """Log a failure; a missing right is logged once for all Services."""
        if is_refused and not self._is_forbidden:
            _log.warning("not allowed to list", kind=ENDPOINT_SLICES.name, error=str(error))
        elif not is_refused and not self._stopping:
            _log.warning("not listed", kind=ENDPOINT_SLICES.name, service="/".join(service), error=str(error))
        self._is_forbidden = self._is_forbidden or is_refused
