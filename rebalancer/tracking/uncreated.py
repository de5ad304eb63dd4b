"""Replacements that their owners do not create: a quota is used up, a webhook refuses, a controller is down.

If one pod cannot be created, mostly the next cannot, even of another workload. So nothing more is evicted in the
namespace until the pod is created, or its owner wants no more pods than exist.

A ReplicaSet creates the replacement as soon as the evicted pod has a deletionTimestamp. A StatefulSet creates it once
the pod is gone, since both have one name, and under OrderedReady once all pods of lower ordinals are Ready. A foreign
owner may do either.

The start of the wait is not read from the pod, because its deletionTimestamp is the end of the grace period by the API
server's clock. For a ReplicaSet the wait starts when the eviction is granted; for a StatefulSet when a snapshot first
shows that the pod is gone and its turn has come (a pod's end starts a cycle at once). Both times are by this
controller's clock, and stored with the move.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from rebalancer.model.moves import Move, MoveState
from rebalancer.model.snapshot import Snapshot
from rebalancer.tracking.replacements import Replacements, waits_for_end

_PATIENCE: Final = timedelta(seconds=10)
"""How long an owner may take to create a replacement. ReplicaSets do it within a second, unless something is wrong."""

_STATEFUL_PATIENCE: Final = timedelta(seconds=30)
"""The same for a StatefulSet: its controller sees the end of a pod later, and retries with a growing delay."""

_LONGEST_MESSAGE: Final = 500
"""The most characters of a condition's message that are stored."""


def note_creation(move: Move, before: Move, replacements: Replacements, snapshot: Snapshot, now: datetime) -> Move:
    """Return a move that says whether its replacement is overdue; `before` is the move before this snapshot.

    A lost move is over, but its replacement is missing until its owner has all its pods.
    """
    lost = move.state is MoveState.LOST and not move.replacement
    missing = move.state is MoveState.EVICTED or (lost and (move.uncreated is not None or not before.state.over))
    if not missing or replacements.is_overtaken(move) or not replacements.can_be_created(move):
        return _with(move, None, None)
    if move.uncreated is None and replacements.awaits_another(move):  # its turn has not come, and nothing is wrong
        return _with(move, None, None)
    since = move.awaited_since or (now if waits_for_end(move) else move.changed_at)
    failure = snapshot.workload[move.owner_uid].creation_failure[:_LONGEST_MESSAGE]
    awaited = _with(move, since, None)
    overdue = failure or lost or move.uncreated is not None or now >= creation_deadline(awaited)
    return _with(move, since, failure if overdue else None)


def creation_deadline(move: Move) -> datetime:
    """Return when the replacement of an evicted pod is overdue, as far as is known: a StatefulSet waits for its end."""
    return (move.awaited_since or move.changed_at) + (_STATEFUL_PATIENCE if waits_for_end(move) else _PATIENCE)


def _with(move: Move, since: datetime | None, uncreated: str | None) -> Move:
    if (move.awaited_since, move.uncreated) == (since, uncreated):
        return move
    return structs.replace(move, awaited_since=since, uncreated=uncreated)


def find_uncreated(moves: Iterable[Move]) -> Mapping[str, Move]:
    """Return the move of an overdue replacement for each namespace: with a known reason if any, the oldest."""
    overdue = [move for move in moves if move.uncreated is not None]
    overdue.sort(key=lambda move: (not move.uncreated, move.requested_at, move.pod), reverse=True)
    return {move.namespace: move for move in overdue}
