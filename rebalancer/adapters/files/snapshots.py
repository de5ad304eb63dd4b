"""Reads a snapshot from a file."""

from datetime import datetime
from typing import Final

import msgspec

from rebalancer.adapters.files.encodings import UnreadableSnapshot, convert_to_json
from rebalancer.adapters.files.gaps import describe_missing_kinds
from rebalancer.adapters.files.times import find_newest_time
from rebalancer.decoding.lists import UnreadableList, decode_file, make_snapshot
from rebalancer.decoding.wire import Head
from rebalancer.model.cluster import Version
from rebalancer.model.snapshot import TIMELESS, Snapshot

KUBECTL_COMMAND: Final = (
    "kubectl get pods,nodes,namespaces,replicasets,deployments,statefulsets,replicationcontrollers,services,pdb,pv,pvc,"
    "storageclasses,csinodes,priorityclasses -A -o json"
)
"""The command that prints all kinds that are read."""


def read_snapshot(
    data: bytes, *, version: Version, at: datetime | None, source: str
) -> tuple[Snapshot, tuple[str, ...]]:
    """Read a `List` in JSON or YAML, as `kubectl get` prints it; return the snapshot and the warnings.

    `at` is when it was taken (None: the newest time in it), `source` the file's name in messages. A malformed object is
    left out with a warning; a document that is not a list raises UnreadableSnapshot.
    """
    document = convert_to_json(data, source)
    try:
        gathered = decode_file(document)
    except UnreadableList as error:
        what = _describe_document(document, error)
        raise UnreadableSnapshot(f"{source}: {what}; expected what {KUBECTL_COMMAND} prints") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableSnapshot(f"{source}: one of its items is not a Kubernetes object ({error})") from None
    taken_at = at or find_newest_time(document)
    warnings = [f"left out: {fault}" for fault in gathered.faults]
    if not any(gathered.objects.values()):
        warnings.append(f"{source} contains no objects of a supported kind: there is nothing to evaluate")
    elif taken_at is None:
        warnings.append(f"{source} contains no timestamp: ages are not evaluated; pass the time with --at")
    result = make_snapshot(
        gathered.objects,
        taken_at=taken_at or TIMELESS,
        known=gathered.kinds,
        version=version,
        faults=gathered.faults,
    )
    gap = describe_missing_kinds(result.unknown)
    if gap:
        warnings.append(f"{source} has no {gap}; add them to the kubectl command for exact results")
    return result, tuple(warnings)


def _describe_document(document: bytes, error: UnreadableList) -> str:
    """Say what a document is that is not a list; a single object and a broken file are the likely mistakes."""
    try:
        kind = msgspec.json.decode(document, type=Head).kind
    except msgspec.ValidationError:
        return "it is not a Kubernetes object"
    except msgspec.DecodeError as broken:
        return f"it is invalid JSON ({broken})"
    if kind and not kind.endswith("List"):
        return f"it is a single {kind}"
    return str(error)
