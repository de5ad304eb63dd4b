"""Zones that have lost nodes, and what these held: a lost zone must be reported, not disappear.

A node is lost when it took pods and is gone, is not Ready, or is in another zone. A node that was cordoned before, or
that an autoscaler has marked, goes as part of a drain. The loss of a node without pods is not noted while its zone has
other nodes.

A loss is over when the node is back in its zone, or when the zone has as many nodes as before. It is also over after an
hour, unless the node is still there and not Ready. A zone without any node is stored for as long as the policy says
(`topology.remember`), unless the policy says that it does not exist (`topology.ignore`).

The names of up to a few hundred lost nodes are stored for each zone, the first by name. Of further nodes only the
number is stored, which never exceeds what the zone lacks now.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from msgspec import structs

from rebalancer.model.losses import DomainLoss, LostNode, short_name
from rebalancer.model.nodes import ZONE, Node
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy
from rebalancer.tracking.zones import ZONE_LIFETIME, find_zone_keys

MOST_DOMAINS: Final = 10
"""The most domains whose losses are stored: those with the most recent loss."""

MOST_NODES: Final = 20
"""The most lost nodes of a domain that are stored by name."""

MOST_OTHERS: Final = 280
"""The most further lost nodes that are stored by a short name; the rest are counted."""

_OF_ITS_NODE: Final = "DaemonSet"


def observe_losses(
    known: Sequence[DomainLoss], before: Snapshot | None, after: Snapshot, policy: Policy, now: datetime
) -> tuple[DomainLoss, ...]:
    """Return the losses to store after a snapshot; `before` is the last cycle's snapshot, None without one."""
    changed = [] if before is None else [node for node in before.nodes if after.node.get(node.name) is not node]
    if not known and not changed:
        return ()
    stored = {(loss.key, loss.value): loss for loss in known}
    if before is not None:
        for key in sorted({ZONE, *find_zone_keys(policy)}):
            for value, lost in _find_lost(changed, before, after, key, now).items():
                loss = stored.get((key, value)) or _begin(before, key, value)
                stored[key, value] = _add(loss, lost)
    left = (_go_on(loss, after, policy, now) for loss in stored.values())
    newest = sorted((loss for loss in left if loss is not None), key=lambda loss: loss.until, reverse=True)
    return tuple(sorted(newest[:MOST_DOMAINS], key=lambda loss: (loss.key, loss.value)))


def _find_lost(
    changed: Iterable[Node], before: Snapshot, after: Snapshot, key: str, now: datetime
) -> dict[str, list[LostNode]]:
    """Return the nodes that were lost between two snapshots, by the domain that they were in."""
    lost: dict[str, list[LostNode]] = {}
    alive = {node.labels.get(key) for node in after.nodes if node.ready} if changed else set()
    for old in changed:
        node = after.node.get(old.name)
        if key in old.labels and old.takes_pods and not old.being_removed and _is_lost(old, node, key):
            at = min(now, node.lost_since) if node is not None and node.lost_since is not None else now
            pods = _count_pods(before, old.name)
            if pods or old.labels[key] not in alive:
                lost.setdefault(old.labels[key], []).append(LostNode(old.name, at, pods))
    return lost


def _is_lost(old: Node, node: Node | None, key: str) -> bool:
    if node is None:
        return True
    return (not node.ready and not node.unschedulable) or node.labels.get(key) != old.labels[key]


def _count_pods(snapshot: Snapshot, node: str) -> int:
    """Return how many pods of a node would be created again elsewhere."""
    pods = snapshot.pods_on.get(node, ())
    return sum(not pod.mirror and (pod.owner is None or pod.owner.kind != _OF_ITS_NODE) for pod in pods)


def _nodes_of(snapshot: Snapshot, key: str, value: str) -> Iterator[Node]:
    return (node for node in snapshot.nodes if node.labels.get(key) == value)


def _begin(before: Snapshot, key: str, value: str) -> DomainLoss:
    had = sum(node.takes_pods for node in _nodes_of(before, key, value))
    return DomainLoss(key=key, value=value, had=had, nodes=())


def _add(loss: DomainLoss, lost: Sequence[LostNode]) -> DomainLoss:
    """Return a loss with further nodes. A node that is lost again keeps its first record."""
    told = {node.name for node in loss.told}
    new = sorted(node for node in lost if told.isdisjoint((node.name, short_name(node.name))))
    named = new[: MOST_NODES - len(loss.nodes)]
    unnamed = [structs.replace(node, name=short_name(node.name)) for node in new[len(named) :]]
    others = unnamed[: MOST_OTHERS - len(loss.others)]
    rest = unnamed[len(others) :]
    return structs.replace(
        loss,
        nodes=(*loss.nodes, *named),
        others=(*loss.others, *others),
        more=loss.more + len(rest),
        more_pods=loss.more_pods + sum(node.pods for node in rest),
        more_at=max((node.at for node in rest), default=loss.more_at),
    )


def _go_on(loss: DomainLoss, after: Snapshot, policy: Policy, now: datetime) -> DomainLoss | None:
    """Return what a domain still lacks; None if it lacks nothing."""
    there = list(_nodes_of(after, loss.key, loss.value))
    lifetime = ZONE_LIFETIME if there else max(ZONE_LIFETIME, policy.topology.remember)
    missing = loss.had - sum(node.takes_pods for node in there)
    is_given_up = not there and loss.value in policy.topology.ignore.get(loss.key, ())
    if missing <= 0 or is_given_up:
        return None
    known = loss.find_told(there)

    def lasts(node: LostNode) -> bool:
        found = known.get(node.name)
        if found is None:
            return now - node.at < lifetime
        return not found.takes_pods and (now - node.at < lifetime or not found.ready)

    def left(nodes: Iterable[LostNode]) -> tuple[LostNode, ...]:
        return tuple(structs.replace(node, at=min(now, node.at)) for node in nodes if lasts(node))

    silent = sum(not node.ready for node in there) - sum(not node.ready for node in known.values())
    told = structs.replace(loss, nodes=left(loss.nodes), others=left(loss.others), more=0, more_pods=0, more_at=None)
    if loss.more:
        at = min(now, loss.more_at or loss.until)
        most = missing - told.number if now - at < lifetime else silent
        if more := max(0, min(loss.more, most)):
            pods = loss.more_pods * more // loss.more
            return structs.replace(told, more=more, more_pods=pods, more_at=at)
    return told if told.number else None
