"""A cluster that is listed once, for commands that only read: nothing is watched, nothing is written."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

import msgspec

from rebalancer.adapters.kubernetes.endpoint_slices import LIST_SECONDS, Service, list_slices, select_service
from rebalancer.adapters.kubernetes.owner_kinds import (
    GroupKind,
    OwnerKindUnreadError,
    explain_forbidden,
    find_owner_kind,
    list_unread,
)
from rebalancer.adapters.kubernetes.pages import read_pages, request_pages
from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Transport
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import ENDPOINT_SLICES, KINDS, OPTIONAL_KINDS, WEBHOOKS, ResourceKind
from rebalancer.decoding.lists import DecodedObjects, decode, make_snapshot, reduce_page
from rebalancer.model.cluster import Version
from rebalancer.model.creation import WebhookConfiguration, find_needed_services
from rebalancer.model.snapshot import Fault, Snapshot

FORBIDDEN = frozenset({401, 403})
_NEEDED = frozenset({"Pod", "Node"})
_LISTED = tuple(kind for kind in OPTIONAL_KINDS if kind is not ENDPOINT_SLICES)
"""The optional kinds that are listed whole. EndpointSlices are listed only for a few Services."""
_WEBHOOK_NAMES = frozenset(kind.name for kind in WEBHOOKS)


class _VersionInfo(msgspec.Struct, frozen=True):
    major: str
    minor: str


def server_version(transport: Transport) -> Version:
    """Request the API server's version; raise ClusterError if the response has none."""
    data = transport.request("GET", "/version")
    try:
        info = msgspec.json.decode(data, type=_VersionInfo)
        return Version.parse(f"{info.major}.{info.minor}")
    except (msgspec.DecodeError, ValueError) as error:
        raise ClusterError(f"{transport.host} does not answer as a Kubernetes API server: {error}") from error


def read_once(transport: Transport, now: datetime, owners: Iterable[GroupKind] = ()) -> Snapshot:
    """List every kind once, for a command that only reads, with the foreign owners of these kinds and groups.

    A kind that may not be listed is unknown, like a kind missing from a file; pods and nodes are required. An optional
    kind need not be served.
    """
    gathered = DecodedObjects()
    # One interner for all kinds: a ReplicaSet's template, its Deployment's, is converted once. Decoding 5,000 of both
    # takes 1.4 times as long with one for each kind, and 11 MiB more.
    intern = Interner()
    version = server_version(transport)
    for kind in KINDS:
        try:
            _list_into(gathered, transport, kind, intern)
        except RequestRefused as error:
            if kind.name in _NEEDED or error.status not in FORBIDDEN:
                raise
    unread_owners = _list_owners_into(gathered, transport, owners)
    forbidden = set()
    for kind in _LISTED:
        try:
            _list_into(gathered, transport, kind, intern)
        except RequestRefused as error:
            if error.status in FORBIDDEN:
                forbidden.add(kind.name)
    if gathered.kinds >= _WEBHOOK_NAMES and not _list_slices_into(gathered, transport):
        forbidden.add(ENDPOINT_SLICES.name)
    made = make_snapshot(
        gathered.objects,
        taken_at=now,
        known=gathered.kinds,
        version=version,
        faults=gathered.faults,
        forbidden=forbidden,
    )
    return replace(made, unread_owners=unread_owners)


def _list_owners_into(gathered: DecodedObjects, transport: Transport, owners: Iterable[GroupKind]) -> Mapping[str, str]:
    """List the foreign owners of some kinds; return, by `Kind.group`, why kinds could not be listed."""
    kinds, unread = _find_owner_kinds(transport, owners)
    for kind in kinds:
        try:
            for page in read_pages(transport, kind, kind.path):
                gathered.objects[kind.field].extend(page.objects)
                unread |= list_unread(kind, page.faults)
        except ClusterError as error:
            unread[kind.qualified_name] = _explain(kind, error)
    return unread


def _reduce_owners(transport: Transport, owners: Iterable[GroupKind]) -> tuple[list[bytes], list[Fault]]:
    """Return the reduced foreign owners of some kinds, and the faults: malformed or unlisted objects."""
    kinds, unread = _find_owner_kinds(transport, owners)
    items: list[bytes] = []
    faults: list[Fault] = []
    for kind in kinds:
        try:
            for page, malformed in request_pages(transport, kind.path, partial(reduce_page, kind)):
                items += page
                faults += malformed
        except ClusterError as error:
            unread[kind.qualified_name] = _explain(kind, error)
    return items, [*faults, *(Fault(kind=name, namespace="", name="", message=why) for name, why in unread.items())]


def _find_owner_kinds(transport: Transport, owners: Iterable[GroupKind]) -> tuple[list[ResourceKind], dict[str, str]]:
    """Return the readable kinds of foreign owners, and, by `Kind.group`, why other kinds are unreadable."""
    kinds, unread = [], {}
    for name, group in sorted(owners):
        try:
            kinds.append(find_owner_kind(transport, name, group))
        except (OwnerKindUnreadError, ClusterError) as error:
            unread[f"{name}.{group}"] = str(error)
    return kinds, unread


def _explain(kind: ResourceKind, error: ClusterError) -> str:
    is_forbidden = isinstance(error, RequestRefused) and error.status in FORBIDDEN
    return explain_forbidden(kind) if is_forbidden else str(error)


def read_reduced(
    transport: Transport, owners: Iterable[GroupKind] = ()
) -> tuple[list[bytes], frozenset[str], list[Fault]]:
    """List every kind once, page by page, reduced to the fields that are read; see `read_once`.

    Returns the objects, the kinds that could be listed, and the malformed objects, including unreadable owners.
    """
    items: list[bytes] = []
    known: set[str] = set()
    faults: list[Fault] = []
    configurations: list[WebhookConfiguration] = []
    for kind in (*KINDS, *_LISTED):
        try:
            for page, malformed in request_pages(transport, kind.path, partial(reduce_page, kind)):
                items += page
                faults += malformed
                if kind in WEBHOOKS:
                    decoded = (decode(kind, item, Interner()) for item in page)
                    configurations += (made for made in decoded if isinstance(made, WebhookConfiguration))
        except RequestRefused as error:
            optional = kind in OPTIONAL_KINDS or error.status in FORBIDDEN
            if kind.name in _NEEDED or not optional:
                raise
        else:
            known.add(kind.name)
    owned, unreadable = _reduce_owners(transport, owners)
    items += owned
    faults += unreadable
    if known >= _WEBHOOK_NAMES:
        slices = _reduce_slices(transport, sorted(find_needed_services(configurations)))
        if slices is not None:
            items += slices[0]
            faults += slices[1]
            known.add(ENDPOINT_SLICES.name)
    return items, frozenset(known), faults


def _reduce_slices(transport: Transport, services: Iterable[Service]) -> tuple[list[bytes], list[Fault]] | None:
    """Return the reduced slices of these Services, and the malformed ones; None unless all could be listed."""
    items: list[bytes] = []
    faults: list[Fault] = []
    try:
        for service in services:
            path, query = select_service(service)
            read = partial(reduce_page, ENDPOINT_SLICES)
            for page, malformed in request_pages(transport, path, read, query, LIST_SECONDS):
                items += page
                faults += malformed
    except ClusterError:
        return None
    return items, faults


def _list_slices_into(gathered: DecodedObjects, transport: Transport) -> bool:
    """List the slices of the Services that must answer, if all can be listed; return whether they may be."""
    services = find_needed_services(gathered.objects[WEBHOOKS[0].field])
    try:
        slices = [list_slices(transport, service) for service in sorted(services)]
    except ClusterError as error:
        return not isinstance(error, RequestRefused) or error.status not in FORBIDDEN
    gathered.objects[ENDPOINT_SLICES.field].extend(made for listed in slices for made in listed.objects)
    gathered.faults.extend(fault for listed in slices for fault in listed.faults)
    gathered.kinds.add(ENDPOINT_SLICES.name)
    return True


def _list_into(gathered: DecodedObjects, transport: Transport, kind: ResourceKind, intern: Interner) -> None:
    for page in read_pages(transport, kind, kind.path, intern=intern):
        gathered.objects[kind.field].extend(page.objects)
        gathered.faults.extend(page.faults)
    gathered.kinds.add(kind.name)
