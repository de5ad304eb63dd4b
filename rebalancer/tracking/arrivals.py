"""Which replacements have arrived, and which are overdue because they do not run.

Nobody can know beforehand whether a cluster replaces evicted pods: an image may be gone, a registry may not answer, a
scheduler may place nothing. So a move is under way until its replacement has arrived: the replacement is Ready, or has
been bound to a node for `ARRIVAL` and nothing is wrong with it. Being bound is enough, because many applications take
minutes to become Ready.

A created replacement is overdue

* when it is not bound within `breaker.pendingFor`;
* when its kubelet says why a container does not run;
* when it has failed;
* when its node has made no sandbox for it within `SANDBOX`.

A slow start is not overdue. An overdue replacement has arrived when it is Ready, or has run for `PROOF`. For
replacements that were never created, see `tracking.uncreated`.

All times are by this controller's clock, counted from the snapshot that first shows a state.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from rebalancer.model.moves import Move, MoveState
from rebalancer.model.pods import NO_SANDBOX, Pod, PodPhase
from rebalancer.model.snapshot import Snapshot
from rebalancer.tracking.uncreated import creation_deadline

ARRIVAL: Final = timedelta(seconds=15)
"""A replacement has arrived once it is bound for this long without a reason why it does not run."""

SANDBOX: Final = timedelta(minutes=2)
"""How long a node may take to make a pod's sandbox, which needs the pod's network and volumes first."""

LONG_GRACE: Final = timedelta(minutes=1)
"""How long a terminating pod takes a place in the windows of slow start; after that, only its workload waits."""

CLUSTER_PLACE: Final = timedelta(minutes=2)
"""A move without progress for this long takes no place in the cluster's window, only in its namespace's.

It is at least `SANDBOX`: a failure of the cluster itself is overdue by then if `breaker.pendingFor` is no longer.
"""

UNANSWERED: Final = timedelta(seconds=10)
"""An eviction without an answer for this long, whose pod is unchanged, was probably not granted."""

PROOF: Final = timedelta(minutes=2)
"""A replacement that is bound for this long proves that the cluster replaces pods, even if it is not Ready.

An image that cannot be pulled shows within that time.
"""

UNSCHEDULABLE: Final = "it is not bound to a node"
FAILED: Final = "it has failed"


def note_arrival(move: Move, before: Move, snapshot: Snapshot, pending_for: timedelta, now: datetime) -> Move:
    """Return a move with whether its replacement has arrived or is overdue.

    `before` is the move before this snapshot. `pending_for` is how long a replacement may wait for a node.
    """
    if before.replacement != move.replacement and _has_failed(snapshot.pod.get(before.replacement)):
        move = _with(move, unstarted=FAILED)  # the next replacement has to run to prove anything
    match move.state:
        case MoveState.VERIFIED | MoveState.INEFFECTIVE:
            return _with(move, arrived=True)
        case MoveState.EVICTED:
            return _with(move, unstarted=move.unstarted)
        case MoveState.PENDING | MoveState.LOST if move.replacement:
            pod = snapshot.pod.get(move.replacement)
            if pod is None or pod.ready or (move.state is MoveState.LOST and not _is_followed(move, before)):
                return _with(move, arrived=move.arrived)
            return _follow(move, pod, pending_for, now)
        case _:
            return _with(move)


def _has_failed(pod: Pod | None) -> bool:
    return pod is not None and pod.phase is PodPhase.FAILED


def _is_followed(move: Move, before: Move) -> bool:
    """Return whether a lost move still matters: until its replacement runs, or is gone."""
    return move.unstarted is not None or not before.state.over


def _follow(move: Move, pod: Pod, pending_for: timedelta, now: datetime) -> Move:
    """Return a move whose replacement exists and is not Ready."""
    if _has_failed(pod):
        return _with(move, unstarted=FAILED)
    if pod.node is None:
        late = now - move.changed_at >= pending_for
        return _with(move, unstarted=UNSCHEDULABLE if late else move.unstarted)
    since = move.bound_since or now
    if pod.start_failure == NO_SANDBOX:
        late = move.unstarted == NO_SANDBOX or now - since >= SANDBOX
        return _with(move, bound_since=since, unstarted=NO_SANDBOX if late else move.unstarted)
    if pod.start_failure:
        return _with(move, unstarted=pod.start_failure)
    return _wait(move, since, now)


def _wait(move: Move, since: datetime, now: datetime) -> Move:
    """Return a move whose replacement has been bound since `since`, with nothing wrong."""
    # A replacement that showed why it does not run may run for some seconds between two crashes.
    patience = ARRIVAL if move.unstarted in {None, UNSCHEDULABLE} else PROOF
    arrived = move.arrived or now - since >= patience
    return _with(move, bound_since=since, arrived=arrived, unstarted=None if arrived else move.unstarted)


def _with(
    move: Move, *, bound_since: datetime | None = None, arrived: bool = False, unstarted: str | None = None
) -> Move:
    if (move.bound_since, move.arrived, move.unstarted) == (bound_since, arrived, unstarted):
        return move
    return structs.replace(move, bound_since=bound_since, arrived=arrived, unstarted=unstarted)


def note_victim(move: Move, snapshot: Snapshot, now: datetime) -> Move:
    """Return a move with the time at which its victim was last seen terminating within a long grace period."""
    if move.state.over or now - move.requested_at < LONG_GRACE:
        return move
    victim = snapshot.pod.get(move.uid)
    ends = victim.deleted if victim is not None else None
    return structs.replace(move, victim_seen=now) if ends is not None and now < ends else move


def is_under_way(move: Move, snapshot: Snapshot, now: datetime) -> bool:
    """Return whether a move takes a place in the windows of slow start, because its replacement has still to arrive.

    An overdue move holds its workload or namespace instead; so does a move whose victim takes long to end. A request
    without an answer takes a place as long as a snapshot may still show that it was granted.
    """
    if move.state.over or move.arrived or move.overdue or is_ending(move, snapshot, now):
        return False
    return move.state is not MoveState.PLANNED or now - move.requested_at < UNANSWERED


def keeps_cluster_place(move: Move, now: datetime) -> bool:
    """Return whether a move that is under way takes a place in the cluster's window as well as in its namespace's."""
    return now < _leaves_cluster_window(move)


def _leaves_cluster_window(move: Move) -> datetime:
    """Return when a move without progress leaves the cluster's window, counted from its last state or binding."""
    return max(move.changed_at, move.bound_since or move.changed_at) + CLUSTER_PLACE


def is_ending(move: Move, snapshot: Snapshot, now: datetime) -> bool:
    """Return whether a move's victim still terminates after `LONG_GRACE`, when most pods are gone."""
    if move.state is not MoveState.EVICTED or now - move.changed_at < LONG_GRACE:
        return False
    victim = snapshot.pod.get(move.uid)
    return victim is not None and victim.terminating


def is_proof(move: Move, now: datetime) -> bool:
    """Return whether a move proves that the cluster replaces pods: its replacement became Ready, or ran for `PROOF`."""
    if move.state in {MoveState.VERIFIED, MoveState.INEFFECTIVE}:
        return True
    return move.arrived and move.bound_since is not None and now - move.bound_since >= PROOF


def find_next_change(moves: Iterable[Move], pending_for: timedelta, now: datetime) -> datetime | None:
    """Return the next time at which time itself may change whether a move is under way; None if none is known."""
    due = (
        moment
        for move in moves
        if not (move.state.over or move.arrived or move.overdue)
        for moment in _deadlines(move, pending_for)
        if moment > now
    )
    return min(due, default=None)


def _deadlines(move: Move, pending_for: timedelta) -> Iterator[datetime]:
    """Yield when a replacement arrives or is overdue, its move leaves the cluster's window, or the victim ends late."""
    if move.state is MoveState.PLANNED:
        yield move.requested_at + UNANSWERED
        return
    yield _leaves_cluster_window(move)
    if move.bound_since is not None:
        yield from (move.bound_since + ARRIVAL, move.bound_since + SANDBOX)
    elif move.state is MoveState.PENDING:
        yield move.changed_at + pending_for
    else:
        yield from (move.changed_at + LONG_GRACE, creation_deadline(move))
