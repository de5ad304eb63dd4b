"""One eviction after the other: what is asked for next, and what follows from the answer.

Whatever arrives between two of them (a lost lease, a new policy, the end of the process) takes effect before the next.
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

SENT_WITHIN = timedelta(seconds=5)
"""How long after its snapshot a plan is acted on; what is left then waits for a plan on what is."""

_MOST_TARGETS = 16
"""A move remembers where its replacement may land only for keys with so few domains: memory is bounded."""


def next_eviction(state: LoopState, now: datetime) -> tuple[LoopState, Requests]:
    """Take the next eviction from the queue, if nothing speaks against it."""
    old = state.cycle is None or now - state.cycle.context.now > SENT_WITHIN
    if not state.queue or not state.leads or state.stopping or old or state.mode is Mode.OBSERVE or state.pause:
        return replace(state, queue=()), ()
    eviction, *rest = state.queue
    move = _move(eviction, now)
    goal = eviction.repair.goal if eviction.repair.spare else None
    memory = record_request(state.memory, move, extra_goal=goal)
    # What is about to be done is remembered before it is: the next leader must not do it again.
    return replace(state, queue=tuple(rest), memory=memory), (Save(), Evict(move=move))


def _move(eviction: Eviction, now: datetime) -> Move:
    pod = eviction.pod
    return Move(
        uid=pod.uid,
        namespace=pod.namespace,
        pod=pod.name,
        node=pod.node or "",
        workload=eviction.workload,
        owner_uid=eviction.owner_uid,
        cause=eviction.cause,
        group=eviction.group,
        targets=tuple(each for each in eviction.targets if len(each.values) <= _MOST_TARGETS),
        asked_at=now,
        changed_at=now,
    )


_LEFT = frozenset({EvictionResult.EVICTED, EvictionResult.GONE, EvictionResult.CONFLICT, EvictionResult.UNKNOWN})
"""Answers after which the pod is gone or may be, by this request or by one whose answer was lost."""

_GRANTED = frozenset({EvictionResult.EVICTED, EvictionResult.GONE})
_ENDS_EVERYTHING = frozenset({EvictionResult.THROTTLED, EvictionResult.UNKNOWN})
"""Answers that speak of the server, not of the pod: the rest waits for the next plan."""

_WILL_NOT_PASS = frozenset({EvictionResult.FORBIDDEN, EvictionResult.FAILED})
"""Refusals that asking again does not change: the group's repair is put off as after a miss."""


def handle_answer(state: LoopState, event: Answered, now: datetime) -> tuple[LoopState, Requests]:
    """Take an answer: what it says of the pod, and whether the next eviction may be asked for after it."""
    asked = next((move for move in state.memory.moves if move.uid == event.uid and not move.state.over), None)
    if asked is None:
        return state, ()
    result = event.answer.result
    move = asked
    if result is EvictionResult.EVICTED:
        move = advance_move(asked, MoveEvent.GRANTED, now)
    elif result is not EvictionResult.UNKNOWN:
        move = advance_move(asked, MoveEvent.REFUSED, now)
    moves = tuple(move if each.uid == event.uid else each for each in state.memory.moves)
    memory = msgspec.structs.replace(state.memory, moves=moves)
    if result not in _LEFT:
        memory = forget_extra_eviction(memory, move.uid)
    if result in _WILL_NOT_PASS:
        memory = record_failure(memory, asked.group, now)
    following = replace(state, memory=memory)
    if result in _ENDS_EVERYTHING:
        following = replace(following, queue=())
    elif result not in _GRANTED:
        # The world is not as this step was planned for; other groups' steps do not depend on it.
        following = replace(following, queue=tuple(each for each in state.queue if each.group != asked.group))
    following, more = next_eviction(following, now)
    published = tuple(Publish(event=each) for each in _events(move, event.answer))
    return following, (*published, *(more or save_if_leading(following)))


def handle_unsent(state: LoopState, event: NotSent) -> tuple[LoopState, Requests]:
    """Take back what was not sent; whatever was to follow it waits for the next plan."""
    following = replace(state, queue=(), memory=forget_request(state.memory, event.uid))
    return following, save_if_leading(following)


def save_if_leading(state: LoopState) -> Requests:
    """Ask for the memory to be kept; only the leader writes."""
    return (Save(),) if state.leads else ()


def _events(move: Move, answer: EvictionAnswer) -> tuple[Event, ...]:
    match answer.result:
        case EvictionResult.EVICTED:
            places = ", ".join(f"{each.topology_key} {'/'.join(each.values[:4])}" for each in move.targets)
            return move_events(
                EventReason.EVICTED, f"evicted from {move.node} to repair {move.cause}; to {places}", move
            )
        case EvictionResult.BUDGET | EvictionResult.STALE:
            return move_events(EventReason.EVICTION_BLOCKED, answer.message, move)
        case EvictionResult.GONE | EvictionResult.CONFLICT:
            return ()
        case _:
            return move_events(EventReason.EVICTION_FAILED, f"{answer.result}: {answer.message}", move)
