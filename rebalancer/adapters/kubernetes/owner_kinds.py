"""The kinds of foreign owners that a policy lists, as an API server has them: found, and watched while they are listed.

Where a kind's objects are is read from the server's discovery, where their replicas are from the scale subresource of
its CustomResourceDefinition: once, when the kind is listed. What cannot be found or read is looked for again.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec
import structlog

from rebalancer.adapters.kubernetes.reflector import Contents, Reflector
from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Transport
from rebalancer.decoding.foreign_owners import Scale
from rebalancer.decoding.kinds import ResourceKind, make_owner_kind

_AGAIN_SECONDS: Final = 30.0
"""Between two attempts to find a kind: a CustomResourceDefinition or a right may come at any time."""
_FIND_SECONDS: Final = 10.0
"""How long each request may take."""
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NOT_FOUND, _FORBIDDEN = 404, 403

T = TypeVar("T")

_log = structlog.get_logger("rebalancer.owners")

GroupKind = tuple[str, str]
"""A kind and its group."""


class _Version(msgspec.Struct, frozen=True):
    version: str = ""


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    preferred_version: _Version = _Version()


class _Resource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool


class _Resources(msgspec.Struct, frozen=True):
    resources: list[_Resource] = []


class _ScalePaths(msgspec.Struct, frozen=True, rename="camel"):
    spec_replicas_path: str = ""
    label_selector_path: str = ""


class _Subresources(msgspec.Struct, frozen=True):
    scale: _ScalePaths | None = None


class _DefinedVersion(msgspec.Struct, frozen=True):
    name: str
    subresources: _Subresources | None = None


class _DefinitionSpec(msgspec.Struct, frozen=True):
    versions: list[_DefinedVersion] = []


class _Definition(msgspec.Struct, frozen=True):
    spec: _DefinitionSpec = _DefinitionSpec()


class OwnerKindUnreadError(Exception):
    """A kind is not served, or may not be read; the message says which, and what is missing."""


def find_owner_kind(transport: Transport, kind: str, group: str) -> ResourceKind:
    """Return where the objects of a kind and their replicas are.

    Raises OwnerKindUnreadError, and ClusterError where the server does not answer.
    """
    try:
        version = _get(transport, f"/apis/{group}", _Group).preferred_version.version
        served = _get(transport, f"/apis/{group}/{version}", _Resources).resources
    except RequestRefused as error:
        if error.status != _NOT_FOUND:
            raise
        raise OwnerKindUnreadError(f"the API server serves no group {group}") from None
    found = next((one for one in served if one.kind == kind and "/" not in one.name), None)
    if found is None:
        raise OwnerKindUnreadError(f"the API server serves no kind {kind} in {group}/{version}")
    scale = _find_scale(transport, f"{found.name}.{group}", version)
    return make_owner_kind(kind, group, version, found.name, namespaced=found.namespaced, scale=scale)


def _find_scale(transport: Transport, definition: str, version: str) -> Scale | None:
    """Return where the scale subresource of a kind has its numbers; None where it has none, or no definition."""
    try:
        versions = _get(transport, f"{_DEFINITIONS}/{definition}", _Definition).spec.versions
    except RequestRefused as error:
        if error.status == _NOT_FOUND:
            return None
        if error.status != _FORBIDDEN:
            raise
        raise OwnerKindUnreadError(
            f"not allowed to get CustomResourceDefinition {definition}, which says where its replicas are; the "
            "component `owners` has the right"
        ) from None
    defined = next((one.subresources for one in versions if one.name == version), None)
    paths = defined.scale if defined is not None else None
    if paths is None or not paths.spec_replicas_path:
        return None
    return Scale(replicas=paths.spec_replicas_path, selector=paths.label_selector_path)


def _get(transport: Transport, path: str, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(transport.request("GET", path, timeout=_FIND_SECONDS), type=shape)
    except msgspec.DecodeError as error:
        raise ClusterError(f"GET {path}: the answer is not what discovery returns: {error}") from error


def explain_forbidden(kind: ResourceKind) -> str:
    """Say which right is missing for the objects of a kind."""
    return f"not allowed to list {kind.plural}.{kind.group}; grant the right with the component `owners`"


@dataclass
class _Entry:
    """What is known of a listed kind: its watches, one or one for each namespace, or why there are none."""

    kind: ResourceKind | None = None
    watches: tuple[Reflector, ...] = ()
    why: str = "not listed yet"
    due: float = 0.0
    tried: threading.Event = field(default_factory=threading.Event)


class OwnerWatches:
    """Watches the kinds that are listed, everywhere or in the namespaces of `scope`; its thread finds them."""

    def __init__(
        self, transport: Transport, scope: Collection[str] | None, *, is_stale: Callable[[Reflector], bool]
    ) -> None:
        self._transport = transport
        self._namespaces = [""] if scope is None else sorted(scope)
        self._is_stale = is_stale
        self._changed = threading.Condition()
        self._entries: dict[GroupKind, _Entry] = {}
        self._stopping = False
        self.observe: Callable[[object, object], None] | None = None
        """Called with each object before and after its change; see `Reflector.observe`."""
        self.thread = threading.Thread(target=self._run, name="owner-kinds", daemon=True)

    def start(self) -> None:
        """Begin to find and watch what is listed."""
        self.thread.start()

    def stop(self) -> None:
        """Ask all threads to end; a request that is under way ends with the transport."""
        with self._changed:
            self._stopping = True
            watches = self.watches
            self._changed.notify_all()
        for reflector in watches:
            reflector.stop()

    def join(self, timeout: float) -> None:
        """Wait for the threads' end; they need not have been started."""
        deadline = time.monotonic() + timeout
        for thread in (self.thread, *(reflector.thread for reflector in self.watches)):
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def follow(self, kinds: Iterable[GroupKind]) -> None:
        """Watch these kinds from now on, and no others; called again and again, by one thread."""
        wanted = frozenset(kinds)
        if wanted == self._entries.keys():
            return
        with self._changed:
            ended = [entry for kind, entry in self._entries.items() if kind not in wanted]
            self._entries = {kind: self._entries.get(kind) or _Entry() for kind in sorted(wanted)}
            self._changed.notify_all()
        for reflector in (reflector for entry in ended for reflector in entry.watches):
            reflector.stop()

    @property
    def watches(self) -> tuple[Reflector, ...]:
        """The watches of all kinds that were found."""
        return tuple(reflector for entry in list(self._entries.values()) for reflector in entry.watches)

    @property
    def synced(self) -> bool:
        """Whether every kind has been looked for once, and what was found has been requested."""
        entries = list(self._entries.values())
        return all(entry.tried.is_set() and all(one.synced.is_set() for one in entry.watches) for entry in entries)

    def find_kind(self, name: str) -> ResourceKind | None:
        """Return a watched kind by the name that workloads of it have."""
        kinds = (entry.kind for entry in list(self._entries.values()) if entry.kind is not None)
        return next((kind for kind in kinds if kind.owner_name == name), None)

    def read(self) -> tuple[list[tuple[Reflector, Contents]], Mapping[str, str]]:
        """Return what is known of the listed kinds, and why nothing is known of the others, by `Kind.group`."""
        held: list[tuple[Reflector, Contents]] = []
        unread = {}
        for (name, group), entry in list(self._entries.items()):
            lacking = next((one for one in entry.watches if not one.has_listed or self._is_stale(one)), None)
            if entry.kind is None or not entry.watches:
                unread[f"{name}.{group}"] = entry.why
            elif lacking is not None:
                why = explain_forbidden(entry.kind) if lacking.is_forbidden else lacking.error or "not listed yet"
                unread[f"{name}.{group}"] = why
            else:
                held += [(reflector, reflector.contents()) for reflector in entry.watches]
        return held, unread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self._find_due() is not None, self._seconds_to_next())
                due = self._find_due()
                if self._stopping:
                    return
            if due is not None:
                self._find(*due)

    def _find_due(self) -> tuple[GroupKind, _Entry] | None:
        now = time.monotonic()
        return next(((kind, one) for kind, one in self._entries.items() if not one.watches and one.due <= now), None)

    def _seconds_to_next(self) -> float | None:
        moments = [entry.due for entry in self._entries.values() if not entry.watches]
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def _find(self, named: GroupKind, entry: _Entry) -> None:
        """Find a kind and begin to watch it, or note why that cannot be."""
        try:
            kind = find_owner_kind(self._transport, *named)
            self._probe(kind)
            watches = tuple(
                Reflector(self._transport, kind, namespace=namespace, optional=True) for namespace in self._namespaces
            )
        except (OwnerKindUnreadError, ClusterError) as error:
            why = str(error)
            if why != entry.why:
                _log.warning("owners are not read", kind=".".join(named), error=why)
            entry.why, entry.due = why, time.monotonic() + _AGAIN_SECONDS
        except Exception as error:  # noqa: BLE001  # without this thread no kind would be found any more
            _log.exception("owners are not read", kind=".".join(named))
            entry.why, entry.due = str(error), time.monotonic() + _AGAIN_SECONDS
        else:
            with self._changed:
                is_wanted = not self._stopping and self._entries.get(named) is entry
                if is_wanted:
                    entry.kind, entry.watches, entry.why = kind, watches, ""
            for reflector in watches if is_wanted else ():
                reflector.observe = self.observe
                reflector.start()
        entry.tried.set()

    def _probe(self, kind: ResourceKind) -> None:
        """Raise OwnerKindUnreadError if the objects may not be listed: a watch would ask again after minutes only."""
        for namespace in self._namespaces:
            path = kind.path_in(namespace) if namespace else kind.path
            try:
                self._transport.request("GET", path, query={"limit": "1"}, timeout=_FIND_SECONDS)
            except RequestRefused as error:
                if error.status != _FORBIDDEN:
                    raise
                raise OwnerKindUnreadError(explain_forbidden(kind)) from None
