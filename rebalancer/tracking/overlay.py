"""A snapshot corrected by the requested evictions: watches lag behind the answers to eviction requests."""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from rebalancer.model.moves import Move
from rebalancer.model.snapshot import Snapshot


def overlay_moves(snapshot: Snapshot, moves: Iterable[Move]) -> Snapshot:
    """Return the snapshot in which every pod of a move in flight is at least terminating.

    A request whose answer was lost counts as carried out: when in doubt a pod is missing, never available.
    """
    in_flight = {move.uid: move for move in moves if not move.state.over}
    if not any(uid in snapshot.pod and not snapshot.pod[uid].terminating for uid in in_flight):
        return snapshot
    pods = tuple(
        msgspec.structs.replace(pod, deleted=in_flight[pod.uid].requested_at)
        if pod.uid in in_flight and not pod.terminating
        else pod
        for pod in snapshot.pods
    )
    return replace(snapshot, pods=pods)
