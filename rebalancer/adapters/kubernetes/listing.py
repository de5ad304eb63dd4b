"""A cluster that is listed once, for commands that only read: nothing is watched, nothing is written."""

from dataclasses import replace
from datetime import datetime
from functools import partial

import msgspec

from rebalancer.adapters.kubernetes.pages import read_pages, request_pages
from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Transport
from rebalancer.decoding.kinds import AUTOSCALERS, KINDS, OPTIONAL_KINDS, ResourceKind
from rebalancer.decoding.lists import DecodedObjects, make_snapshot, reduce_page
from rebalancer.model.cluster import Version
from rebalancer.model.snapshot import Fault, Snapshot

FORBIDDEN = frozenset({401, 403})
_NEEDED = frozenset({"Pod", "Node"})


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


def read_once(transport: Transport, now: datetime, *, autoscalers: bool = False) -> Snapshot:
    """List every kind once, for a command that only reads; HorizontalPodAutoscalers if they are wanted.

    A kind that may not be listed is unknown, as if a file did not contain it; pods and nodes are required. An optional
    kind need not be served.
    """
    gathered = DecodedObjects()
    version = server_version(transport)
    for kind in KINDS:
        try:
            _list_into(gathered, transport, kind)
        except RequestRefused as error:
            if kind.name in _NEEDED or error.status not in FORBIDDEN:
                raise
    forbidden = set()
    for kind in OPTIONAL_KINDS:
        if kind is AUTOSCALERS and not autoscalers:
            continue
        try:
            _list_into(gathered, transport, kind)
        except RequestRefused as error:
            if error.status in FORBIDDEN and kind is not AUTOSCALERS:
                forbidden.add(kind.name)
    made = make_snapshot(gathered.objects, taken_at=now, known=gathered.kinds, version=version, faults=gathered.faults)
    return replace(made, unknown=made.unknown | forbidden)


def read_reduced(transport: Transport) -> tuple[list[bytes], frozenset[str], list[Fault]]:
    """List every kind once, page by page, reduced to the fields that are read.

    Returns the objects, the kinds that could be listed, and the malformed objects.
    """
    items: list[bytes] = []
    known: set[str] = set()
    faults: list[Fault] = []
    for kind in (*KINDS, *OPTIONAL_KINDS):
        try:
            for page, malformed in request_pages(transport, kind.path, partial(reduce_page, kind)):
                items += page
                faults += malformed
        except RequestRefused as error:
            optional = kind in OPTIONAL_KINDS or error.status in FORBIDDEN
            if kind.name in _NEEDED or not optional:
                raise
        else:
            known.add(kind.name)
    return items, frozenset(known), faults


def _list_into(gathered: DecodedObjects, transport: Transport, kind: ResourceKind) -> None:
    for page in read_pages(transport, kind, kind.path):
        gathered.objects[kind.field].extend(page.objects)
        gathered.faults.extend(page.faults)
    gathered.kinds.add(kind.name)
