"""Stores an eviction in the memory before it is requested, and removes it if the eviction did not happen."""

from datetime import datetime

import msgspec

from rebalancer.model.moves import ExtraEviction, Memory, Move, SentRequest, make_place


def sent_request(move: Move) -> SentRequest:
    """Return the part of a move that the rates count."""
    return SentRequest(move.requested_at, make_place(move.node), make_place(move.namespace))


def record_request(memory: Memory, move: Move, *, extra_goal: int | None) -> Memory:
    """Return the memory with a move that is about to be requested.

    `extra_goal` is set if the move may be the repair's one extra eviction: it is if more than `extra_goal` evictions
    are left afterwards.
    """
    # If a pod's eviction was requested before and the pod stayed, it has one move, not two. The pod is evicted at most
    # once, so only the repeated request counts for the rates, not the earlier leader's.
    for known in memory.moves:
        if known.uid == move.uid and known.unexecuted:
            memory = msgspec.structs.replace(memory, sent=_without(memory.sent, sent_request(known)))
            move = msgspec.structs.replace(move, repeats=known.requested_at)
    others = (other for other in memory.moves if other.uid != move.uid)
    memory = msgspec.structs.replace(memory, moves=(*others, move), sent=(*memory.sent, sent_request(move)))
    if extra_goal is None:
        return memory
    # Such a step is a single eviction, so its answer says whether the extra eviction was used.
    others_extra = (extra for extra in memory.extra_evictions if extra.group != move.group)
    extra = ExtraEviction(group=move.group, goal=extra_goal, uid=move.uid)
    return msgspec.structs.replace(memory, extra_evictions=tuple(sorted((*others_extra, extra))))


def forget_request(memory: Memory, uid: str) -> Memory:
    """Return the memory without a move that was never sent; if it repeats an earlier move, that move is restored.

    A process that takes over from the memory saved in between still has the move, as if its answer were lost: it counts
    as in flight for two minutes, unless its pod is read (`note_remaining`), and for one minute against the rate.
    """
    known = next((move for move in memory.moves if move.uid == uid), None)
    if known is None:
        return forget_extra_eviction(memory, uid)
    moves, sent = tuple(move for move in memory.moves if move.uid != uid), _without(memory.sent, sent_request(known))
    if known.repeats is not None:
        first = resume_first(known, known.repeats)
        moves, sent = (*moves, first), tuple(sorted((*sent, sent_request(first))))
    return forget_extra_eviction(msgspec.structs.replace(memory, moves=moves, sent=sent), uid)


def resume_first(move: Move, first: datetime) -> Move:
    """Return the move of `first` that a move repeats, unexecuted: its request may still be carried out."""
    return msgspec.structs.replace(move, requested_at=first, repeats=None, unexecuted=True)


def _without(sent: tuple[SentRequest, ...], request: SentRequest) -> tuple[SentRequest, ...]:
    """Return the requests without one that equals this one, if there is any."""
    if request not in sent:
        return sent
    position = sent.index(request)
    return sent[:position] + sent[position + 1 :]


def forget_extra_eviction(memory: Memory, uid: str) -> Memory:
    """Return the memory after a request without effect: if it was the repair's extra eviction, that is unused."""
    extras = tuple(extra for extra in memory.extra_evictions if extra.uid != uid)
    if len(extras) == len(memory.extra_evictions):
        return memory
    return msgspec.structs.replace(memory, extra_evictions=extras)
