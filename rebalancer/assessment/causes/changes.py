"""What happened to a cluster between two looks at it, as far as it can upset a spread: remembered for an hour.

A pod that vanishes minutes after its Deployment was scaled down, or is made anew minutes after its node was lost,
shows nothing of the reason any more. What is kept is small and bounded, since it outlives the process.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from rebalancer.assessment.controllers import reference_of
from rebalancer.model.moves import Memory, ObservedChange
from rebalancer.model.nodes import Node
from rebalancer.model.reasons import ViolationCause
from rebalancer.model.snapshot import Snapshot

REMEMBERED: Final = timedelta(hours=1)
"""How long a change may be the cause of a violation that is seen only now."""

MOST: Final = 300
"""Changes that are remembered, the newest."""


def changes(
    memory: Memory, before: Snapshot | None, after: Snapshot, keys: Iterable[str]
) -> tuple[ObservedChange, ...]:
    """Return the changes to remember: those of the last hour, and those between two snapshots, the newest last.

    `keys` are the topology keys that matter. Without an earlier snapshot nothing new is seen.
    """
    now = after.taken_at
    known = {(each.cause, each.subject): min(each.at, now) for each in memory.changes if now - each.at < REMEMBERED}
    if before is not None:
        found = [*_of_workloads(before, after), *_of_pods(before, after), *_of_nodes(before, after, sorted(keys))]
        known |= dict.fromkeys(found, now)
    made = sorted((ObservedChange(cause, subject, at) for (cause, subject), at in known.items()), key=_age)
    return tuple(made[-MOST:])


def _age(change: ObservedChange) -> tuple[datetime, str, str]:
    return change.at, change.cause, change.subject


def domain(key: str, value: str) -> str:
    """Name a domain as a change does."""
    return f"{key}={value}"


def _of_workloads(before: Snapshot, after: Snapshot) -> Iterator[tuple[ViolationCause, str]]:
    for each in after.workloads:
        old = before.workload.get(each.uid)
        if old is each:
            continue
        top = after.workload.get(each.owner.uid, each) if each.owner is not None else each
        if old is None:
            if top is not each and top.uid in before.workload:  # another ReplicaSet of a known Deployment
                yield ViolationCause.ROLLOUT, str(reference_of(top))
            continue
        if top is each and each.replicas < old.replicas:
            yield ViolationCause.SCALE_DOWN, str(reference_of(each))
        if each.revision != old.revision:
            yield ViolationCause.ROLLOUT, str(reference_of(top))


def _of_pods(before: Snapshot, after: Snapshot) -> Iterator[tuple[ViolationCause, str]]:
    """Yield the workloads of which a running pod carries other labels than before."""
    earlier = before.pod
    for pod in after.pods:
        old = earlier.get(pod.uid)
        # The zone and region of its node are written onto a pod when it is bound.
        if old is not None and old is not pod and old.node is not None and old.labels != pod.labels:
            top = after.top_owner_of(pod)
            if top is not None:
                yield ViolationCause.LABELS_CHANGED, str(reference_of(top))


def _of_nodes(before: Snapshot, after: Snapshot, keys: Iterable[str]) -> Iterator[tuple[ViolationCause, str]]:
    """Yield domains that lost a node, that have one again after a time without, and whose nodes changed their label."""
    lost = [node for name, node in before.node.items() if _takes(node) and not _takes(after.node.get(name))]
    came = [node for name, node in after.node.items() if _takes(node) and not _takes(before.node.get(name))]
    changed = [
        (before.node[name], node)
        for name, node in after.node.items()
        if name in before.node and before.node[name].labels is not node.labels
    ]
    if not lost and not came and not changed:
        return
    for key in keys:
        there = {node.labels[key] for node in before.nodes if key in node.labels and _takes(node)} if came else set()
        yield from ((ViolationCause.NODE_LOST, domain(key, node.labels[key])) for node in lost if key in node.labels)
        for node in came:
            value = node.labels.get(key)
            if value is not None and value not in there:
                yield ViolationCause.DOMAIN_RETURNED, domain(key, value)
        for old, new in changed:
            yield from _relabelled(key, old.labels, new.labels)


def _relabelled(key: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[tuple[ViolationCause, str]]:
    if old.get(key) != new.get(key):
        for labels in (old, new):
            if key in labels:
                yield ViolationCause.LABELS_CHANGED, domain(key, labels[key])


def _takes(node: Node | None) -> bool:
    """Say whether a node takes pods, as far as it decides itself."""
    return node is not None and node.ready and not node.unschedulable
