"""What overdue replacements hold back: their workload, their namespace, or the whole cluster.

A replacement that does not run holds back its workload, whose other pods run now but might not run again. A replacement
that cannot be created holds back its namespace; so do replacements that do not run, of two workloads of the namespace.

The cluster does not replace pods if two namespaces have overdue replacements that are not their own failures
(`tracking.own_failures`), and no later request has led to a replacement anywhere. Then only probes are evicted: the
first after a minute, each next after twice the last time. If the only failures are images that no other namespace runs,
they may be the namespaces' own: the first probe goes after five seconds.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.model.moves import Memory, Move, MoveState, Reference
from rebalancer.model.snapshot import Snapshot
from rebalancer.tracking.arrivals import is_ending, is_proof
from rebalancer.tracking.misplaced import find_misplaced
from rebalancer.tracking.own_failures import is_in_doubt
from rebalancer.tracking.uncreated import find_uncreated

FIRST_PROBE: Final = timedelta(minutes=1)
PROBE_IN_DOUBT: Final = timedelta(seconds=5)
"""The first wait if each failure may be its namespace's own."""

LONGEST_PROBE: Final = timedelta(hours=1)

_NO_ANSWER: Final = frozenset({MoveState.REFUSED, MoveState.GONE, MoveState.OVERTAKEN})
"""Moves from which nothing follows about replacements."""


class Holds(NamedTuple):
    """The namespaces and workloads that wait for overdue replacements, each with the move that holds it.

    `misplaced` are the namespaces that wait because a replacement landed somewhere else than predicted.
    """

    namespaces: Mapping[str, Move]
    workloads: Mapping[Reference, Move]
    misplaced: Mapping[str, Move]


def find_holds(moves: Collection[Move], snapshot: Snapshot, now: datetime, unplaceable: Collection[str] = ()) -> Holds:
    """Return what waits because a replacement is not created, does not run or is misplaced, or a pod ends slowly.

    `unplaceable` are the UIDs of moves whose replacement no node admits. Their own repair goes on: planning knows that
    pod, and the repair's next evictions may make a place for it.
    """
    workloads: dict[Reference, Move] = {}
    for move in moves:
        if (move.overdue and move.uid not in unplaceable) or is_ending(move, snapshot, now):
            workloads.setdefault(move.workload, move)
    return Holds(find_held_namespaces(moves), workloads, find_misplaced(moves, now))


def find_held_namespaces(moves: Iterable[Move]) -> Mapping[str, Move]:
    """Return the move with the overdue replacement for each namespace in which nothing is evicted."""
    known = tuple(moves)
    overdue: defaultdict[str, dict[Reference, Move]] = defaultdict(dict)
    for move in sorted(known, key=_age):
        if move.overdue:
            overdue[move.namespace].setdefault(move.workload, move)
    several = {space: next(iter(those.values())) for space, those in overdue.items() if len(those) > 1}
    return {**several, **find_uncreated(known)}


def _age(move: Move) -> tuple[datetime, str]:
    return move.requested_at, move.pod


def note_proof(memory: Memory, now: datetime) -> Memory:
    """Return the memory with the request time of the last eviction whose replacement proves that pods are replaced.

    This time is stored because the proving move is forgotten before the moves that it disproves.
    """
    requested = [move.requested_at for move in memory.moves if is_proof(move, now)]
    if memory.replaced_at is not None:
        requested.append(min(now, memory.replaced_at))
    return structs.replace(memory, replaced_at=max(requested, default=None))


def find_unreplaced(moves: Collection[Move], replaced_at: datetime | None) -> tuple[Move, ...]:
    """Return the overdue moves that show that the cluster does not replace pods, the oldest first; none if it does.

    `replaced_at` is the request time of the last replaced eviction; earlier moves show nothing.
    """
    unreplaced = sorted(
        (
            move
            for move in moves
            if move.overdue and (replaced_at is None or move.requested_at > replaced_at) and move.own_failure is None
        ),
        key=_age,
    )
    return tuple(unreplaced) if len({move.namespace for move in unreplaced}) > 1 else ()


def find_next_probe(moves: Iterable[Move], snapshot: Snapshot, since: datetime, now: datetime) -> datetime | None:
    """Return when the next probe may go in a cluster that is held since `since`; None while a probe is under way.

    Each probe with an overdue replacement doubles the wait, unless that is its namespace's own failure, which says
    nothing about others. A probe whose pod takes long to end shows nothing until the pod has ended.
    """
    last, failed, in_doubt = since, 0, True
    for move in moves:
        if move.own_failure is not None:
            continue
        in_doubt = in_doubt and (not move.overdue or is_in_doubt(move, snapshot))
        if move.requested_at > since and move.state not in _NO_ANSWER:
            is_tried = not (move.overdue or move.state is MoveState.LOST or is_proof(move, now))
            if is_tried and not is_ending(move, snapshot, now):
                return None
            last, failed = max(last, move.requested_at), failed + move.overdue
    wait: timedelta = (PROBE_IN_DOUBT if in_doubt else FIRST_PROBE) * 2 ** min(failed, 10)
    return last + min(wait, LONGEST_PROBE)
