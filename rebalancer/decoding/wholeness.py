"""Checks whether the objects of files are those of one whole cluster at one time.

A page of a list, a dump of one namespace, objects without their status, and unrelated dumps look like a cluster, but
lead to wrong answers: nodes seem free, workloads smaller, pods without a node. If the objects alone prove this, the
files are refused (`refusal`). If it is only possible, it is reported (`warnings`): a test cluster may well have one
namespace.

Fields that the API server always sets show what was removed: `status.phase` of pods, `status.allocatable` of nodes, the
UID of owners.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from rebalancer.decoding import bounds, wire
from rebalancer.model.words import name_list, plural

_OWNERS: Final = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})
_COUNTING: Final = _OWNERS | {"Deployment", "DaemonSet", "Job", "PodDisruptionBudget"}
"""The kinds whose status counts pods."""
_PHASE: Final = "status.phase"
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


class SeenMetadata(wire.Identity.Names, frozen=True):
    """The identity and the owners of an object."""

    owner_references: object = None


class SeenSpec(wire.Wire, frozen=True):
    """The node of a pod."""

    node_name: object = ""


class SeenStatus(wire.Wire, frozen=True):
    """Fields that the status of a pod or a node always has, and the counts in the status of controllers."""

    phase: object = ""
    allocatable: object = None
    replicas: object = 0
    current_number_scheduled: object = 0
    current_healthy: object = 0
    active: object = 0


class Sight(wire.Wire, frozen=True):
    """The fields of any object that show what it is, and whether something was removed from it."""

    metadata: SeenMetadata = SeenMetadata()
    spec: SeenSpec | None = None
    status: SeenStatus | None = None

    @property
    def counted_pods(self) -> int:
        """How many pods the controller of this object has counted, at least."""
        status = self.status or SeenStatus()
        counts = (status.replicas, status.current_number_scheduled, status.current_healthy, status.active)
        return max((count for count in counts if isinstance(count, int)), default=0)


class Malformed(Sight, frozen=True):
    """An object that is reported as malformed; at most its names can be read."""


class _Named(wire.Wire, frozen=True):
    metadata: SeenMetadata = SeenMetadata()


_SIGHT: Final = msgspec.json.Decoder(Sight)
_NAMED: Final = msgspec.json.Decoder(_Named)


def look_at(item: msgspec.Raw) -> Sight:
    """Return the sight of an object."""
    try:
        return _SIGHT.decode(item)
    except msgspec.ValidationError:
        pass
    try:
        return Malformed(metadata=_NAMED.decode(item).metadata)
    except msgspec.ValidationError:
        return Malformed()


class Place(NamedTuple):
    """Where an object was read: the document by its number, and the name of its file.

    `is_listed`: in a list, which shows one moment. A watch shows objects one by one, at different times. `is_reduced`:
    in a list of `rebalancer snapshot`.
    """

    document: int
    source: str
    is_listed: bool = False
    is_reduced: bool = False


class ReadPage(NamedTuple):
    """A list that was read: the token of its next page, and how many objects remain by its metadata."""

    source: str
    of: tuple[str, str, str]
    """Kind, API version and resourceVersion, which the pages of one list have in common."""
    objects: int
    token: str
    remaining: int


class Seen(NamedTuple):
    """One object that counts."""

    kind: str
    sight: Sight
    place: Place

    @property
    def namespace(self) -> str:
        """Its namespace, "" for a node."""
        return str(self.sight.metadata.namespace)

    def __str__(self) -> str:
        """Name it as kubectl does."""
        name = str(self.sight.metadata.name)
        return f"{self.namespace}/{name}" if self.namespace else name


class Change(NamedTuple):
    """An object that two documents show in two versions: the documents, the older one first."""

    older: int
    newer: int
    what: str


@dataclass
class Doubts:
    """Doubts about files: why they are refused, "" if they are not, and warnings before the answer."""

    refusal: str = ""
    warnings: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    """One for each two documents."""
    began_late: Seen | None = None
    """An object whose first event in a watch is a change."""

    def refuse(self, reason: str) -> None:
        """Refuse the files; the first reason counts."""
        self.refusal = self.refusal or reason


def doubt_pages(pages: Iterable[ReadPage], doubts: Doubts) -> None:
    """Refuse lists with missing pages. Pages that were read in any order complete each other."""
    lists: dict[tuple[str, str, str], dict[str, ReadPage]] = {}
    for page in pages:
        lists.setdefault(page.of, {})[page.token] = page
    for parts in lists.values():
        first = max(parts.values(), key=lambda page: page.remaining)
        present = sum(page.objects for page in parts.values())
        rest = first.objects + first.remaining - present
        if "" in parts and rest <= 0:
            continue
        more = f"metadata.remainingItemCount: {rest} more follow" if rest > 0 else "metadata.continue is set"
        said = f"{first.source}: only {plural(present, 'object')} of a longer list ({more})"
        doubts.refuse(f"{said}; give every page with --snapshot, or write the list with kubectl get, which reads all")


def doubt_objects(objects: Sequence[Seen], doubts: Doubts) -> None:
    """Refuse objects from which fields were removed, and incomplete sets of pods; warn if that is only possible."""
    late = doubts.began_late
    if late is not None:
        doubts.warnings.append(
            f"{late.place.source}: the watch shows a change of {late.kind} {late}, which no list or event ADDED shows "
            "before; what has not changed since the watch began may be missing: give the list it began with, too"
        )
    pods = [seen for seen in objects if seen.kind == "Pod"]
    nodes = [seen for seen in objects if seen.kind == "Node"]
    if pods:
        _doubt_fields(objects, doubts)
        _doubt_nodes_of_pods(pods, nodes, doubts)
        _doubt_namespaces(objects, pods, doubts)
        _doubt_namespace(objects, len(nodes), doubts)


def _doubt_fields(objects: Sequence[Seen], doubts: Doubts) -> None:
    """Compare objects with the fields that the API server always sets: all or some objects may lack one."""
    owning = frozenset(_kinds_of_owners(objects))
    lacking: dict[tuple[str, str], list[Seen]] = {}
    numbers: Counter[tuple[str, str]] = Counter()
    for seen in objects:
        for noun, name, is_set in _fields_of(seen.kind, seen.sight, owning):
            numbers[noun, name] += 1
            if not is_set:
                lacking.setdefault((noun, name), []).append(seen)
    for (noun, name), bare in lacking.items():
        have = "has" if len(bare) == 1 else "have"
        said = (
            f"{bare[0].place.source}: {len(bare)} of {plural(numbers[noun, name], noun)} {have} no {name} "
            f"({_name(bare)}), which the API server always sets"
        )
        if len(bare) < numbers[noun, name] or name == _PHASE:
            doubts.warnings.append(f"{said}; the answer may be wrong about {'it' if len(bare) == 1 else 'them'}")
        else:
            doubts.refuse(
                f"{said}: it was removed, or these are manifests; give what kubectl get -o json prints, unchanged"
            )


def _kinds_of_owners(objects: Iterable[Seen]) -> Iterator[str]:
    """Yield the kinds that pods name as their owners."""
    for seen in objects:
        references = seen.sight.metadata.owner_references if seen.kind == "Pod" else None
        if isinstance(references, list):
            yield from (str(one.get("kind")) for one in references if isinstance(one, dict))


def _fields_of(kind: str, sight: Sight, owning: frozenset[str]) -> Iterator[tuple[str, str, bool]]:
    """Yield the fields that the API server always sets in such an object, and whether each is set.

    A pod without its status still counts if it has a node.
    """
    if isinstance(sight, Malformed):
        return
    status = sight.status or SeenStatus()
    if kind == "Pod":
        has_node = bool(_node_of(sight))
        yield "pod", "status.phase and spec.nodeName", bool(status.phase) or has_node
        yield "pod", _PHASE, bool(status.phase) or not has_node
        if status.phase == "Running":
            yield "running pod", "spec.nodeName", has_node
    elif kind == "Node":
        yield "node", "status.allocatable", bool(status.allocatable)
    elif kind in owning & _OWNERS:
        yield kind, "metadata.uid", bool(sight.metadata.uid)


def _node_of(sight: Sight) -> str:
    return str(sight.spec.node_name or "") if sight.spec is not None else ""


def _name(names: Iterable[object]) -> str:
    """Name objects or nodes, each cut to the greatest length of a name."""
    return name_list([bounds.shorten(str(name), bounds.LONGEST_NAME) for name in names])


def _doubt_nodes_of_pods(pods: Iterable[Seen], nodes: Sequence[Seen], doubts: Doubts) -> None:
    """Compare the pods' nodes with the listed nodes: some pods outlive a deleted node for a minute, but not all."""
    names = {str(node) for node in nodes}
    bound = [pod for pod in pods if _node_of(pod.sight) and not _is_finished(pod.sight)]
    strangers = [pod for pod in bound if _node_of(pod.sight) not in names]
    if not nodes or not strangers:
        return
    missing = _name(sorted({_node_of(pod.sight) for pod in strangers}))
    runs = "runs" if len(strangers) == 1 else "run"
    said = f"{len(strangers)} of {plural(len(bound), 'pod')} {runs} on nodes that are not here ({missing})"
    if len(strangers) == len(bound):
        doubts.refuse(f"{said}: pods and nodes are not of one cluster at one time; give those of one, written together")
    else:
        doubts.warnings.append(f"{said}: not all nodes were written, or these pods are of another cluster or time")


def _doubt_namespaces(objects: Iterable[Seen], pods: Iterable[Seen], doubts: Doubts) -> None:
    """Compare the namespaces of pods with those in which controllers count pods."""
    inhabited = {pod.namespace for pod in pods}
    counted: dict[str, Seen] = {}
    for seen in objects:
        if seen.kind in _COUNTING and seen.namespace not in inhabited and seen.sight.counted_pods:
            counted.setdefault(seen.namespace, seen)
    if not counted:
        return
    owner = next(iter(counted.values()))
    said = (
        f"no pod of {plural(len(counted), 'namespace')} ({_name(sorted(counted))}) is here, although the status of "
        f"{owner.kind} {owner} counts {owner.sight.counted_pods}"
    )
    if len(counted) >= len(inhabited):
        doubts.refuse(
            f"{said}: with the pods of {_name(sorted(inhabited))} alone it is not known what the nodes have free; "
            "write those of all namespaces (kubectl get -A)"
        )
    else:
        doubts.warnings.append(f"{said}: what pods that were not written take of the nodes counts as free")


def _doubt_namespace(objects: Sequence[Seen], nodes: int, doubts: Doubts) -> None:
    """Warn if all objects are of one namespace; every cluster has more, but a test may leave them out.

    With one node, unlisted pods cannot change any choice of node.
    """
    namespaces = {seen.namespace for seen in objects if seen.namespace}
    if nodes > 1 and len(namespaces) == 1 and not any(seen.place.is_reduced for seen in objects):
        doubts.warnings.append(
            f"only namespace {namespaces.pop()} has objects here: this may be the output of kubectl get without -A; "
            f"what pods of other namespaces take of {plural(nodes, 'node')} counts as free"
        )


def _is_finished(sight: Sight) -> bool:
    return sight.status is not None and sight.status.phase in _FINISHED


def is_successor(first: Seen, second: Seen, doubts: Doubts) -> bool:
    """Return whether a watch shows the second object after the first of that name; refuse two at once."""
    one_by_one = not (first.place.is_listed and second.place.is_listed)
    is_cluster = first.kind == "Namespace" and str(first) == "kube-system"  # as old as the cluster, and identifies it
    if one_by_one and first.place.source == second.place.source and not is_cluster:
        return True
    sources = (first.place.source, second.place.source)
    places = f"twice in {sources[0]}" if sources[0] == sources[1] else f"in {sources[0]} and in {sources[1]}"
    uids = f"metadata.uid {first.sight.metadata.uid} and {second.sight.metadata.uid}"
    whose = "two clusters" if is_cluster else "two clusters, or two times of one"
    doubts.refuse(
        f"{first.kind} {first} comes {places}, with {uids}: these are {whose}; give the files of one, written together"
    )
    return False


def find_left_behind(objects: Iterable[Seen], change: Change) -> list[Seen]:
    """Return the pods of an older document that are missing in a newer one with pods of their namespace."""
    uids: Mapping[int, set[str]] = {change.older: set(), change.newer: set()}
    old, listed = [], set()
    for seen in objects:
        if seen.kind == "Pod" and seen.place.document in uids:
            uids[seen.place.document].add(str(seen.sight.metadata.uid))
            if seen.place.document == change.older:
                old.append(seen)
            else:
                listed.add(seen.namespace)
    return [seen for seen in old if seen.namespace in listed and str(seen.sight.metadata.uid) not in uids[change.newer]]
