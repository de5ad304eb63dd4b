"""Namespaces that wait because a replacement became Ready somewhere else than predicted.

Something that snapshots do not show changes the pods there: a webhook, an expression or a parameter of a policy. It may
affect the next workload, too. So a single such move holds back its namespace for ten minutes, which is as long as a
replacement may take. A replacement that lost its place to another pod looks the same, and costs this wait, too.

Concurrent moves of one group are an exception: one replacement may take another's place, which proves nothing.

The wait needs no further state: the last such move of each namespace is stored for these ten minutes.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from rebalancer.model.moves import Memory, Move, MoveState, Target
from rebalancer.model.reasons import ViolationCause

MISPLACED_WAIT: Final = timedelta(minutes=10)
"""For how long nothing more is evicted in the namespace after such a move."""


def find_misplaced(moves: Iterable[Move], now: datetime) -> Mapping[str, Move]:
    """Return the last such move of each waiting namespace, the longest wait first."""
    known = tuple(moves)
    recent = [
        move
        for move in known
        if move.state is MoveState.INEFFECTIVE and now < waits_until(move) and not _has_company(move, known)
    ]
    last = {move.namespace: move for move in sorted(recent, key=_order)}
    return {move.namespace: move for move in sorted(last.values(), key=_order)}


def _has_company(move: Move, moves: Iterable[Move]) -> bool:
    """Return whether another move of its group was under way at that time."""
    return any(
        other.group == move.group
        and other.uid != move.uid
        and other.requested_at <= move.changed_at
        and (not other.state.over or other.changed_at >= move.requested_at)
        for other in moves
    )


def waits_until(move: Move) -> datetime:
    """Return until when a namespace waits after a move whose replacement was misplaced."""
    return move.changed_at + MISPLACED_WAIT


def find_lost_meanwhile(move: Move, memory: Memory) -> tuple[Target, ...]:
    """Return the domains, of the move's own keys, that lost nodes between its request and its end.

    Such losses explain a landing elsewhere without a hidden cause.
    """
    subjects = [
        change.subject.partition("=")[::2]
        for change in memory.changes
        if change.cause is ViolationCause.NODE_LOST and move.requested_at <= change.at <= move.changed_at
    ]
    subjects += [
        (loss.key, loss.value)
        for loss in memory.lost
        if loss.since <= move.changed_at and move.requested_at <= loss.until
    ]
    values = {
        target.topology_key: sorted({value for key, value in subjects if key == target.topology_key})
        for target in move.targets
    }
    return tuple(Target(key, tuple(lost)) for key, lost in values.items() if lost)


def _order(move: Move) -> tuple[datetime, str]:
    return move.changed_at, move.uid
