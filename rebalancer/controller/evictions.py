"""The eviction requests of one cycle: chooses the next, and applies each answer.

All evictions of a cycle are stored at once, before the first is requested, so that the next leader repeats none.

Groups are independent. Up to `budgets.parallel` of their requests are under way at the same time, and a refusal for one
group does not hold back another. Within a group, requests follow one another. An event in between (a pause, a lost
lease, a new policy, the end of the process) takes effect before the next request.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from msgspec import UNSET, UnsetType, structs

from rebalancer.account.happened import Blocked, Evicted, Failed, Occurrence
from rebalancer.admission.standing import charge, count_taken, discharge, is_in_force, refund
from rebalancer.controller.premises import describe_broken_premise
from rebalancer.controller.sender import PLAN_VALID_FOR
from rebalancer.controller.state import (
    Answered,
    Evict,
    Held,
    LoopState,
    NotSent,
    Requests,
    Save,
    Saved,
    UnderWay,
)
from rebalancer.documents.phrases import preempted_text
from rebalancer.model.moves import Memory, Move, MoveState, Reference
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload
from rebalancer.planning.eviction import Eviction
from rebalancer.policy import Mode
from rebalancer.ports import EvictionAnswer, EvictionResult, ReplicaCount
from rebalancer.tracking.backoff import forget_refusals, record_refusal
from rebalancer.tracking.moves import MoveEvent, advance_move
from rebalancer.tracking.own_failures import find_other_template
from rebalancer.tracking.requests import forget_extra_eviction, forget_request, record_request

MOST_SILENT_NAMESPACES = 3
"""If requests in this many namespaces had no answer, the API server has failed; in fewer, a webhook has."""

_MOST_TARGETS = 16
"""A move stores its targets only for keys with at most this many values, because the memory is bounded."""

_SHORT_WAIT, _LONG_WAIT = timedelta(seconds=10), timedelta(minutes=1)
_WAITS = {
    EvictionResult.BUDGET: _SHORT_WAIT,
    EvictionResult.STALE: _SHORT_WAIT,
    EvictionResult.THROTTLED: _SHORT_WAIT,
    EvictionResult.CONFLICT: _SHORT_WAIT,
    EvictionResult.FORBIDDEN: _LONG_WAIT,
    EvictionResult.REFUSED: _LONG_WAIT,
    EvictionResult.FAILED: _LONG_WAIT,
    EvictionResult.UNKNOWN: _LONG_WAIT,
}
"""How long a group waits after an answer that grants nothing; each further such answer in a row doubles it."""

_OF_BUDGETS = frozenset({EvictionResult.BUDGET, EvictionResult.STALE})

_EVENTS = {EvictionResult.EVICTED: MoveEvent.GRANTED, EvictionResult.GONE: MoveEvent.GONE}
"""The event of a move by the answer. Any other answer with a result is a refusal."""

_POD_MAY_BE_GONE = frozenset(
    {EvictionResult.EVICTED, EvictionResult.GONE, EvictionResult.CONFLICT, EvictionResult.UNKNOWN}
)
"""Answers after which the pod is gone or may be gone, by this request or by one whose answer was lost."""


def queue_evictions(state: LoopState, evictions: tuple[Eviction, ...], now: datetime) -> tuple[LoopState, Requests]:
    """Store the evictions of a cycle in the memory, to be requested once it is saved."""
    memory = state.memory
    for eviction in evictions:
        owner = state.cycle.snapshot.workload.get(eviction.owner_uid) if state.cycle is not None else None
        goal = eviction.repair.goal if eviction.repair.extra else None
        approval = _find_approval(state, eviction)
        move = _make_move(eviction, owner, approval, now)
        memory = record_request(memory, move, extra_goal=goal)
        if memory.standing and memory.standing.plan == approval:
            memory = charge(memory, eviction.pod.uid, count_taken(eviction))
    return replace(
        state, queue=replace(state.queue, evictions=evictions, sent={}, silent=frozenset()), memory=memory
    ), (Save(),)


def _find_approval(state: LoopState, eviction: Eviction) -> str | UnsetType:
    """Return the plan whose approval lets an eviction go, UNSET if no approval is needed."""
    approved_by = state.cycle.admission.approved_by if state.cycle is not None else {}
    return approved_by.get(eviction.pod.uid, UNSET)


def _make_move(eviction: Eviction, owner: Workload | None, approval: str | UnsetType, now: datetime) -> Move:
    pod = eviction.pod
    return Move(
        uid=pod.uid,
        namespace=pod.namespace,
        pod=pod.name,
        node=pod.node or "",
        workload=eviction.workload,
        owner_uid=eviction.owner_uid,
        replicas=owner.replicas if owner is not None else 0,
        template=find_other_template(pod, owner),
        cause=eviction.cause,
        group=eviction.group,
        targets=tuple(target for target in eviction.targets if len(target.values) <= _MOST_TARGETS),
        requested_at=now,
        changed_at=now,
        approval=approval,
    )


def drop_queue(state: LoopState, *, finish_steps: bool = False) -> LoopState:
    """Forget the evictions that were not requested.

    With `finish_steps`, evictions that a begun step requires remain, because half of such a step may leave a pod
    pending.
    """
    if not finish_steps:
        return _keep(state, ())
    remaining: list[Eviction] = []
    sent = Counter(state.queue.sent)
    for eviction in state.queue.evictions:
        if _is_required(sent, eviction):
            sent[eviction.group] += 1
            remaining.append(eviction)
    return _keep(state, tuple(remaining))


def _keep(state: LoopState, remaining: tuple[Eviction, ...]) -> LoopState:
    """Keep only these evictions of the queue, in the memory too."""
    uids = {eviction.pod.uid for eviction in remaining}
    following = replace(state, queue=replace(state.queue, evictions=remaining))
    for eviction in state.queue.evictions:
        if eviction.pod.uid not in uids:
            following = _forget(following, eviction.pod.uid)
    return following


def _forget(state: LoopState, uid: str) -> LoopState:
    """Forget a move that was not sent."""
    return replace(state, memory=discharge(forget_request(state.memory, uid), uid))


def _is_required(sent: Mapping[str, int], eviction: Eviction) -> bool:
    """Return whether an eviction belongs to a begun step that requires it."""
    return 0 < sent.get(eviction.group, 0) < eviction.needed


def request_evictions(state: LoopState, now: datetime) -> tuple[LoopState, Requests]:
    """Request as many evictions of the queue as may be under way, and save the state when none is left."""
    state = _drop_forbidden(state, now)
    requests: list[Evict] = []
    while (eviction := _next_eviction(state)) is not None:
        move = next(move for move in state.memory.moves if move.uid == eviction.pod.uid)
        preempts = preempted_text(eviction)
        expected = () if _is_required(state.queue.sent, eviction) else _expected(state, eviction)
        requests.append(Evict(move=move, term=state.leadership.term, expected=expected))
        state = replace(
            state,
            queue=replace(
                state.queue,
                evictions=tuple(queued for queued in state.queue.evictions if queued is not eviction),
                under_way=(*state.queue.under_way, UnderWay(uid=move.uid, group=move.group, preempts=preempts)),
                sent={**state.queue.sent, move.group: state.queue.sent.get(move.group, 0) + 1},
            ),
        )
    return state, tuple(requests)


def _drop_forbidden(state: LoopState, now: datetime) -> LoopState:
    """Drop evictions that may no longer be requested because of leadership, mode, or the age of the plan."""
    if not state.queue.evictions:
        return state
    if not state.leadership.leads or state.mode is Mode.OBSERVE or state.in_force.pause is not None:
        return drop_queue(state)
    state = _drop_withdrawn(state, now)
    assert state.cycle is not None
    too_old = now > state.cycle.context.now + PLAN_VALID_FOR  # unless the clock was set; the sender checks it exactly
    return drop_queue(state, finish_steps=True) if too_old or state.leadership.stopping else state


def _drop_withdrawn(state: LoopState, now: datetime) -> LoopState:
    """Drop evictions that were admitted by the approval of a whole plan that is now withdrawn or expired."""
    standing = state.memory.standing
    if not standing or is_in_force(standing, state.in_force.written, now):
        return state
    return _keep(state, tuple(one for one in state.queue.evictions if _find_approval(state, one) != standing.plan))


def _next_eviction(state: LoopState) -> Eviction | None:
    """Return the first queued eviction whose group has no request under way, if one more request may be."""
    if len(state.queue.under_way) >= state.in_force.policy.budgets.parallel:
        return None
    busy = {request.group for request in state.queue.under_way}
    return next((eviction for eviction in state.queue.evictions if eviction.group not in busy), None)


def _expected(state: LoopState, eviction: Eviction) -> tuple[tuple[Reference, ReplicaCount], ...]:
    """Return what each workload concerned wants and has if only Rebalancer's evictions have happened.

    These are the evicted pod's workload and, where the policy limits the moves of its group, all workloads of the
    group.
    """
    assert state.cycle is not None
    under_way = {request.uid for request in state.queue.under_way}
    taken = {
        move.uid: move.workload
        for move in state.memory.moves
        if move.state is MoveState.EVICTED or move.uid in under_way
    }
    counts = ((workload, state.cycle.count_replicas(workload)) for workload in sorted(state.cycle.sharers(eviction)))
    return tuple((workload, _without(state.cycle.snapshot, workload, count, taken)) for workload, count in counts)


def _without(
    snapshot: Snapshot, workload: Reference, count: ReplicaCount, taken: Mapping[str, Reference]
) -> ReplicaCount:
    """Return the count of a workload less the pods that Rebalancer has evicted or evicts now."""
    ready = 0
    for uid, owner in taken.items():
        pod = snapshot.pod.get(uid)
        ready += owner == workload and pod is not None and pod.ready and not pod.terminating
    pods = {uid: pod for uid, pod in (count.pods or {}).items() if uid not in taken}
    return ReplicaCount(count.wanted, count.ready - ready, pods)


def handle_saved(state: LoopState, event: Saved, now: datetime) -> tuple[LoopState, Requests]:
    """Request the queued evictions if the memory knows them; otherwise none of them may be sent."""
    following = replace(state, queue=replace(state.queue, unsaved=event.problem))
    if event.problem:
        return drop_queue(following, finish_steps=True), ()
    return request_evictions(following, now)


def handle_answer(state: LoopState, event: Answered, now: datetime) -> tuple[LoopState, Requests]:
    """Apply an answer to the pod's move, and request the next evictions that it allows."""
    preempts = next((request.preempts for request in state.queue.under_way if request.uid == event.uid), "")
    state = _end_request(state, event.uid)
    requested = next((move for move in state.memory.moves if move.uid == event.uid and not move.state.over), None)
    if requested is None:
        return _continue(state, now)
    result = event.answer.result
    move = requested
    if result is not EvictionResult.UNKNOWN:
        move = advance_move(requested, _EVENTS.get(result, MoveEvent.REFUSED), now)
    memory, wait = state.memory, _WAITS.get(result)
    answer = event.answer
    if result in _OF_BUDGETS and state.cycle is not None:
        premise = describe_broken_premise(requested, state.cycle.snapshot, answer.message)
        answer = structs.replace(answer, message=premise)
    if wait is not None:
        memory = _record_refusal(memory, requested, answer, now, wait)
        move = _defer(move, answer, memory)
    elif result is EvictionResult.EVICTED:
        memory = forget_refusals(memory, requested.group)
    moves = tuple(move if other.uid == event.uid else other for other in memory.moves)
    memory = structs.replace(memory, moves=moves)
    if result not in _POD_MAY_BE_GONE and move.deferred_until is None:
        memory = forget_extra_eviction(memory, move.uid)
        if not _may_still_take_place(state.memory, requested):
            memory = refund(memory, move.uid)
    following = replace(_note_right(state, requested, event.answer), memory=memory)
    if wait is not None:
        # The cluster differs from this step's snapshot; steps of other groups do not depend on that.
        following = _drop_group(following, requested.group)
    following = _hold_all(following, requested, event)
    return _continue(replace(following, happened=_find_occurrence(move, answer, preempts)), now)


def _may_still_take_place(memory: Memory, move: Move) -> bool:
    """Return whether an earlier request for the eviction may be carried out although this one was refused.

    The earlier request is the last leader's, or an admission webhook refused it: the webhook may remove the pod later.
    """
    return move.repeats is not None or any(one.group == move.group and one.refuser for one in memory.refused)


def _record_refusal(memory: Memory, move: Move, answer: EvictionAnswer, now: datetime, wait: timedelta) -> Memory:
    """Store that the group of a move waits: at first for `wait`, or as long as the server asks."""
    least = max(wait, timedelta(seconds=answer.retry_after))
    denial = answer.denial
    if denial is None:
        words = answer.message if answer.result in _OF_BUDGETS else ""
        return record_refusal(memory, move.group, now, least, words=words)
    pod = f"{move.namespace}/{move.pod}"
    return record_refusal(memory, move.group, now, least, refuser=denial.refuser, words=denial.words, pod=pod)


def _defer(move: Move, answer: EvictionAnswer, memory: Memory) -> Move:
    """Record until when the webhook that refused an eviction for the moment may still carry it out."""
    if answer.denial is None or not answer.denial.is_temporary:
        return move
    until = next(refused.next_try for refused in memory.refused if refused.group == move.group)
    return structs.replace(move, deferred_until=until)


def _note_right(state: LoopState, move: Move, answer: EvictionAnswer) -> LoopState:
    """Store why this account may not evict in a namespace, until the next answer from that namespace."""
    others = {space: message for space, message in state.queue.forbidden.items() if space != move.namespace}
    if answer.result is EvictionResult.FORBIDDEN:
        return replace(state, queue=replace(state.queue, forbidden={**others, move.namespace: answer.message}))
    return replace(state, queue=replace(state.queue, forbidden=others))


def _hold_all(state: LoopState, move: Move, event: Answered) -> LoopState:
    """Hold back everything if the answer is about the server, not about one pod or its namespace's webhook."""
    if event.overload is not None:
        dropped = drop_queue(state, finish_steps=True)
        return replace(dropped, queue=replace(dropped.queue, overload=event.overload))
    if event.answer.result is EvictionResult.UNKNOWN:
        state = replace(state, queue=replace(state.queue, silent=state.queue.silent | {move.namespace}))
        if len(state.queue.silent) >= MOST_SILENT_NAMESPACES:
            return drop_queue(state, finish_steps=True)
    return state


def handle_unsent(state: LoopState, event: NotSent, now: datetime) -> tuple[LoopState, Requests]:
    """Forget a request that was not sent, and the evictions that its objection holds back.

    A request of an earlier term does not hold back later plans. Its move is resolved like a move without an answer,
    because another leader may have stored a move for the same pod.
    """
    if event.term != state.leadership.term:
        return _continue(_end_request(state, event.uid), now)
    move = next((move for move in state.memory.moves if move.uid == event.uid), None)
    following = _forget(_end_request(state, event.uid), event.uid)
    if move is not None:
        following = _drop_group(following, move.group)
    if event.held is not Held.GROUP:
        following = drop_queue(following, finish_steps=event.held is Held.STEPS)
    return _continue(following, now)


def _end_request(state: LoopState, uid: str) -> LoopState:
    return replace(
        state,
        queue=replace(state.queue, under_way=tuple(request for request in state.queue.under_way if request.uid != uid)),
    )


def _drop_group(state: LoopState, group: str) -> LoopState:
    return _keep(state, tuple(eviction for eviction in state.queue.evictions if eviction.group != group))


def _continue(state: LoopState, now: datetime) -> tuple[LoopState, Requests]:
    """Request the next evictions; when the last one is answered, save the outcomes."""
    following, requests = request_evictions(state, now)
    return following, requests if following.busy else save_if_leading(following)


def save_if_leading(state: LoopState) -> Requests:
    """Request that the memory is saved; only the leader writes."""
    return (Save(),) if state.leadership.leads else ()


def _find_occurrence(move: Move, answer: EvictionAnswer, preempts: str) -> tuple[Occurrence, ...]:
    match answer.result:
        case EvictionResult.EVICTED:
            return (Evicted(move, preempts),)
        case EvictionResult.BUDGET | EvictionResult.STALE:
            return (Blocked(move, answer.message),)
        case EvictionResult.REFUSED if answer.denial is not None:
            return (Blocked(move, f"{answer.denial.refuser} refused the eviction: {answer.denial.words}"),)
        case EvictionResult.GONE | EvictionResult.CONFLICT:
            return ()
        case _:
            return (Failed(move, f"{answer.result}: {answer.message}"),)
