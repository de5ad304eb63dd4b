"""Reads a snapshot from files.

The time of a snapshot is the newest timestamp of a past event in the files. Nodes renew their heartbeats every few
minutes, so for a whole cluster this is close. Deletion timestamps do not count, because they lie in the future by the
pod's grace period. A kind that the file does not contain is unknown, not empty; a warning names it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from rebalancer.adapters.files.encodings import UnreadableSnapshot, read_documents
from rebalancer.decoding.lists import FileContents, UnreadableList, decode_file, make_snapshot, reduce_file
from rebalancer.decoding.wholeness import Doubts, find_left_behind
from rebalancer.decoding.wire import Head
from rebalancer.model.cluster import Version
from rebalancer.model.snapshot import TIMELESS, Snapshot
from rebalancer.model.words import name_list, plural

KUBECTL_COMMAND: Final = (
    "kubectl get pods,nodes,namespaces,replicasets,deployments,statefulsets,replicationcontrollers,services,pdb,pv,pvc,"
    "storageclasses,csinodes,priorityclasses -A -o json"
)
"""The command that prints all kinds that are read."""

FAR_APART: Final = timedelta(minutes=10)
"""Several kubectl runs for one cluster take less than this, and nodes renew their heartbeats more often."""

_NEEDED_FOR: Final[Mapping[str, str]] = {
    "Pod": "everything",
    "Node": "domains",
    "PodDisruptionBudget": "disruption budgets",
    "ReplicaSet": "replacements",
    "Deployment": "replacements",
    "StatefulSet": "replacements",
    "ReplicationController": "replacements",
    "Namespace": "namespace annotations and selectors",
    "Service": "default constraints",
    "PersistentVolume": "volumes",
    "PersistentVolumeClaim": "volumes",
    "StorageClass": "volumes",
    "CSINode": "volume limits",
    "PriorityClass": "priorities",
}
"""The kinds that are read, and what each is needed for."""

_TIME: Final = re.compile(
    # Begins with a literal that all names share, with the rest in a look-behind: a search at memory speed, no parsing.
    # Quotes inside of strings are escaped in JSON, so only fields match.
    rb'Time(?:(?<="creationTime)stamp|(?<="lastTransitionTime)|(?<="lastHeartbeatTime)|(?<="startTime))'
    rb'":\s*"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?Z"'
)


def _has_claims(snapshot: Snapshot) -> bool:
    return any(pod.claims for pod in snapshot.pods)


def _has_owners(kind: str) -> Callable[[Snapshot], bool]:
    return lambda snapshot: any(pod.owner is not None and pod.owner.kind == kind for pod in snapshot.pods)


def _has_deployments(snapshot: Snapshot) -> bool:
    if "ReplicaSet" in snapshot.unknown:
        return _has_owners("ReplicaSet")(snapshot)
    return any(owned.owner is not None and owned.owner.kind == "Deployment" for owned in snapshot.workloads)


def _has_default_constraints(snapshot: Snapshot) -> bool:
    """Return whether a pod has no constraint of its own: the scheduler's defaults select what its Services select."""
    return any(pod.owner is not None and not pod.spec.spread for pod in snapshot.pods)


def _always(_: Snapshot) -> bool:
    return True


_MATTERS: Final[Mapping[str, Callable[[Snapshot], bool]]] = {
    **dict.fromkeys(("PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode"), _has_claims),
    **{kind: _has_owners(kind) for kind in ("ReplicaSet", "StatefulSet", "ReplicationController")},
    "Deployment": _has_deployments,
    "Service": _has_default_constraints,
}
"""For each kind of which a cluster may have no objects, whether an answer depends on the kind."""


class SnapshotFile(NamedTuple):
    """The bytes of a file, and its name in messages."""

    source: str
    data: bytes


def read_snapshot(
    data: bytes, *, version: Version, at: datetime | None, source: str
) -> tuple[Snapshot, tuple[str, ...]]:
    """Read a file as `kubectl` prints it, in JSON or YAML; see `read_snapshots`."""
    return read_snapshots([SnapshotFile(source, data)], version=version, at=at)


def read_snapshots(
    files: Sequence[SnapshotFile], *, version: Version, at: datetime | None
) -> tuple[Snapshot, tuple[str, ...]]:
    """Read files of one cluster, lists or objects as `kubectl get` prints them; return the snapshot and the warnings.

    `at` is when they were made (None: the newest time in them). A malformed object is left out with a warning; a
    document that has no Kubernetes objects raises UnreadableSnapshot, and so do files that are certainly not the whole
    of one cluster at one time. An object that comes more than once counts once.
    """
    contents, documents = _read_files(files)
    gathered = decode_file(contents)
    doubts = _weigh(gathered.doubts, contents, documents)
    taken_at = at or find_newest_time(documents)
    source = files[0].source if len(files) == 1 else f"the {len(files)} files together"
    contains, has = ("contains", "has") if len(files) == 1 else ("contain", "have")
    warnings = [*doubts, *(f"left out: {fault}" for fault in gathered.faults)]
    if gathered.doubled:
        again = f"{plural(gathered.doubled, 'object')} {'comes' if gathered.doubled == 1 else 'come'} more than once"
        warnings.append(f"{source}: {again}; each counts once, as its newest version is")
    if not any(gathered.objects.values()):
        warnings.append(f"{source} {contains} no objects of a supported kind: there is nothing to evaluate")
    elif taken_at is None:
        warnings.append(f"{source} {contains} no timestamp: ages are not evaluated; pass the time with --at")
    result = make_snapshot(
        gathered.objects,
        taken_at=taken_at or TIMELESS,
        known=gathered.kinds,
        version=version,
        faults=gathered.faults,
        team_maps=gathered.team_maps,
    )
    result = replace(result, unread_owners=gathered.unread_owners)
    gap = describe_missing_kinds(result)
    if gap:
        warnings.append(f"{source} {has} no {gap}; add them to the kubectl command for exact results")
    return result, tuple(warnings)


class ReducedFiles(NamedTuple):
    """Files reduced to the fields that are read: their objects, the kinds that they contain, and the warnings.

    `taken_at` is their time in RFC 3339, "" without one.
    """

    items: list[bytes]
    kinds: frozenset[str]
    warnings: list[str]
    taken_at: str


def reduce_snapshots(files: Sequence[SnapshotFile]) -> ReducedFiles:
    """Reduce files that `read_snapshots` reads to the fields that are read; raise the same errors."""
    contents, documents = _read_files(files)
    reduced = reduce_file(contents)
    warnings = _weigh(reduced.doubts, contents, documents)
    warnings += [f"left out: {fault}" for fault in reduced.faults]
    newest = find_newest_time(documents)
    return ReducedFiles(
        reduced.items, reduced.kinds, warnings, f"{newest:%Y-%m-%dT%H:%M:%SZ}" if newest is not None else ""
    )


def _weigh(doubts: Doubts, contents: FileContents, documents: Sequence[bytes]) -> list[str]:
    """Raise UnreadableSnapshot if an answer from these files would be wrong; return warnings if it may be wrong."""
    warnings = list(doubts.warnings)
    for change in doubts.changes:
        first, last = (find_newest_time([documents[number]]) for number in (change.older, change.newer))
        if first is None or last is None or abs(last - first) < FAR_APART:
            continue
        said = f"two dumps of one cluster, of {first:%Y-%m-%d %H:%M} and {last:%Y-%m-%d %H:%M} ({change.what})"
        left = find_left_behind(contents.look_at_items(), change)
        if left:
            lost = f"{plural(len(left), 'pod')} of the older one ({name_list(map(str, left))})"
            doubts.refuse(f"{said}: the newer one no longer has {lost}; give the newer one alone")
        warnings.append(f"{said}: what was deleted in between still counts; give the newer one alone")
    if doubts.refusal:
        raise UnreadableSnapshot(doubts.refusal)
    return warnings


def _read_files(files: Iterable[SnapshotFile]) -> tuple[FileContents, list[bytes]]:
    """Return the objects of files, and the documents that they are from."""
    contents = FileContents()
    read = []
    for file in files:
        for document in read_documents(file.data, file.source):
            try:
                contents.add(document, file.source)
            except UnreadableList as error:
                what = _describe_document(document, error)
                raise UnreadableSnapshot(f"{file.source}: {what}; expected what {KUBECTL_COMMAND} prints") from None
            except (msgspec.DecodeError, RecursionError) as error:
                raise UnreadableSnapshot(
                    f"{file.source}: one of its items is not a Kubernetes object ({error})"
                ) from None
            read.append(document)
    return contents, read


def _describe_document(document: bytes, error: UnreadableList) -> str:
    """Say what a document without a cluster's objects is, most likely another object or a broken file."""
    try:
        kind = msgspec.json.decode(document, type=Head).kind
    except msgspec.ValidationError:
        return "it is not a Kubernetes object"
    if kind and not kind.endswith("List"):
        return f"it is a single {kind}"
    return str(error)


def describe_missing_kinds(snapshot: Snapshot) -> str:
    """List the unknown kinds that an answer depends on, in the plural, and what needs them; "" without any.

    A cluster without StatefulSets prints none, although the command names the kind. So a kind is missing only if a pod
    needs it.
    """
    kinds: dict[str, list[str]] = {}
    for kind in _NEEDED_FOR:
        if kind in snapshot.unknown and _MATTERS.get(kind, _always)(snapshot):
            kinds.setdefault(_NEEDED_FOR[kind], []).append(kind)
    return ", ".join(f"{', '.join(map(_plural, named))} ({use})" for use, named in kinds.items())


def _plural(kind: str) -> str:
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def find_newest_time(documents: Iterable[bytes]) -> datetime | None:
    """Return the newest time in JSON documents of Kubernetes objects, None if there is none."""
    found = {match[1] for document in documents for match in _TIME.finditer(document)}
    for written in sorted(found, reverse=True):
        try:
            return datetime.fromisoformat(written.decode()).replace(tzinfo=UTC)
        except ValueError:  # the 31st of February: the object with it is reported when it is decoded
            continue
    return None
