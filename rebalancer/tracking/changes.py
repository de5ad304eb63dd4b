"""Changes between two snapshots that can violate a spread constraint, stored for an hour.

If a pod goes minutes after its Deployment was scaled down, or is replaced minutes after its node was lost, a snapshot
no longer shows why. The stored changes are few and bounded, because they outlive the process.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from rebalancer.model.moves import Memory, ObservedChange
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import ViolationCause
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import reference_of

CHANGE_LIFETIME: Final = timedelta(hours=1)
"""How long a change counts as a possible cause of newly seen violations."""

_ON_EVERY_NODE: Final = frozenset({"DaemonSet", "Node"})
"""Kinds of owners whose pods are deleted together with their node."""

MOST_CHANGES: Final = 300
"""Up to this many changes are stored, the newest."""


def observe_changes(
    memory: Memory, before: Snapshot | None, after: Snapshot, keys: Iterable[str]
) -> tuple[ObservedChange, ...]:
    """Return the changes to store: those of the last hour, then those between the two snapshots; the newest last.

    `keys` are the topology keys of interest. Without an earlier snapshot no new change is observed.
    """
    now = after.taken_at
    known = {
        (change.cause, change.subject): structs.replace(change, at=min(change.at, now))
        for change in memory.changes
        if now - change.at < CHANGE_LIFETIME
    }
    if before is not None and not before.holds_same(after):  # mostly they are equal, and comparing pods is slow
        interesting = sorted(keys)
        new = [
            *_workload_changes(before, after),
            *_pod_changes(before, after),
            *_node_changes(before, after, interesting),
        ]
        deleted = {
            (ViolationCause.NODE_LOST, domain_subject(key, value))
            for key in interesting
            for value in _values(_nodes_deleted(before, after), key)
        }
        deleted |= {key for key, change in known.items() if change.deleted and not _is_replaced(change, before)}
        back = {key: change.back_at for key, change in known.items() if change.back_at is not None}
        back |= {(ViolationCause.DOMAIN_RETURNED, subject): now for subject in _lost_subjects(memory)}
        known |= {key: ObservedChange(*key, now, deleted=key in deleted, back_at=back.get(key)) for key in new}
    return tuple(sorted(known.values(), key=_sort_key)[-MOST_CHANGES:])


def _is_replaced(change: ObservedChange, snapshot: Snapshot) -> bool:
    """Return whether a domain that has lost a node to deletion has a node that was created since."""
    key, _, value = change.subject.partition("=")
    return any(node.created > change.at for node in snapshot.nodes if node.labels.get(key) == value)


def _sort_key(change: ObservedChange) -> tuple[datetime, str, str]:
    return change.at, change.cause, change.subject


def domain_subject(key: str, value: str) -> str:
    """Return the subject of a change to a domain."""
    return f"{key}={value}"


def _lost_subjects(memory: Memory) -> Iterator[str]:
    """Yield the domains that were lost as a whole: their last node that took pods is gone or not Ready."""
    yield from (domain_subject(loss.key, loss.value) for loss in memory.lost if loss.whole)
    newest = max((zone.last for zone in memory.zones), default=None)
    yield from (domain_subject(zone.key, zone.zone) for zone in memory.zones if zone.last != newest)


def _workload_changes(before: Snapshot, after: Snapshot) -> Iterator[tuple[ViolationCause, str]]:
    """Yield workloads that were scaled down or whose template changed."""
    for workload in after.workloads:
        old = before.workload.get(workload.uid)
        if old is workload:
            continue
        top = after.workload.get(workload.owner.uid, workload) if workload.owner is not None else workload
        if old is None:
            # A new ReplicaSet of a known Deployment; the first ReplicaSet is no rollout.
            if top is not workload and before.owned_by.get(top.uid):
                yield ViolationCause.ROLLOUT, str(reference_of(top))
            continue
        if top is workload and workload.replicas < old.replicas:
            yield ViolationCause.SCALE_DOWN, str(reference_of(workload))
        if workload.revision != old.revision:
            yield ViolationCause.ROLLOUT, str(reference_of(top))


def _pod_changes(before: Snapshot, after: Snapshot) -> Iterator[tuple[ViolationCause, str]]:
    """Yield the workloads that have a running pod whose labels changed."""
    earlier = before.pod
    for pod in after.pods:
        old = earlier.get(pod.uid)
        # The zone and region of its node are written onto a pod when it is bound.
        if old is not None and old is not pod and old.node is not None and old.labels != pod.labels:
            top = after.top_owner_of(pod)
            if top is not None:
                yield ViolationCause.LABELS_CHANGED, str(reference_of(top))


def _node_changes(before: Snapshot, after: Snapshot, keys: Iterable[str]) -> Iterator[tuple[ViolationCause, str]]:
    """Yield domains that lost a node, whose nodes are back, or whose nodes changed the label.

    The nodes are back if the domain had no node that takes pods, or if all nodes that took none now do.
    """
    lost, came = _nodes_lost(before, after), _nodes_lost(after, before)
    lost += _nodes_deleted(before, after)
    relabelled = [
        (before.node[name], node)
        for name, node in after.node.items()
        if name in before.node and before.node[name].labels is not node.labels
    ]
    if not lost and not came and not relabelled:
        return
    for key in keys:
        served = {node.labels.get(key) for node in before.nodes if node.takes_pods} if came else set()
        back = {*_values((node for node in came if node.name in before.node), key)}
        back -= {node.labels.get(key, "") for node in after.nodes if not node.takes_pods} if back else set()
        yield from ((ViolationCause.NODE_LOST, domain_subject(key, value)) for value in _values(lost, key))
        yield from (
            (ViolationCause.DOMAIN_RETURNED, domain_subject(key, value))
            for value in _values(came, key)
            if value not in served or value in back
        )
        for old, new in relabelled:
            yield from _label_changes(key, old.labels, new.labels)


def _nodes_lost(before: Snapshot, after: Snapshot) -> list[Node]:
    """Return the nodes that took pods before and no longer do, or are gone."""
    return [node for name, node in before.node.items() if node.takes_pods and not _takes_pods(after.node.get(name))]


def _nodes_deleted(before: Snapshot, after: Snapshot) -> list[Node]:
    """Return the nodes that are gone and whose pods counted until then: they took pods, or were not Ready.

    A node that was cordoned was already lost, and drained. Pods of DaemonSets and static pods do not count, because
    each node has its own.
    """
    gone = [node for name, node in before.node.items() if name not in after.node and not node.unschedulable]
    silent = {node.name for node in gone if not node.ready}
    held = {pod.node for pod in before.pods if pod.node in silent and _counts(pod)} if silent else set()
    return [node for node in gone if node.takes_pods or node.name in held]


def _counts(pod: Pod) -> bool:
    return not pod.finished and pod.owner is not None and pod.owner.kind not in _ON_EVERY_NODE


def _values(nodes: Iterable[Node], key: str) -> Iterator[str]:
    """Yield the domain of each node that has the label."""
    return (node.labels[key] for node in nodes if key in node.labels)


def _label_changes(key: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[tuple[ViolationCause, str]]:
    if old.get(key) != new.get(key):
        for labels in (old, new):
            if key in labels:
                yield ViolationCause.LABELS_CHANGED, domain_subject(key, labels[key])


def _takes_pods(node: Node | None) -> bool:
    return node is not None and node.takes_pods
