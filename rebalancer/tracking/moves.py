"""The life of a move: the transition table, what a snapshot shows, and what it does not show yet.

    planned ── granted ──► evicted ── replaced ──► pending ── ready ──► verified
       │                    │ │ ╰ overtaken         │ │ ╰──── elsewhere ─► ineffective
       │ ╰ refused ► refused│ ╰◄────── vanished ────╯ │
       ╰ gone ► gone        ╰──────── overdue ────────┴───────────────────► lost

A refused move becomes evicted if it is `executed` after all: admission control answered 429 (Too Many Requests), and
the pod goes before its eviction is requested again. KubeVirt answers so, migrates the virtual machine, and removes the
pod itself.

A move whose answer was lost stays `planned`. It counts as in flight until its pod is gone, or has been unchanged until
the request can no longer arrive. If a replacement is deleted before it is Ready, the next replacement counts.

A move that an earlier leader has stored may never have been requested: the process ended in between. So a new leader
reads the pods of planned moves at the API server. A move whose pod is there and not terminating is `unexecuted`: its
pod counts as it is, and its repair is planned again.

But a request that was sent may still be carried out, for as long as after a lost answer. Until then no other pod of the
workload or group is evicted. The pod itself may be evicted, since two requests with its UID evict it once. If the
second request is refused or not sent, the first counts as before.

Watches lag behind the answers to eviction requests, so `overlay_moves` corrects a snapshot by the requests.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import Final

import msgspec

from rebalancer.model.moves import NEVER_GRANTED, Memory, Move, MoveState, Reference
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.tracking.arrivals import note_arrival, note_victim
from rebalancer.tracking.misplaced import find_misplaced
from rebalancer.tracking.motion import merge_motion
from rebalancer.tracking.own_failures import note_own_failure
from rebalancer.tracking.replacements import Replacements
from rebalancer.tracking.requests import resume_first
from rebalancer.tracking.uncreated import note_creation

ANSWER_TIMEOUT = timedelta(minutes=2)
"""For how long an eviction whose answer was lost may still be carried out on an unchanged pod."""

REPLACEMENT_TIMEOUT = timedelta(minutes=10)
"""How long a replacement may take to be Ready, from the eviction or the end of a long grace period."""

_PENDING_FOR: Final = timedelta(minutes=1)
"""The default of `breaker.pendingFor`."""

_TIMES: Final = ("requested_at", "changed_at", "awaited_since", "bound_since", "victim_seen", "ready_at")
"""Every time field of a move."""

ENDED_MOVES_STORED = 20
"""How many ended moves are stored, for the status."""

DEFERRED_MOVES_STORED = 100
"""How many further refused moves are stored because they may still be carried out."""


MISPLACED_MOVES_STORED = 100
"""How many further moves are stored because their namespace waits for them."""


class MoveEvent(StrEnum):
    """What can happen to a move."""

    GRANTED = "granted"
    REFUSED = "refused"
    EXECUTED = "executed"
    GONE = "gone"
    REPLACED = "replaced"
    READY_THERE = "ready"
    READY_ELSEWHERE = "elsewhere"
    VANISHED = "vanished"
    OVERTAKEN = "overtaken"
    OVERDUE = "overdue"


TRANSITIONS: Mapping[tuple[MoveState, MoveEvent], MoveState] = {
    (MoveState.PLANNED, MoveEvent.GRANTED): MoveState.EVICTED,
    (MoveState.PLANNED, MoveEvent.REFUSED): MoveState.REFUSED,
    (MoveState.PLANNED, MoveEvent.GONE): MoveState.GONE,
    (MoveState.REFUSED, MoveEvent.EXECUTED): MoveState.EVICTED,
    (MoveState.EVICTED, MoveEvent.REPLACED): MoveState.PENDING,
    (MoveState.EVICTED, MoveEvent.OVERTAKEN): MoveState.OVERTAKEN,
    (MoveState.EVICTED, MoveEvent.OVERDUE): MoveState.LOST,
    (MoveState.PENDING, MoveEvent.READY_THERE): MoveState.VERIFIED,
    (MoveState.PENDING, MoveEvent.READY_ELSEWHERE): MoveState.INEFFECTIVE,
    (MoveState.PENDING, MoveEvent.VANISHED): MoveState.EVICTED,
    (MoveState.PENDING, MoveEvent.OVERDUE): MoveState.LOST,
}


def advance_move(move: Move, what: MoveEvent, now: datetime, replacement: str = "") -> Move:
    """Return the move after an event; an event that its state does not allow changes nothing."""
    following = TRANSITIONS.get((move.state, what))
    if following is None or (what is MoveEvent.EXECUTED and move.deferred_until is None):
        return move
    if what is MoveEvent.EXECUTED:
        return msgspec.structs.replace(move, state=following, changed_at=now, deferred_until=None)
    if what is MoveEvent.REFUSED and move.repeats is not None and now - move.repeats < ANSWER_TIMEOUT:
        return resume_first(move, move.repeats)
    move = msgspec.structs.replace(move, unexecuted=False)
    if what is MoveEvent.VANISHED:  # the time for a replacement began with the eviction
        fresh = {"replacement": "", "awaited_since": now, "bound_since": None, "arrived": False}
        return msgspec.structs.replace(move, state=following, **fresh)
    return msgspec.structs.replace(move, state=following, changed_at=now, replacement=replacement or move.replacement)


def observe_moves(
    moves: tuple[Move, ...],
    before: Snapshot | None,
    snapshot: Snapshot,
    now: datetime,
    *,
    pending_for: timedelta = _PENDING_FOR,
) -> tuple[Move, ...]:
    """Return the moves after a snapshot, with several transitions at once if it shows them.

    `before` is the snapshot of the last cycle, None in the first cycle of a leader. `pending_for` is how long a
    replacement may wait for a node.

    Of the moves that ended, the last `ENDED_MOVES_STORED` stay, and older ones that something still depends on.
    """
    moves = tuple(_without_future(move, now) for move in moves)
    replacements = Replacements(moves, before, snapshot)
    followed: list[Move] = []
    for move in moves:
        current = _resume(move, replacements, snapshot, now)
        while not current.state.over:
            after = _advance_once(current, replacements, snapshot, now)
            if after is current:
                break
            current = after
        current = note_creation(current, move, replacements, snapshot, now)
        current = note_arrival(current, move, snapshot, pending_for, now)
        current = note_own_failure(current, snapshot)
        followed.append(note_victim(current, snapshot, now))
    # Older moves stay if their namespace waits for them, if they were refused and may still be carried out, if a watch
    # still shows their pod, or if their replacement is overdue.
    old = find_old(followed)
    misplaced = {move.uid for move in [*find_misplaced(old, now).values()][-MISPLACED_MOVES_STORED:]}
    deferred = {move.uid for move in [move for move in old if is_deferred(move)][-DEFERRED_MOVES_STORED:]}
    forgotten = {move.uid for move in old if not overlays(move, snapshot)} - deferred - misplaced
    return tuple(move for move in followed if move.uid not in forgotten)


def find_old(moves: Iterable[Move]) -> Sequence[Move]:
    """Return the ended moves except the last `ENDED_MOVES_STORED`; few of these older moves are stored."""
    return [move for move in moves if move.state.over and not move.overdue][:-ENDED_MOVES_STORED]


def is_deferred(move: Move) -> bool:
    """Return whether the refuser of the eviction may still carry it out."""
    return move.state is MoveState.REFUSED and move.deferred_until is not None


def _resume(move: Move, replacements: Replacements, snapshot: Snapshot, now: datetime) -> Move:
    """Return a deferred move as evicted if its pod goes, or as refused if the pod is still there after the deferral.

    The first snapshot after the deferral counts, too, because the eviction is not requested again before it.
    """
    if move.state is not MoveState.REFUSED or move.deferred_until is None:
        return move
    if _is_going(move, snapshot):
        after = advance_move(move, MoveEvent.EXECUTED, now)
        replacements.await_one(after)
        return after
    return move if now < move.deferred_until else msgspec.structs.replace(move, deferred_until=None)


def _is_going(move: Move, snapshot: Snapshot) -> bool:
    victim = snapshot.pod.get(move.uid)
    return victim is None or victim.terminating


def overlays(move: Move, snapshot: Snapshot) -> bool:
    """Return whether a snapshot still shows a move's pod although it is gone, because the watch lags behind.

    The move may have ended, for example because somebody else removed the pod. It no longer counts after
    `REPLACEMENT_TIMEOUT`, in case the cluster was restored from a backup. If the only evidence is an answer that there
    is no such pod, it no longer counts after `ANSWER_TIMEOUT`.
    """
    pod = snapshot.pod.get(move.uid)
    if pod is None or pod.terminating or move.state is MoveState.REFUSED or move.unexecuted:
        return False
    limit = ANSWER_TIMEOUT if move.state is MoveState.GONE else REPLACEMENT_TIMEOUT
    return not move.state.over or snapshot.taken_at - move.changed_at < limit


def _without_future(move: Move, now: datetime) -> Move:
    """Return the move with no time after `now`: a clock that was set back must not delay its end."""
    times = {name: getattr(move, name) for name in _TIMES}
    late = {name: now for name, moment in times.items() if moment and moment > now}
    return msgspec.structs.replace(move, **late) if late else move


def merge_memory(own: Memory, saved: Memory) -> Memory:
    """Return the memory of a process that leads again: the saved memory, and what the process did itself.

    Equal entries of `sent` count separately, because they were admitted together.
    """
    moves = {move.uid: move for move in saved.moves}
    moves |= {move.uid: _choose(move, moves[move.uid]) if move.uid in moves else move for move in own.moves}
    sent = tuple(sorted((Counter(saved.sent) | Counter(own.sent)).elements()))
    extras = tuple(sorted({*saved.extra_evictions, *own.extra_evictions}))
    merged = msgspec.structs.replace(saved, moves=tuple(moves.values()), sent=sent, extra_evictions=extras)
    return merge_motion(merged, own)


def _choose(own: Move, saved: Move) -> Move:
    """Return which of two memories' moves of a pod is valid.

    A pod is evicted once, but one leader may be refused, and the next may request the eviction again. A request that
    may be under way must not give way to the older move. Otherwise the more advanced move is newer, since a leader in
    between has followed it.
    """
    if own.state in NEVER_GRANTED or saved.state in NEVER_GRANTED:
        refused, other = (own, saved) if own.state in NEVER_GRANTED else (saved, own)
        is_answer = other.state is MoveState.PLANNED and other.requested_at == refused.requested_at
        return refused if is_answer else other
    if own.state is saved.state is MoveState.PLANNED:
        return max(saved, own, key=attrgetter("requested_at"))
    return saved if saved.state.over or own.state is MoveState.PLANNED else own


def note_remaining(memory: Memory, remaining: Container[str]) -> Memory:
    """Return the memory of a new leader; `remaining` are UIDs of pods that it has read since the last leader ended.

    They exist and are not terminating. Planned moves of other pods stay in flight, even if an earlier leader found the
    pod unchanged: it may have been evicted since.
    """
    moves = tuple(
        move
        if move.state is not MoveState.PLANNED or move.unexecuted == (move.uid in remaining)
        else msgspec.structs.replace(move, unexecuted=move.uid in remaining)
        for move in memory.moves
    )
    return msgspec.structs.replace(memory, moves=moves)


def find_undecided(memory: Memory, pod_uid: str, workload: Reference, group: str) -> Move | None:
    """Return an unexecuted move that the eviction of this pod has to wait for, None if there is none.

    It is a move of another pod of its workload or group, unless the eviction of this pod is unexecuted as well.
    """
    if pod_uid in memory.unexecuted_pods:
        return None
    return next((move for move in memory.unexecuted if move.workload == workload or move.group == group), None)


def _advance_once(move: Move, replacements: Replacements, snapshot: Snapshot, now: datetime) -> Move:
    match move.state:
        case MoveState.PLANNED:
            after = _resolve_unanswered(move, snapshot, now)
            if after.state is MoveState.EVICTED:
                replacements.await_one(after)
            return after
        case MoveState.EVICTED:
            replacement = replacements.claim(move)
            if replacement is not None:
                return advance_move(move, MoveEvent.REPLACED, now, replacement.uid)
            if replacements.is_overtaken(move):
                return advance_move(move, MoveEvent.OVERTAKEN, now)
        case _:
            arrived = replacements.present(move.replacement)
            if arrived is None:
                replacements.await_one(move)
                return advance_move(move, MoveEvent.VANISHED, now)
            if arrived.ready and arrived.node is not None:
                there = _is_as_predicted(move, arrived.node, snapshot)
                move = msgspec.structs.replace(move, ready_at=_find_ready(move, arrived, now))
                return advance_move(move, MoveEvent.READY_THERE if there else MoveEvent.READY_ELSEWHERE, now)
    since = max(move.changed_at, move.victim_seen or move.changed_at)
    if now - since >= REPLACEMENT_TIMEOUT and not _is_in_grace(move, snapshot, now):
        return advance_move(move, MoveEvent.OVERDUE, now)
    return move


def _find_ready(move: Move, replacement: Pod, now: datetime) -> datetime | msgspec.UnsetType:
    """Return when a replacement became Ready, UNSET if its status does not say so or clocks contradict it."""
    since = replacement.ready_since
    return since if since is not None and move.requested_at <= since <= now else msgspec.UNSET


def _is_in_grace(move: Move, snapshot: Snapshot, now: datetime) -> bool:
    """Return whether the evicted pod still ends within its grace period, which may be a week."""
    victim = snapshot.pod.get(move.uid)
    return victim is not None and victim.deleted is not None and now < victim.deleted


def _resolve_unanswered(move: Move, snapshot: Snapshot, now: datetime) -> Move:
    if _is_going(move, snapshot):
        return advance_move(move, MoveEvent.GRANTED, now)
    if now - move.requested_at >= ANSWER_TIMEOUT:
        return advance_move(move, MoveEvent.REFUSED, now)
    return move


def _is_as_predicted(move: Move, node: str, snapshot: Snapshot) -> bool:
    actual = snapshot.node.get(node)
    if actual is None:
        return False
    return all(actual.labels.get(target.topology_key) in target.values for target in move.targets)


def overlay_moves(snapshot: Snapshot, moves: Iterable[Move]) -> Snapshot:
    """Return the snapshot in which the pod of every move is at least terminating, unless it was refused.

    A request whose answer was lost counts as carried out, so that a pod which may be gone never counts as available.
    The pod of an unexecuted move counts unchanged, because no other pod of its workload or group is evicted meanwhile.
    """
    evicted = {move.uid: move for move in moves if overlays(move, snapshot)}
    if not evicted:
        return snapshot
    pods = tuple(
        msgspec.structs.replace(pod, deleted=evicted[pod.uid].requested_at) if pod.uid in evicted else pod
        for pod in snapshot.pods
    )
    return replace(snapshot, pods=pods)
