"""A store of all objects of one kind, kept up to date by list and watch in a thread of its own.

The client's informer is not used: it never requests bookmarks, has no read timeout and retries failed watches without
back-off. The rules here:

* Page the list, and resume a broken watch from the last version received.
* List again on 410, if versions go back, or after silence.
* Wait longer after each failure.
* Record when the contents were last known to be the server's.

Silence is no failure, because a server may skip bookmarks for minutes, and then the watch of an unchanged kind is
silent. But a dead watch is silent, too. So after half of `STALE_AFTER` of silence, a kind of few objects is listed
whole, from etcd, and compared with the store. A list with limit 1 would prove nothing: it carries etcd's current
version, which is newer than the last change of a quiet kind. A larger kind is watched again from the store's version,
and listed after an equal silence, because with a working watch, many objects hardly ever stay unchanged for that long.
That the server accepts the new watch proves nothing: a dead watch is accepted, too, and sends nothing.

Changes that only such a list shows are applied as if the watch had sent them, and the watch counts as broken. Its
contents are stale, even right after a list, until the watch sends something, or `_EQUAL_LISTS` lists in a row show
nothing new. Otherwise a dead watch with an occasional list would look alive, although each list is outdated by the next
change. A change between the end of a watch and its list looks the same, and delays evictions until the next bookmark.

After a stop of the process, data from a watch may have waited in a buffer since before the stop. Only a list that
begins afterwards is certainly new (`Reflector.renew`).
"""

import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import msgspec
import structlog
import urllib3
from urllib3.response import BaseHTTPResponse

from rebalancer.adapters.kubernetes.pages import read_pages
from rebalancer.adapters.kubernetes.standstill import elapsed
from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Transport
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import OPTIONAL_KINDS, ResourceKind
from rebalancer.decoding.lists import decode
from rebalancer.model.snapshot import Fault

STALE_AFTER = 150.0
"""Seconds after which the contents of a kind are stale, so that nothing is evicted.

Half of it is the read timeout of a watch; bookmarks, if any, come about every 60 seconds.
"""
MOST_COMPARED: Final = 500
"""A kind with at most this many objects, one page, is listed after one silence."""
_EQUAL_LISTS: Final = 2
"""After this many lists in a row without a change, a watch that has missed something is trusted again."""
_SHORTEST_WATCH = 5.0
"""A watch that ends sooner counts as a failure."""
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_GONE = 410
_FORBIDDEN = 403
_NOT_SERVED = frozenset({_FORBIDDEN, 404})
_UNSERVED_WAIT = 300.0
"""Seconds between two requests for an optional kind that is not served, or that the API server refuses to list."""
FORBIDDEN_WAIT = 1800.0
"""Seconds between two requests for an optional kind after the API server has refused twice to list it.

A right is granted by an update of the installation, if ever.
"""
_WHOLE_NUMBER = re.compile(r"[0-9]{1,20}\Z")
"""The form of a comparable resourceVersion: since Kubernetes 1.35 of every one, before that of etcd's."""

_log = structlog.get_logger("rebalancer.reflector")


class _WatchEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _ObjectMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _ObjectMetadata = _ObjectMetadata()
    code: int = 0
    message: str = ""


_EVENT = msgspec.json.Decoder(_WatchEvent)
_OBJECT = msgspec.json.Decoder(_Object)


class _VersionWentBackError(Exception):
    """The server sends an older state than before; the message has both versions."""


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The contents of a store at one moment."""

    objects: tuple[Any, ...]
    faults: tuple[Fault, ...]


class Reflector:
    """The store of one kind, or of one named object in one namespace.

    An `optional` kind has no objects while it is not served or its listing is refused. `changed`, if given, is
    called with the contents after each list and each change, in the reflector's thread. Changes of unread fields do not
    count.
    """

    def __init__(
        self,
        transport: Transport,
        kind: ResourceKind,
        *,
        namespace: str = "",
        name: str = "",
        optional: bool = False,
        changed: Callable[[Contents], None] | None = None,
    ) -> None:
        self.kind = kind
        self._transport = transport
        self._path = kind.path_in(namespace) if namespace else kind.path
        self._optional = optional
        self._changed = changed
        self._query = {"fieldSelector": f"metadata.name={name}"} if name else {}
        self._lock = threading.Lock()
        self._objects: dict[tuple[str, str], Any] = {}
        self._contents: Contents | None = None
        """What `contents` returned last, None after a change."""
        self._intern = Interner()
        self._version = ""
        self._stopping = threading.Event()
        self._response: BaseHTTPResponse | None = None
        self._heard_at = time.monotonic()
        """When the server last sent an event, a bookmark, or a whole list."""
        self._known_at = self._heard_at
        """The time as of which the contents were the server's."""
        self._silence = 0.0
        """Seconds for which watches have been open and silent since then, up to the end of the last watch."""
        self._lists_left = 0
        """How many more lists without a change are needed until the watch is trusted again."""
        self._failing_since: float | None = None
        self._opened_at: float | None = None
        """Since when the present watch is open."""
        self._listed_from = self._renewed_at = elapsed()
        """When the last successful list began, and since when a new list is required."""
        self.observe: Callable[[object, object], None] | None = None
        """Called with each changed object before and after the change; None for a new or a deleted one."""
        self.synced = threading.Event()
        self.has_listed = False
        """Whether the objects are known: they were listed, and the API server has not refused to list them since."""
        self.is_forbidden = False
        """Whether the kind is optional, and the API server refuses to list it."""
        self.error = ""
        """What the last attempt failed with, "" while all is well."""
        self.status = 0
        """The HTTP code of the last refusal, 0 while all is well."""
        self.undelivered = 0
        """How many changes a list has shown that the watch did not deliver; 0 while the watch is trusted."""
        self.thread = threading.Thread(target=self._run, name=f"reflect-{kind.plural}", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Ask the thread to end; it ends at once even in the middle of a watch."""
        self._stopping.set()
        self._end_watch()

    def renew(self) -> None:
        """List again now; until a list that begins after this call has succeeded, the contents are stale."""
        self._renewed_at = elapsed()
        self._end_watch()

    def _end_watch(self) -> None:
        response = self._response
        if response is not None:
            try:
                response.shutdown()
            except (ValueError, OSError, RuntimeError):
                response.close()

    def join(self, timeout: float) -> None:
        """Wait for the thread's end; it need not have been started."""
        if self.thread.is_alive():
            self.thread.join(timeout)

    @property
    def age(self) -> float:
        """Seconds since the contents were the server's, by the last event, bookmark, or request of a list.

        Lists beside a watch that does not deliver do not count.
        """
        return time.monotonic() - self._known_at

    @property
    def is_behind(self) -> bool:
        """Whether the contents were, or may have been, received before the last `renew`."""
        return self._listed_from < self._renewed_at

    @property
    def is_stale(self) -> bool:
        """Whether the contents are too old to go by, or the watch does not deliver."""
        return self.age > STALE_AFTER or self.undelivered > 0 or self.is_behind

    @property
    def failing(self) -> float:
        """Seconds for which every attempt has failed, 0 while all is well.

        A kind that rarely changes is silent for a minute, so a watch counts as working once it has been open for a
        while. Opening alone proves nothing: it can fail at once, again and again.
        """
        since, opened, now = self._failing_since, self._opened_at, time.monotonic()
        return 0.0 if since is None or (opened is not None and now - opened >= _SHORTEST_WATCH) else now - since

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> Any:
        """Return one object, or the Fault in its place; None if there is none."""
        return self._objects.get((namespace, name))

    def contents(self) -> Contents:
        """Return the present contents; the same object while nothing has changed."""
        with self._lock:
            if self._contents is None:
                held = tuple(self._objects.values())
                faults = tuple(item for item in held if isinstance(item, Fault))
                objects = tuple(item for item in held if not isinstance(item, Fault)) if faults else held
                self._contents = Contents(objects=objects, faults=faults)
            return self._contents

    def _run(self) -> None:
        wait = _FIRST_WAIT
        while not self._stopping.is_set():
            try:
                failed = self._follow()
            except RequestRefused as error:
                if self._optional and error.status in _NOT_SERVED:
                    self._wait_until_served(error)
                    continue
                failed = self._record_failure(error)
                self.status = error.status
                if error.status == _GONE:
                    self._version = ""
            except (ClusterError, urllib3.exceptions.HTTPError, OSError) as error:
                failed = self._record_failure(error)
            except Exception as error:  # noqa: BLE001  # list again after an unreadable event; the thread must not die
                failed = self._record_failure(error)
                self._version = ""
            wait = min(wait * 2, _LONGEST_WAIT) if failed else _FIRST_WAIT
            if self._optional:
                self.synced.set()
            if failed:
                self._stopping.wait(wait * random.uniform(0.5, 1.0))  # noqa: S311  # jitter, not a secret

    def _follow(self) -> bool:
        """List if that is due, then watch; return whether the watch has ended too soon."""
        began = time.monotonic()
        if self.is_behind:
            self._version = ""  # nothing to compare with, because the data of the watch was not read to its end
        if not self._version or self._is_to_be_compared():
            self._list()
        was_silent = self._watch()
        return not was_silent and not self.is_behind and time.monotonic() - began < _SHORTEST_WATCH

    def _wait_until_served(self, error: RequestRefused) -> None:
        self.has_listed, self.error = False, str(error)
        with self._lock:
            self._objects, self._contents, self._version = {}, None, ""
        self._intern = Interner()
        self._trust()  # nothing is held that a watch could have missed
        was_forbidden, self.is_forbidden = self.is_forbidden, error.status == _FORBIDDEN
        if self.is_forbidden and not was_forbidden:
            _log.warning("not allowed to list", kind=self.kind.name, error=str(error))
        self._failing_since = None
        self.synced.set()
        # A single refusal may come while roles are being replaced.
        is_refused_again = self.is_forbidden and was_forbidden and self.kind in OPTIONAL_KINDS
        self._stopping.wait(FORBIDDEN_WAIT if is_refused_again else _UNSERVED_WAIT)

    def _record_failure(self, error: Exception) -> bool:
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        if not self._stopping.is_set():
            self.error = str(error)
            _log.warning("watch failed", kind=self.kind.name, error=self.error)
        return True

    def _is_to_be_compared(self) -> bool:
        """Return whether watches were silent too long, so that the store has to be compared with a whole list.

        Silence counts across watches, because a load balancer may end each of them before the read timeout. While no
        watch is open, as in an outage, none could have delivered anything.
        """
        return self._silence >= (STALE_AFTER / 2 if len(self) <= MOST_COMPARED else STALE_AFTER)

    def _list(self) -> None:
        """Read all pages and exchange the store at the end; readers never see a partial list.

        It is read from etcd, so that the contents are the server's as of the request. Unchanged objects keep their
        identity.
        """
        requested, begun = time.monotonic(), elapsed()
        objects: dict[tuple[str, str], Any] = {}
        version = ""
        for page in read_pages(self._transport, self.kind, self._path, query=self._query, intern=self._intern):
            for item in (*page.objects, *page.faults):
                key = _get_key(item)
                held = self._objects.get(key)
                objects[key] = held if held == item else item
            version = page.resource_version
        is_comparison, before = bool(self._version), self._objects
        changes = [(held, objects.get(key)) for key, held in before.items() if objects.get(key) is not held]
        changes += [(None, item) for key, item in objects.items() if key not in before]
        with self._lock:
            self._objects, self._version = objects, version
            if changes:
                self._contents = None
        self._bound_interner(is_new=not before)
        self._note_list(requested, len(changes) if is_comparison else None)
        self._listed_from = begun
        if self.has_listed and self.observe is not None:
            for change in changes:
                self.observe(*change)
        self.has_listed, self.is_forbidden = True, False
        self._notify()  # before `synced`, because those who wait for `synced` rely on it
        self.synced.set()

    def _note_list(self, requested: float, undelivered: int | None) -> None:
        """Record how many changes a list has shown, None without a comparison, and the age of the contents.

        A list after 410 says nothing about an untrusted watch: there is no watch whose silence it could confirm.
        """
        self.error, self.status, self._failing_since = "", 0, None
        self._heard_at, self._silence = time.monotonic(), 0.0
        if undelivered:
            _log.warning("watch did not deliver", kind=self.kind.name, changes=undelivered)
            self.undelivered, self._lists_left = self.undelivered + undelivered, _EQUAL_LISTS
        elif undelivered is not None:
            self._trust(lists_left=max(0, self._lists_left - 1))
        if not self.undelivered:
            self._known_at = requested

    def _trust(self, *, lists_left: int = 0) -> None:
        self._lists_left = lists_left
        if not lists_left:
            self.undelivered = 0

    def _bound_interner(self, *, is_new: bool) -> None:
        if is_new:
            self._intern.accept_size()
        elif self._intern.is_overgrown:
            self._intern.forget_unused(_list_values(self._objects.values()))

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed(self.contents())

    def _watch(self) -> bool:
        """Apply what the server sends; return whether it ended in silence."""
        query = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(240, 480)),  # noqa: S311  # spread, not a secret
        }
        response = self._transport.stream(self._path, query=query, read_timeout=STALE_AFTER / 2)
        self._response, self._opened_at = response, (opened := time.monotonic())
        try:
            if self._stopping.is_set() or self.is_behind:  # that came before there was a response to shut down
                return True
            for line in _split_lines(response):
                self._apply(_EVENT.decode(line))
                self._heard_at = self._known_at = time.monotonic()
                self._silence, self._failing_since, self.error = 0.0, None, ""
                self._trust()
                if self._stopping.is_set() or self.is_behind:
                    return False
            if self._heard_at < opened and time.monotonic() - opened < _SHORTEST_WATCH and not self.is_behind:
                raise ClusterError(f"watch of {self.kind.plural}: it ended at once, without an event")
        except (urllib3.exceptions.HTTPError, OSError) as error:
            if not self.is_behind and not isinstance(error, urllib3.exceptions.ReadTimeoutError):
                raise
            return True
        finally:
            self._silence += time.monotonic() - max(opened, self._heard_at)
            if time.monotonic() - opened >= _SHORTEST_WATCH:
                self._failing_since = None
            self._response = self._opened_at = None
            response.close()
        return False

    def _apply(self, event: _WatchEvent) -> None:
        head = _OBJECT.decode(event.object)
        if event.type == "ERROR":
            raise RequestRefused(f"watch of {self.kind.plural}: {head.message}", head.code, {})
        self._check_version(head.metadata.resource_version)
        if event.type != "BOOKMARK":
            after = None if event.type == "DELETED" else decode(self.kind, event.object, self._intern)
            # Use the object's own strings; the metadata's strings would take memory beside them.
            key = _get_key(head.metadata if after is None else after)
            before = self._objects.get(key)
            # For example a node's heartbeat: the contents stay the same object, and conclusions from them stay valid.
            if before != after:
                self._store(key, before, after)
        self._version = head.metadata.resource_version or self._version

    def _store(self, key: tuple[str, str], before: Any, after: Any) -> None:
        with self._lock:
            self._contents = None
            if after is not None:
                self._objects[key] = after
            else:
                del self._objects[key]
        if self.observe is not None:
            self.observe(before, after)
        self._bound_interner(is_new=False)
        self._notify()

    def _check_version(self, version: str) -> None:
        """Raise _VersionWentBackError if the server sends an older version than before.

        Then etcd was restored from a backup, or a proxy switched to another cluster: the store has to be listed again.
        A version that repeats is no sign of that: bookmarks of a kind that nobody changes carry the version of its last
        change.
        """
        comparable = _WHOLE_NUMBER.match(version) and _WHOLE_NUMBER.match(self._version)
        if comparable and int(version) < int(self._version):
            message = f"watch of {self.kind.plural}: resourceVersion went back from {self._version} to {version}"
            raise _VersionWentBackError(message)


def _get_key(item: Any) -> tuple[str, str]:
    """Return namespace and name."""
    return getattr(item, "namespace", ""), item.name


def _list_values(objects: Iterable[Any]) -> Iterator[Any]:
    """Return the fields of all objects, because interned values are fields or parts of fields.

    An interned part of a field is forgotten, and interned anew with the next object that has it.
    """
    readable = (item for item in objects if not isinstance(item, Fault))
    return chain.from_iterable(map(msgspec.structs.astuple, readable))


def _split_lines(response: BaseHTTPResponse) -> Iterator[bytes]:
    """Split a stream into its lines, as they come."""
    rest = b""
    for chunk in response.stream(amt=None):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line for line in lines if line)
