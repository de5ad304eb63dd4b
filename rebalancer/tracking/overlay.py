"""A snapshot corrected by what we know we did: watches lag, our own answers do not."""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from rebalancer.model.moves import Move
from rebalancer.model.snapshot import Snapshot


def overlay_moves(snapshot: Snapshot, moves: Iterable[Move]) -> Snapshot:
    """Return the snapshot in which every pod that we evicted is at least terminating.

    A request whose answer was lost counts as carried out: when in doubt a pod is missing, never spare.
    """
    going = {move.uid: move for move in moves if not move.state.over}
    if not any(uid in snapshot.pod and not snapshot.pod[uid].terminating for uid in going):
        return snapshot
    pods = tuple(
        msgspec.structs.replace(pod, deleted=going[pod.uid].asked_at)
        if pod.uid in going and not pod.terminating
        else pod
        for pod in snapshot.pods
    )
    return replace(snapshot, pods=pods)
