"""Which nodes have changed lately, and which domains lose nodes.

A node that becomes Ready or not Ready, is cordoned or uncordoned, or whose value of a topology key changes, may change
again in a moment: a drain goes from node to node, a reboot ends, a mistake is put right. Where two nodes of a domain
(or its only one), and at least a quarter, are lost within the window, the domain itself is in motion: a zone that
fails, a zonal shift, a drain of several nodes one after the other. A node with an autoscaler's taint goes as part of
routine.

Changes are seen between two looks at the nodes, since nothing on the object says when it was uncordoned or relabelled.
What is stored is bounded; beyond that the oldest changes are forgotten, and domains in motion last of all.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.model.motion import LEAST_WINDOW, DomainMotion, NodeChange, NodeEvent
from rebalancer.model.moves import Memory
from rebalancer.model.nodes import TO_BE_REMOVED, Node
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy
from rebalancer.scheduling.spread_constraints import ZONE
from rebalancer.tracking.zones import find_zone_keys, is_node_key

MOST_CHANGES: Final = 1_000
"""Changes of nodes that are stored, the newest."""

MOST_DOMAINS: Final = 50
"""Domains in motion that are stored, those that moved last."""

_MOST_NODES: Final = 50
"""Names of lost nodes that are stored for a domain in motion."""

_PART: Final = 4
"""A domain is in motion when it loses one of so many of its nodes."""


def find_window(policy: Policy) -> timedelta:
    """Return the window in which the lost nodes of a domain are counted, and after which it has settled."""
    return max(policy.nodes.settle, LEAST_WINDOW)


def observe_nodes(
    memory: Memory,
    before: Mapping[str, Node] | None,
    snapshot: Snapshot,
    policy: Policy,
    keys: Collection[str],
    now: datetime,
) -> Memory:
    """Return the memory with the changes of nodes since the last look, and the domains that are in motion.

    `before` are the nodes as they were then, None where nobody has looked yet. `keys` are the topology keys in use.
    """
    window = find_window(policy)
    known = [
        structs.replace(change, at=min(now, change.at)) for change in memory.node_changes if now - change.at < window
    ]
    new = [] if before is None else _find_changes(before, snapshot, policy, keys, now)
    if not (new or memory.node_changes or memory.domains_in_motion):
        return memory
    changes = [*known, *new]
    return structs.replace(
        memory,
        node_changes=tuple(sorted(changes, key=_sort_key)[-MOST_CHANGES:]),
        domains_in_motion=_follow_domains(memory.domains_in_motion, changes, new, snapshot, now, window),
    )


def _sort_key(change: NodeChange) -> tuple[datetime, str, str, str]:
    return change.at, change.node, change.event, change.key


# What has changed


def _find_changes(
    before: Mapping[str, Node], snapshot: Snapshot, policy: Policy, keys: Collection[str], now: datetime
) -> list[NodeChange]:
    after = snapshot.node
    pairs = [(node, after.get(name)) for name, node in before.items() if after.get(name) is not node]
    if not pairs:
        return []
    large = _find_domain_keys(snapshot, policy, keys)
    settle = policy.nodes.settle
    return list(chain.from_iterable(_compare(old, node, large, {ZONE, *keys}, now, settle) for old, node in pairs))


def _find_domain_keys(snapshot: Snapshot, policy: Policy, keys: Collection[str]) -> Sequence[str]:
    """Return the keys in use whose domains hold several nodes; a zone is one of several whoever uses the key."""
    zone_keys = find_zone_keys(policy)
    values = {
        key: [node.labels[key] for node in snapshot.nodes if key in node.labels] for key in {ZONE, *zone_keys, *keys}
    }
    return [key for key in sorted(values) if not is_node_key(key, values[key], zone_keys)]


# Many branches: one for each way in which a node changes.
def _compare(
    old: Node, node: Node | None, large: Sequence[str], keys: Iterable[str], now: datetime, settle: timedelta
) -> Iterator[NodeChange]:
    """Yield what has become of one node."""
    if node is None or node.uid != old.uid:
        if old.takes_pods and not _is_marked(old):
            yield from _losses(old, NodeEvent.DELETED, large, now)
        return
    if old.takes_pods and not node.takes_pods and not _is_marked(node):
        yield from _losses(node, NodeEvent.CORDONED if node.unschedulable else NodeEvent.UNREADY, large, now)
    if node.takes_pods and not old.takes_pods:
        yield NodeChange(now, node.name, NodeEvent.UNCORDONED if old.unschedulable else NodeEvent.READY)
    if old.labels is node.labels:
        return
    for key in sorted(keys):
        # A new node gets some of its labels after it has joined.
        is_first = key not in old.labels and now - node.created < settle
        if old.labels.get(key) != node.labels.get(key) and not is_first:
            yield NodeChange(now, node.name, NodeEvent.RELABELLED, key, old.labels.get(key))


def _is_marked(node: Node) -> bool:
    """Return whether a taint says that an autoscaler removes the node."""
    return any(taint.key in TO_BE_REMOVED for taint in node.taints)


def _losses(node: Node, event: NodeEvent, large: Sequence[str], now: datetime) -> Iterator[NodeChange]:
    """Yield a row for each domain of a lost node, and one without a domain where it has none."""
    by = node.cordoned_by if event is NodeEvent.CORDONED else ""
    domains: list[tuple[str, str | None]] = [(key, node.labels[key]) for key in large if key in node.labels]
    for key, value in domains or [("", None)]:
        yield NodeChange(now, node.name, event, key, value, by)


# Domains in motion


class _Domain(NamedTuple):
    key: str
    value: str


def _follow_domains(
    known: Iterable[DomainMotion],
    changes: Sequence[NodeChange],
    new: Sequence[NodeChange],
    snapshot: Snapshot,
    now: datetime,
    window: timedelta,
) -> tuple[DomainMotion, ...]:
    """Return the domains that are in motion, or were until a moment ago."""
    losses: dict[_Domain, list[NodeChange]] = {}
    for change in changes:
        if change.event.is_loss and change.value is not None:
            losses.setdefault(_Domain(change.key, change.value), []).append(change)
    moving = {_Domain(motion.key, motion.value): motion for motion in known}
    fresh = {_Domain(change.key, change.value) for change in new if change.event.is_loss and change.value is not None}
    back = {change.node for change in new if change.event in {NodeEvent.UNCORDONED, NodeEvent.READY}}
    followed: list[DomainMotion] = []
    for domain in sorted({*moving, *fresh}):
        nodes = [node for node in snapshot.nodes if node.labels.get(domain.key) == domain.value]
        lost, old = losses.get(domain, []), moving.get(domain)
        if old is None:
            motion = _begin(domain, lost, nodes, now, window)
        else:
            motion = _go_on(old, lost, nodes, now, window, is_back=any(node.name in back for node in nodes))
        if motion is not None:
            followed.append(motion)
    followed.sort(key=lambda motion: (motion.moved, motion.key, motion.value))
    return tuple(followed[-MOST_DOMAINS:])


def _threshold(had: int) -> int:
    """Return how many of its nodes a domain loses before it is in motion."""
    return 1 if had == 1 else max(2, -(-had // _PART))


def _begin(
    domain: _Domain, lost: Sequence[NodeChange], nodes: Iterable[Node], now: datetime, window: timedelta
) -> DomainMotion | None:
    """Return the motion of a domain that has lost enough of the nodes that it had when the window began."""
    names = {change.node for change in lost}
    had = len(names | {node.name for node in nodes if node.takes_pods and now - node.created >= window})
    if len(names) < _threshold(had):
        return None
    began = DomainMotion(
        key=domain.key,
        value=domain.value,
        since=min(change.at for change in lost),
        until=now,
        moved=now,
        lasting=_is_lasting(had, nodes),
        had=had,
        lost=0,
    )
    return _count(began, lost)


def _go_on(
    motion: DomainMotion,
    lost: Sequence[NodeChange],
    nodes: Iterable[Node],
    now: datetime,
    window: timedelta,
    *,
    is_back: bool,
) -> DomainMotion | None:
    """Return the motion of a domain with what it has lost since; None when it has settled.

    `is_back`: a node of it takes pods again, as at the end of a drain.
    """
    times = {name: min(now, getattr(motion, name)) for name in ("since", "until", "moved")}
    motion = _count(structs.replace(motion, **times), [change for change in lost if change.at > times["until"]])
    lasting = _is_lasting(motion.had, nodes)
    if is_back or (motion.lasting and not lasting):
        motion = structs.replace(motion, moved=now)
    motion = structs.replace(motion, lasting=lasting)
    # After the longest time it is stored until it is quiet: else the next loss would begin another hour.
    quiet = now - motion.until >= window
    return None if quiet and now >= motion.settles_at(window) else motion


def _is_lasting(had: int, nodes: Iterable[Node]) -> bool:
    """Return whether a domain has so many nodes fewer that take pods; new nodes take the place of lost ones."""
    return had - sum(node.takes_pods for node in nodes) >= _threshold(had)


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


def merge_motion(memory: Memory, other: Memory) -> Memory:
    """Return a memory with what another one has stored of nodes and domains in motion besides its own."""
    domains = {(motion.key, motion.value): motion for motion in memory.domains_in_motion}
    for motion in other.domains_in_motion:
        known = domains.get((motion.key, motion.value), motion)
        domains[motion.key, motion.value] = _unite(known, motion)
    merged = sorted(domains.values(), key=lambda motion: (motion.moved, motion.key, motion.value))
    changes = sorted({*memory.node_changes, *other.node_changes}, key=_sort_key)
    return structs.replace(memory, node_changes=tuple(changes), domains_in_motion=tuple(merged))


def _unite(one: DomainMotion, other: DomainMotion) -> DomainMotion:
    """Return a motion of a domain that two processes have seen, each maybe from another moment on."""
    older, newer = sorted((one, other), key=lambda motion: (motion.moved, motion.lost))
    if older.moved < newer.since:  # it had come to its end
        return newer
    names = sorted({*one.nodes, *other.nodes})
    had = max(one.had, other.had)
    return structs.replace(
        newer,
        since=min(one.since, other.since),
        until=max(one.until, other.until),
        had=had,
        lost=min(had, max(one.lost, other.lost, len(names))),
        nodes=tuple(names[:_MOST_NODES]),
        events=tuple(sorted({*one.events, *other.events})),
        by=tuple(sorted({*one.by, *other.by})),
    )
