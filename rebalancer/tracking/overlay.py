"""A snapshot corrected by the requested evictions: watches lag behind the answers to eviction requests."""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from rebalancer.model.moves import Move
from rebalancer.model.snapshot import Snapshot
from rebalancer.tracking.moves import overlays


def overlay_moves(snapshot: Snapshot, moves: Iterable[Move]) -> Snapshot:
    """Return the snapshot in which the pod of every move is at least terminating, unless it was refused.

    A request whose answer was lost counts as carried out: when in doubt a pod is missing, never available.
    """
    evicted = {move.uid: move for move in moves if overlays(move, snapshot)}
    if not evicted:
        return snapshot
    pods = tuple(
        msgspec.structs.replace(pod, deleted=evicted[pod.uid].requested_at) if pod.uid in evicted else pod
        for pod in snapshot.pods
    )
    return replace(snapshot, pods=pods)
