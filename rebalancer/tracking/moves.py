"""The life of a move: one transition table, and how a snapshot tells what happened.

    planned ── granted ──► evicted ── replaced ──► pending ── ready ──► verified
       │                        │                     │ ╰──── elsewhere ─► ineffective
       ╰ refused ► refused      ╰────── overdue ──────┴───────────────────► lost

A move whose answer was lost stays `planned`: it counts as in flight until its pod is seen gone, or unchanged for so
long that the request cannot have arrived.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from rebalancer.model.moves import Memory, Move, MoveState
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot

UNKNOWN_FOR = timedelta(minutes=2)
"""After an answer was lost: how long an unchanged pod may still be evicted by it (docs/semantics.md)."""

OVERDUE = timedelta(minutes=10)
"""After an eviction: how long its replacement may take to become Ready."""

KEPT = 20
"""How many ended moves are remembered, to tell what was done last."""


class MoveEvent(StrEnum):
    """What can happen to a move."""

    GRANTED = "granted"
    REFUSED = "refused"
    REPLACED = "replaced"
    READY_THERE = "ready"
    READY_ELSEWHERE = "elsewhere"
    OVERDUE = "overdue"


TRANSITIONS: Mapping[tuple[MoveState, MoveEvent], MoveState] = {
    (MoveState.PLANNED, MoveEvent.GRANTED): MoveState.EVICTED,
    (MoveState.PLANNED, MoveEvent.REFUSED): MoveState.REFUSED,
    (MoveState.EVICTED, MoveEvent.REPLACED): MoveState.PENDING,
    (MoveState.EVICTED, MoveEvent.OVERDUE): MoveState.LOST,
    (MoveState.PENDING, MoveEvent.READY_THERE): MoveState.VERIFIED,
    (MoveState.PENDING, MoveEvent.READY_ELSEWHERE): MoveState.INEFFECTIVE,
    (MoveState.PENDING, MoveEvent.OVERDUE): MoveState.LOST,
}


def advance_move(move: Move, what: MoveEvent, now: datetime, replacement: str = "") -> Move:
    """Return the move after something happened; what a state does not know changes nothing."""
    following = TRANSITIONS.get((move.state, what))
    if following is None:
        return move
    return msgspec.structs.replace(move, state=following, changed_at=now, replacement=replacement or move.replacement)


def observe_moves(moves: tuple[Move, ...], snapshot: Snapshot, now: datetime) -> tuple[Move, ...]:
    """Return the moves after what a snapshot shows of them, several steps of a life at once where it shows them.

    The last few that ended are kept; older ones are forgotten.
    """
    claimed = {move.replacement for move in moves}
    followed: list[Move] = []
    for move in moves:
        current = move
        while not current.state.over:
            after = _once(current, snapshot, now, claimed)
            if after is current:
                break
            current = after
        followed.append(current)
    over = [move for move in followed if move.state.over]
    forgotten = {move.uid for move in over[:-KEPT]}
    return tuple(move for move in followed if move.uid not in forgotten)


def merge_memory(own: Memory, saved: Memory) -> Memory:
    """Return what a process that leads again remembers: what was saved, and what it has seen itself since.

    A move of its own is further along than the saved one.
    """
    moves = {move.uid: move for move in (*saved.moves, *own.moves)}
    sent = tuple(sorted({*saved.sent, *own.sent}))
    spares = tuple(sorted({*saved.extra_evictions, *own.extra_evictions}))
    return msgspec.structs.replace(saved, moves=tuple(moves.values()), sent=sent, extra_evictions=spares)


def _once(move: Move, snapshot: Snapshot, now: datetime, claimed: set[str]) -> Move:
    match move.state:
        case MoveState.PLANNED:
            return _unanswered(move, snapshot, now)
        case MoveState.EVICTED:
            found = _replacement(move, snapshot, claimed)
            if found is not None:
                claimed.add(found.uid)
                return advance_move(move, MoveEvent.REPLACED, now, found.uid)
        case _:
            arrived = snapshot.pod.get(move.replacement)
            if arrived is not None and arrived.ready and arrived.node is not None:
                there = _as_foreseen(move, arrived.node, snapshot)
                return advance_move(move, MoveEvent.READY_THERE if there else MoveEvent.READY_ELSEWHERE, now)
    if now - move.changed_at >= OVERDUE:
        return advance_move(move, MoveEvent.OVERDUE, now)
    return move


def _unanswered(move: Move, snapshot: Snapshot, now: datetime) -> Move:
    victim = snapshot.pod.get(move.uid)
    if victim is None or victim.terminating:
        return advance_move(move, MoveEvent.GRANTED, now)
    if now - move.asked_at >= UNKNOWN_FOR:
        return advance_move(move, MoveEvent.REFUSED, now)
    return move


def _replacement(move: Move, snapshot: Snapshot, claimed: set[str]) -> Pod | None:
    """Find the pod that took the victim's place: of the same owner, not older than the request, nobody else's."""
    asked = move.asked_at.replace(microsecond=0)  # creation times have whole seconds
    newer = [
        pod
        for pod in snapshot.pods_of.get(move.owner_uid, ())
        if pod.uid != move.uid and pod.uid not in claimed and pod.created >= asked and not pod.terminating
    ]
    # A StatefulSet's keeps its name, which sorts it first; others go by age.
    newer.sort(key=lambda pod: (pod.name != move.pod, pod.created, pod.name))
    return newer[0] if newer else None


def _as_foreseen(move: Move, node: str, snapshot: Snapshot) -> bool:
    found = snapshot.node.get(node)
    if found is None:
        return False
    return all(found.labels.get(target.topology_key) in target.values for target in move.targets)
