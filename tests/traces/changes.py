"""What happens in a namespace, as a sequence of changes: read from the API server's own watch, in its own order."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from rebalancer.model.snapshot import Snapshot
from tests.control_plane.settling import condition


class What(StrEnum):
    """The kinds of changes."""

    CREATED = "created"
    BOUND = "bound"
    READY = "ready"
    TERMINATING = "terminating"
    GONE = "gone"
    SCALED = "scaled"
    CORDONED = "cordoned"


class Change(NamedTuple):
    """One change. `uid` is the pod's or the owner's; `detail` the node, the pod's name or the number of replicas."""

    what: What
    uid: str
    detail: str = ""
    owner: str = ""
    """The UID of a new pod's controller."""
    at: datetime | None = None
    """About when, where the object says it."""


class Trace(NamedTuple):
    """An episode: the state before it, the pods for which an eviction or a deletion was granted, and what happened."""

    before: Snapshot
    evicted: frozenset[str]
    deleted: frozenset[str]
    changes: tuple[Change, ...]


def read_changes(events: Iterable[dict[str, Any]], known: Snapshot) -> tuple[Change, ...]:
    """Return the changes in watch events of pods, owners and nodes, in the order of their versions."""
    ordered = sorted(events, key=lambda event: int(event["object"]["metadata"]["resourceVersion"]))
    seen: dict[str, set[What]] = {
        pod.uid: {What.CREATED, What.BOUND, What.READY} if pod.ready else {What.CREATED} for pod in known.pods
    }
    replicas = {owner.uid: owner.replicas for owner in known.workloads}
    results: list[Change] = []
    for event in ordered:
        thing = event["object"]
        uid = thing["metadata"]["uid"]
        if thing["kind"] == "Pod":
            results += _of_pod(event["type"], thing, seen.setdefault(uid, set()))
        elif thing["kind"] == "Node":
            if thing["spec"].get("unschedulable") and What.CORDONED not in seen.setdefault(uid, set()):
                seen[uid].add(What.CORDONED)
                results.append(Change(What.CORDONED, uid, thing["metadata"]["name"]))
        elif replicas.get(uid) != thing["spec"]["replicas"]:
            replicas[uid] = thing["spec"]["replicas"]
            results.append(Change(What.SCALED, uid, str(replicas[uid])))
    return tuple(results)


def _of_pod(kind: str, pod: dict[str, Any], seen: set[What]) -> list[Change]:
    metadata, uid = pod["metadata"], pod["metadata"]["uid"]
    owner = next((reference["uid"] for reference in metadata.get("ownerReferences", ())), "")
    deleted = metadata.get("deletionTimestamp")
    at = None
    if deleted:
        grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds", 0))
        at = datetime.fromisoformat(deleted) - grace
    states = {
        What.CREATED: (True, metadata["name"]),
        What.BOUND: (bool(pod["spec"].get("nodeName")), pod["spec"].get("nodeName", "")),
        What.READY: (condition(pod, "Ready") == "True" and not deleted, ""),
        What.TERMINATING: (bool(deleted) and bool(pod["spec"].get("nodeName")), ""),
        What.GONE: (kind == "DELETED", ""),
    }
    results = [
        Change(what, uid, detail, owner, at) for what, (holds, detail) in states.items() if holds and what not in seen
    ]
    seen.update(change.what for change in results)
    return results
