"""A snapshot corrected by the requested evictions: watches lag behind the answers to eviction requests."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

import msgspec

from rebalancer.model.moves import Move, MoveState
from rebalancer.model.snapshot import Snapshot
from rebalancer.tracking.moves import REPLACEMENT_TIMEOUT


def overlay_moves(snapshot: Snapshot, moves: Iterable[Move]) -> Snapshot:
    """Return the snapshot in which the pod of every move is at least terminating, unless it was refused.

    A request whose answer was lost counts as carried out: when in doubt a pod is missing, never available. Moves may
    have ended before the watch shows that they began, those of another leader or of pods that somebody else removed;
    after a while they count no more.
    """
    evicted = {move.uid: move for move in moves if not move.state.over or _has_just_ended(move, snapshot.taken_at)}
    if not any(uid in snapshot.pod and not snapshot.pod[uid].terminating for uid in evicted):
        return snapshot
    pods = tuple(
        msgspec.structs.replace(pod, deleted=evicted[pod.uid].requested_at)
        if pod.uid in evicted and not pod.terminating
        else pod
        for pod in snapshot.pods
    )
    return replace(snapshot, pods=pods)


def _has_just_ended(move: Move, now: datetime) -> bool:
    return move.state is not MoveState.REFUSED and now - move.changed_at < REPLACEMENT_TIMEOUT
