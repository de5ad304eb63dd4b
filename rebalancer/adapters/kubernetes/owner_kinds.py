"""Finds the kinds of foreign owners that a policy lists at the API server, and watches them while they are listed.

The path of a kind's objects comes from the server's discovery, and the path of their replicas from the scale
subresource of its CustomResourceDefinition. Both are read once, when the kind is listed. A failed read is repeated.
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
from rebalancer.model.moves import Reference
from rebalancer.model.snapshot import Fault
from rebalancer.model.workloads import name_owner

_AGAIN_SECONDS: Final = 30.0
"""Seconds between two attempts to find a kind, because a CustomResourceDefinition or a right may come at any time."""
_FIND_SECONDS: Final = 5.0
"""How long each request may take."""
_FIRST_SECONDS: Final = 15.0
"""How long the start of the process waits for kinds."""
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
    versions: list[_Version] = []


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
    """Return the paths of a kind's objects and replicas, in the first version of the group that has the kind.

    The group's preferred version may lack the kind. Raises OwnerKindUnreadError, and ClusterError if the server does
    not answer.
    """
    try:
        known = _get(transport, f"/apis/{group}", _Group)
    except RequestRefused as error:
        if error.status != _NOT_FOUND:
            raise
        raise OwnerKindUnreadError(f"the API server serves no group {group}") from None
    versions = dict.fromkeys(one.version for one in (known.preferred_version, *known.versions))
    for version in versions:
        served = _get(transport, f"/apis/{group}/{version}", _Resources).resources
        resource = next((one for one in served if one.kind == kind and "/" not in one.name), None)
        if resource is None:
            continue
        if not resource.namespaced:
            raise OwnerKindUnreadError(
                f"{kind} of {group} has no namespace, and pods of several are not planned together"
            )
        scale = _find_scale(transport, f"{resource.name}.{group}", version)
        return make_owner_kind(kind, group, version, resource.name, scale=scale)
    raise OwnerKindUnreadError(f"the API server serves no kind {kind} in group {group}")


def _find_scale(transport: Transport, definition: str, version: str) -> Scale | None:
    """Return where the scale subresource of a kind has its numbers; None without a subresource or definition."""
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


def list_unread(kind: ResourceKind, faults: Iterable[Fault]) -> dict[str, str]:
    """Return why single owners of a kind could not be read; see `Snapshot.unread_owners`."""
    return {name_owner(kind.name, kind.group, fault.namespace, fault.name): fault.message for fault in faults}


def explain_forbidden(kind: ResourceKind) -> str:
    """Say which right is missing for the objects of a kind."""
    return f"not allowed to list {kind.plural}.{kind.group}; grant the right with the component `owners`"


@dataclass
class _Entry:
    """A listed kind: its watches, one in all or one for each namespace, or why it has none."""

    kind: ResourceKind | None = None
    watches: tuple[Reflector, ...] = ()
    why: str = "not listed yet"
    due: float = 0.0
    tried: threading.Event = field(default_factory=threading.Event)


class OwnerWatches:
    """Watches the listed kinds, everywhere or in the namespaces of `scope`; a thread finds the kinds."""

    def __init__(
        self, transport: Transport, scope: Collection[str] | None, *, is_stale: Callable[[Reflector], bool]
    ) -> None:
        self._transport = transport
        self._namespaces = [""] if scope is None else sorted(scope)
        self._is_stale = is_stale
        self._changed = threading.Condition()
        self._began = time.monotonic()
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
        """From now on, watch only these kinds; called with each cycle."""
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
        """Whether every kind was searched for once and found kinds were requested, or the wait was too long."""
        entries = list(self._entries.values())
        is_known = all(entry.tried.is_set() and all(one.synced.is_set() for one in entry.watches) for entry in entries)
        return is_known or time.monotonic() - self._began >= _FIRST_SECONDS

    def find_kind(self, workload: Reference) -> ResourceKind | None:
        """Return the watched kind of a workload; if two kinds have the same name, the one that has the object."""
        named = [one for one in self.watches if workload.kind in {one.kind.owner_name, one.kind.qualified_name}]
        holding = (one for one in named if one.get(workload.namespace, workload.name) is not None)
        return next((one.kind for one in (*holding, *named)), None)

    def read(self) -> tuple[list[tuple[Reflector, Contents]], Mapping[str, str]]:
        """Return the contents of the listed kinds, and why owners are unread; see `Snapshot.unread_owners`.

        An unreadable owner only keeps its own pods from being evicted; the rest of the cluster is not affected.
        """
        held: list[tuple[Reflector, Contents]] = []
        unread: dict[str, str] = {}
        for (name, group), entry in list(self._entries.items()):
            lacking = next((one for one in entry.watches if not one.has_listed or self._is_stale(one)), None)
            if entry.kind is None or not entry.watches:
                unread[f"{name}.{group}"] = entry.why
            elif lacking is not None:
                why = explain_forbidden(entry.kind) if lacking.is_forbidden else lacking.error or "not listed yet"
                unread[f"{name}.{group}"] = why
            else:
                contents = [(reflector, reflector.contents()) for reflector in entry.watches]
                held += [(reflector, Contents(objects=one.objects, faults=())) for reflector, one in contents]
                unread |= list_unread(entry.kind, (fault for _, one in contents for fault in one.faults))
        return held, unread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self._find_due() is not None, _AGAIN_SECONDS)
                due = self._find_due()
                if self._stopping:
                    return
            if due is not None:
                self._find(*due)
            else:
                self._forget_lost()

    def _find_due(self) -> tuple[GroupKind, _Entry] | None:
        now = time.monotonic()
        return next(((kind, one) for kind, one in self._entries.items() if not one.watches and one.due <= now), None)

    def _forget_lost(self) -> None:
        """Search again for kinds that are no longer served or listable, because their definition may have changed."""
        with self._changed:
            lost = [
                entry
                for entry in self._entries.values()
                if any(one.synced.is_set() and not one.has_listed and not one.failing for one in entry.watches)
            ]
            ended = [reflector for entry in lost for reflector in entry.watches]
            for entry in lost:
                entry.kind, entry.watches, entry.why, entry.due = None, (), "looked for again", 0.0
        for reflector in ended:
            reflector.stop()

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
        """Raise OwnerKindUnreadError if the objects may not be listed; a watch would retry only after minutes."""
        for namespace in self._namespaces:
            path = kind.path_in(namespace) if namespace else kind.path
            try:
                self._transport.request("GET", path, query={"limit": "1"}, timeout=_FIND_SECONDS)
            except RequestRefused as error:
                if error.status != _FORBIDDEN:
                    raise
                raise OwnerKindUnreadError(explain_forbidden(kind)) from None
