"""Evictions one after the other: the next request, and the effect of each answer.

An event between two evictions (a lost lease, a new policy, the end of the process) takes effect before the next one.
"""

from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from rebalancer.controller.state import Answered, Evict, LoopState, NotSent, Publish, Requests, Save
from rebalancer.model.events import Event, EventReason
from rebalancer.model.moves import Move
from rebalancer.planning.plan import Eviction
from rebalancer.policy import Mode
from rebalancer.ports import EvictionAnswer, EvictionResult
from rebalancer.reporting.events.workload_events import move_events
from rebalancer.tracking.backoff import record_failure
from rebalancer.tracking.moves import MoveEvent, advance_move
from rebalancer.tracking.requests import forget_extra_eviction, forget_request, record_request

PLAN_VALID_FOR = timedelta(seconds=5)
"""How long after its snapshot a plan is carried out; the rest waits for a newer plan."""

_MOST_TARGETS = 16
"""A move stores its targets only for keys with so few values, because the memory is bounded."""


def next_eviction(state: LoopState, now: datetime) -> tuple[LoopState, Requests]:
    """Request the next eviction of the queue, unless the plan is too old, or this process may not evict now."""
    old = state.cycle is None or now - state.cycle.context.now > PLAN_VALID_FOR
    if not state.queue or not state.leads or state.stopping or old or state.mode is Mode.OBSERVE or state.pause:
        return replace(state, queue=()), ()
    eviction, *rest = state.queue
    owner = state.cycle.snapshot.workload.get(eviction.owner_uid) if state.cycle is not None else None
    move = _make_move(eviction, owner.replicas if owner is not None else 0, now)
    goal = eviction.repair.goal if eviction.repair.extra else None
    memory = record_request(state.memory, move, extra_goal=goal)
    # The request is stored before it is sent: the next leader must not repeat it.
    return replace(state, queue=tuple(rest), memory=memory), (Save(), Evict(move=move))


def _make_move(eviction: Eviction, replicas: int, now: datetime) -> Move:
    pod = eviction.pod
    return Move(
        uid=pod.uid,
        namespace=pod.namespace,
        pod=pod.name,
        node=pod.node or "",
        workload=eviction.workload,
        owner_uid=eviction.owner_uid,
        replicas=replicas,
        cause=eviction.cause,
        group=eviction.group,
        targets=tuple(target for target in eviction.targets if len(target.values) <= _MOST_TARGETS),
        requested_at=now,
        changed_at=now,
    )


_POD_MAY_BE_GONE = frozenset(
    {EvictionResult.EVICTED, EvictionResult.GONE, EvictionResult.CONFLICT, EvictionResult.UNKNOWN}
)
"""Answers after which the pod is gone or may be gone, by this request or by one whose answer was lost."""

_GRANTED = frozenset({EvictionResult.EVICTED, EvictionResult.GONE})
_ENDS_CYCLE = frozenset({EvictionResult.THROTTLED, EvictionResult.UNKNOWN})
"""Answers about the server, not about the pod: the remaining evictions wait for the next plan."""

_PERMANENT = frozenset({EvictionResult.FORBIDDEN, EvictionResult.FAILED})
"""Refusals that a retry does not change: the group backs off as after a failed prediction."""


# Many branches: one for each meaning of an answer, in the order in which memory and queue take it.
def handle_answer(state: LoopState, event: Answered, now: datetime) -> tuple[LoopState, Requests]:
    """Apply an answer to the pod's move, and request the next eviction if the answer allows it."""
    requested = next((move for move in state.memory.moves if move.uid == event.uid and not move.state.over), None)
    if requested is None:
        return state, ()
    result = event.answer.result
    move = requested
    if result is EvictionResult.EVICTED:
        move = advance_move(requested, MoveEvent.GRANTED, now)
    elif result is not EvictionResult.UNKNOWN:
        move = advance_move(requested, MoveEvent.REFUSED, now)
    moves = tuple(move if other.uid == event.uid else other for other in state.memory.moves)
    memory = msgspec.structs.replace(state.memory, moves=moves)
    if result not in _POD_MAY_BE_GONE:
        memory = forget_extra_eviction(memory, move.uid)
    if result in _PERMANENT:
        memory = record_failure(memory, requested.group, now)
    following = replace(state, memory=memory)
    if result in _ENDS_CYCLE:
        following = replace(following, queue=())
    elif result not in _GRANTED:
        # The cluster differs from the snapshot of this step; the steps of other groups do not depend on it.
        following = replace(
            following, queue=tuple(eviction for eviction in state.queue if eviction.group != requested.group)
        )
    following, more = next_eviction(following, now)
    published = tuple(Publish(event=note) for note in _answer_events(move, event.answer))
    return following, (*published, *(more or save_if_leading(following)))


def handle_unsent(state: LoopState, event: NotSent) -> tuple[LoopState, Requests]:
    """Forget a request that was not sent; the evictions after it wait for the next plan."""
    following = replace(state, queue=(), memory=forget_request(state.memory, event.uid))
    return following, save_if_leading(following)


def save_if_leading(state: LoopState) -> Requests:
    """Request that the memory is saved; only the leader writes."""
    return (Save(),) if state.leads else ()


def _answer_events(move: Move, answer: EvictionAnswer) -> tuple[Event, ...]:
    match answer.result:
        case EvictionResult.EVICTED:
            places = ", ".join(f"{target.topology_key} {'/'.join(target.values[:4])}" for target in move.targets)
            return move_events(
                EventReason.EVICTED, f"evicted from {move.node} to repair {move.cause}; to {places}", move
            )
        case EvictionResult.BUDGET | EvictionResult.STALE:
            return move_events(EventReason.EVICTION_BLOCKED, answer.message, move)
        case EvictionResult.GONE | EvictionResult.CONFLICT:
            return ()
        case _:
            return move_events(EventReason.EVICTION_FAILED, f"{answer.result}: {answer.message}", move)
