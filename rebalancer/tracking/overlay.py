"""A snapshot corrected by the requested evictions: watches lag behind the answers to eviction requests."""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from rebalancer.model.moves import Move, MoveState
from rebalancer.model.snapshot import Snapshot


def overlay_moves(snapshot: Snapshot, moves: Iterable[Move]) -> Snapshot:
    """Return the snapshot in which the pod of every move is at least terminating, but of those that were refused.

    A request whose answer was lost counts as carried out: when in doubt a pod is missing, never available. The moves of
    another leader may have ended before this process's watch shows that they began.
    """
    evicted = {move.uid: move for move in moves if move.state is not MoveState.REFUSED}
    if not any(uid in snapshot.pod and not snapshot.pod[uid].terminating for uid in evicted):
        return snapshot
    pods = tuple(
        msgspec.structs.replace(pod, deleted=evicted[pod.uid].requested_at)
        if pod.uid in evicted and not pod.terminating
        else pod
        for pod in snapshot.pods
    )
    return replace(snapshot, pods=pods)
