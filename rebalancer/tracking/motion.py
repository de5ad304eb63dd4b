"""Which nodes have changed lately, and which domains lose nodes.

A node may be cordoned or uncordoned, become not Ready, or change its value of a topology key. It may soon change again:
a drain goes from node to node, a reboot ends, a mistake is corrected.

A domain is in motion when it loses, within the window, at least a quarter of its nodes, and at least two (or its only
one): a zone fails or is shifted away, or several nodes are drained one after the other. A node with an autoscaler's
taint leaves as a matter of routine.

Changes are seen between two looks at the nodes, since no object says when it was uncordoned or relabelled. The first
look sees only losses whose time is on the object. The stored data is bounded: losses are dropped before changes of
labels, and settled domains before others.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.model.motion import LEAST_WINDOW, DomainMotion, NodeChange, NodeEvent
from rebalancer.model.moves import Memory
from rebalancer.model.nodes import ZONE, Node
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy
from rebalancer.tracking.zones import find_zone_keys, is_node_key

MOST_CHANGES: Final = 1_000
"""The most changes of nodes that are stored: first changes of labels, and of each kind the newest."""

MOST_DOMAINS: Final = 200
"""The most domains in motion that are stored: first those whose nodes are still away, then those that moved last."""

_MOST_NODES: Final = 20
"""The most names of lost nodes that are stored for a domain in motion."""

_PART: Final = 4
"""A domain is in motion when at least one in this many of its nodes is lost."""


class Look(NamedTuple):
    """The nodes by name as last seen, and when that was."""

    nodes: Mapping[str, Node]
    at: datetime


def find_window(policy: Policy) -> timedelta:
    """Return the window in which the lost nodes of a domain are counted, and after which it has settled."""
    return max(policy.nodes.settle, LEAST_WINDOW)


def observe_nodes(
    memory: Memory, last: Look | None, snapshot: Snapshot, policy: Policy, keys: Collection[str], now: datetime
) -> Memory:
    """Return the memory with the changes of nodes since the last look, and the domains that are in motion.

    `last` is None before the first look. `keys` are the topology keys in use.
    """
    window = find_window(policy)
    known = [
        structs.replace(change, at=min(now, change.at)) for change in memory.node_changes if now - change.at < window
    ]
    observer = _Observer(snapshot, policy, keys, now, window)
    new = observer.find_losses({change.node for change in known}) if last is None else observer.compare(last)
    if not (new or memory.node_changes or memory.domains_in_motion):
        return memory
    changes = [*known, *new]
    return structs.replace(
        memory,
        node_changes=_bound(changes, now),
        domains_in_motion=observer.follow(memory.domains_in_motion, changes, new, last),
    )


def _bound(changes: Sequence[NodeChange], now: datetime) -> tuple[NodeChange, ...]:
    """Return the changes to store, newest last.

    If too many nodes were relabelled, the oldest of these changes become one change that names no node.
    """
    ordered = sorted(changes, key=_sort_key)
    labels = [change for change in ordered if change.event is NodeEvent.RELABELLED]
    if len(labels) > MOST_CHANGES:
        return (*labels[1 - MOST_CHANGES :], NodeChange(now, "", NodeEvent.RELABELLED))
    others = [change for change in ordered if change.event is not NodeEvent.RELABELLED]
    stored = [*labels, *others[max(0, len(ordered) - MOST_CHANGES) :]]
    return tuple(sorted(stored, key=_sort_key))


def _sort_key(change: NodeChange) -> tuple[datetime, str, str, str]:
    return change.at, change.node, change.event, change.key


class _Domain(NamedTuple):
    key: str
    value: str


class _Observer:
    """Looks at the nodes of one snapshot."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, keys: Collection[str], now: datetime, window: timedelta
    ) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._keys = {ZONE, *keys}
        self._now = now
        self._window = window

    # What has changed

    def find_losses(self, known: Collection[str]) -> list[NodeChange]:
        """Return the nodes that were lost within the window, by the times on the objects, without those known."""
        lost = [
            (node, node.lost_since)
            for node in self._snapshot.nodes
            if node.lost_since is not None and node.name not in known and not node.being_removed
        ]
        recent = [(node, since) for node, since in lost if self._now - since < self._window]
        large = self._find_domain_keys() if recent else ()
        return list(chain.from_iterable(_losses(node, large, min(self._now, since)) for node, since in recent))

    def compare(self, last: Look) -> list[NodeChange]:
        """Return the changes of the nodes since the last look."""
        after = self._snapshot.node
        pairs = [(node, after.get(name)) for name, node in last.nodes.items() if after.get(name) is not node]
        if not pairs:
            return []
        large = self._find_domain_keys()
        # After a long time without a look, a deleted node may have been marked before its deletion.
        is_recent = self._now - last.at <= self._window
        return list(chain.from_iterable(self._compare(old, node, large, is_recent=is_recent) for old, node in pairs))

    def _find_domain_keys(self) -> Sequence[str]:
        """Return the keys in use whose domains hold several nodes; zone keys always count as such."""
        zone_keys, nodes = find_zone_keys(self._policy), self._snapshot.nodes
        values = {key: [node.labels[key] for node in nodes if key in node.labels] for key in {*zone_keys, *self._keys}}
        return [key for key in sorted(values) if not is_node_key(key, values[key], zone_keys)]

    # Many branches: one for each way in which a node changes.
    def _compare(self, old: Node, node: Node | None, large: Sequence[str], *, is_recent: bool) -> Iterator[NodeChange]:
        """Yield the changes of one node. A new node may have the name, and hold the pods, of an old one."""
        is_same = node is not None and node.uid == old.uid
        if not is_same and old.takes_pods and not old.being_removed and is_recent:
            yield from _losses(old, large, self._now, deleted=True)
        if node is None:
            return
        if is_same and old.takes_pods and not node.takes_pods and not node.being_removed:
            yield from _losses(node, large, self._now)
        if is_same and old.unschedulable and not node.unschedulable:
            yield NodeChange(self._now, node.name, NodeEvent.UNCORDONED)
        if old.labels is node.labels:
            return
        for key in sorted(self._keys):
            # A new node gets some of its labels after it has joined.
            is_first = is_same and key not in old.labels and self._now - node.created < self._policy.nodes.settle
            if old.labels.get(key) != node.labels.get(key) and not is_first:
                yield NodeChange(self._now, node.name, NodeEvent.RELABELLED, key, old.labels.get(key))

    # Domains in motion

    def follow(
        self,
        known: Iterable[DomainMotion],
        changes: Iterable[NodeChange],
        new: Iterable[NodeChange],
        last: Look | None,
    ) -> tuple[DomainMotion, ...]:
        """Return the domains that are in motion, or were a moment ago."""
        losses: defaultdict[_Domain, list[NodeChange]] = defaultdict(list)
        for change in changes:
            if change.event.is_loss and change.value is not None:
                losses[_Domain(change.key, change.value)].append(change)
        moving = {_Domain(motion.key, motion.value): motion for motion in known}
        lost_now = [change for change in new if change.event.is_loss]
        fresh = {_Domain(change.key, change.value) for change in lost_now if change.value is not None}
        nodes = self._group({*moving, *fresh})
        followed: list[DomainMotion] = []
        for domain in sorted({*moving, *fresh}):
            lost, old = losses[domain], moving.get(domain)
            motion = self._go_on(old, lost, nodes[domain], last) if old is not None else None
            if motion is None and domain in fresh:
                motion = self._begin(domain, lost, nodes[domain])
            if motion is not None:
                followed.append(motion)
        followed.sort(key=lambda motion: (motion.lasting, motion.moved, motion.key, motion.value))
        return tuple(followed[-MOST_DOMAINS:])

    def _group(self, domains: Collection[_Domain]) -> Mapping[_Domain, Sequence[Node]]:
        """Return the nodes by domain, for these domains."""
        keys = {domain.key for domain in domains}
        grouped: defaultdict[_Domain, list[Node]] = defaultdict(list)
        for node in self._snapshot.nodes if keys else ():
            for key in keys:
                if key in node.labels:
                    grouped[_Domain(key, node.labels[key])].append(node)
        return grouped

    def _begin(self, domain: _Domain, lost: Sequence[NodeChange], nodes: Sequence[Node]) -> DomainMotion | None:
        """Return the motion of a domain that has lost enough of the nodes that it had when the window began."""
        names = {change.node for change in lost}
        settled = {node.name for node in nodes if node.takes_pods and self._now - node.created >= self._window}
        had = len(names | settled)
        if len(names) < _threshold(had):
            return None
        last = max(change.at for change in lost)
        began = DomainMotion(
            key=domain.key,
            value=domain.value,
            since=min(change.at for change in lost),
            until=last,
            moved=last,
            lasting=False,
            had=had,
            lost=0,
        )
        motion = _count(began, lost)
        return structs.replace(motion, lasting=_is_lasting(motion, nodes))

    def _go_on(
        self, motion: DomainMotion, lost: Sequence[NodeChange], nodes: Sequence[Node], last: Look | None
    ) -> DomainMotion | None:
        """Return the motion of a domain with its further losses; None when it has settled.

        If the domain loses nodes again after its longest time, a new motion begins.
        """
        times = {name: min(self._now, getattr(motion, name)) for name in ("since", "until", "moved")}
        before = structs.replace(motion, **times)
        more = [change for change in lost if change.at > before.until]
        motion = _count(before, more)
        lasting = _is_lasting(motion, nodes)
        if _is_back(nodes, last) or (before.lasting and not lasting):
            motion = structs.replace(motion, moved=self._now)
        motion = structs.replace(motion, lasting=lasting)
        if self._now < before.latest_end:
            return None if self._now >= motion.settles_at(self._window) else motion
        if lasting and not before.lasting:
            return None  # a new motion begins
        # The motion is stored until the domain is quiet, or the next loss would begin another hour.
        return None if self._now - motion.until >= self._window and not lasting else motion


def _losses(node: Node, large: Sequence[str], at: datetime, *, deleted: bool = False) -> Iterator[NodeChange]:
    """Yield a row for each domain of each lost node; for a node without a domain, yield one row without a domain."""
    event = NodeEvent.DELETED if deleted else NodeEvent.CORDONED if node.unschedulable else NodeEvent.UNREADY
    by = node.cordoned_by if event is NodeEvent.CORDONED else ""
    domains: list[tuple[str, str | None]] = [(key, node.labels[key]) for key in large if key in node.labels]
    for key, value in domains or [("", None)]:
        yield NodeChange(at, node.name, event, key, value, by)


def _threshold(had: int) -> int:
    """Return how many of its nodes a domain loses before it is in motion."""
    return 1 if had == 1 else max(2, -(-had // _PART))


def _is_back(nodes: Iterable[Node], last: Look | None) -> bool:
    """Return whether a domain's node that took no pods at the last look takes pods now."""
    seen = last.nodes if last is not None else {}
    return any(node.takes_pods and node.name in seen and not seen[node.name].takes_pods for node in nodes)


def _is_lasting(motion: DomainMotion, nodes: Collection[Node]) -> bool:
    """Return whether enough lost nodes are still there without taking pods, and no new nodes have replaced them."""
    away = {node.name for node in nodes if not node.takes_pods}
    # If not all names are stored, nodes that are away count as lost.
    still = away if motion.lost > len(motion.nodes) else away.intersection(motion.nodes)
    fewer = motion.had - (len(nodes) - len(away))
    return min(len(still), fewer) >= _threshold(motion.had)


def _count(motion: DomainMotion, lost: Sequence[NodeChange]) -> DomainMotion:
    """Count lost nodes, each once, as far as their names are known."""
    if not lost:
        return motion
    names = sorted({change.node for change in lost} - set(motion.nodes))
    last = max(change.at for change in lost)
    return structs.replace(
        motion,
        until=last,
        moved=max(motion.moved, last),
        lost=min(motion.had, motion.lost + len(names)),
        nodes=(*motion.nodes, *names)[:_MOST_NODES],
        events=tuple(sorted({*motion.events, *(change.event for change in lost)})),
        by=tuple(sorted({*motion.by, *(change.by for change in lost if change.by)})),
    )


# What two processes have seen


def merge_motion(memory: Memory, other: Memory) -> Memory:
    """Return a memory with the changed nodes and the domains in motion that another memory has stored besides."""
    domains = {(motion.key, motion.value): motion for motion in memory.domains_in_motion}
    for motion in other.domains_in_motion:
        known = domains.get((motion.key, motion.value), motion)
        domains[motion.key, motion.value] = _unite(known, motion)
    merged = sorted(domains.values(), key=lambda motion: (motion.moved, motion.key, motion.value))
    changes = sorted({*memory.node_changes, *other.node_changes}, key=_sort_key)
    return structs.replace(memory, node_changes=tuple(changes), domains_in_motion=tuple(merged))


def _unite(one: DomainMotion, other: DomainMotion) -> DomainMotion:
    """Return the motion of a domain that two processes have seen, perhaps from different times on."""
    older, newer = sorted((one, other), key=lambda motion: (motion.moved, motion.lost))
    if (older.latest_end if older.lasting else older.moved) < newer.since:  # that motion had already ended
        return newer
    names = sorted({*one.nodes, *other.nodes})
    had = max(one.had, other.had)
    return structs.replace(
        newer,
        since=min(one.since, other.since),
        until=max(one.until, other.until),
        lasting=one.lasting or other.lasting,
        had=had,
        lost=min(had, max(one.lost, other.lost, len(names))),
        nodes=tuple(names[:_MOST_NODES]),
        events=tuple(sorted({*one.events, *other.events})),
        by=tuple(sorted({*one.by, *other.by})),
    )
