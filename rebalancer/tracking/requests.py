"""What is remembered of an eviction before it is asked for, and what of that is taken back where it did not happen."""

import msgspec

from rebalancer.model.moves import ExtraEviction, Memory, Move


def record_request(memory: Memory, move: Move, *, spare_goal: int | None) -> Memory:
    """Return the memory with a move that is about to be asked for.

    `spare_goal` is what its step promises if it may take the repair's eviction to spare, None if it may not.
    """
    # A pod that was asked for before and stayed has one move, not two.
    others = (each for each in memory.moves if each.uid != move.uid)
    memory = msgspec.structs.replace(memory, moves=(*others, move), sent=(*memory.sent, move.asked_at))
    if spare_goal is None:
        return memory
    # Such a step is one eviction, so its answer says whether it was taken.
    kept = (each for each in memory.extra_evictions if each.group != move.group)
    spare = ExtraEviction(group=move.group, goal=spare_goal, uid=move.uid)
    return msgspec.structs.replace(memory, extra_evictions=tuple(sorted((*kept, spare))))


def forget_request(memory: Memory, uid: str) -> Memory:
    """Return the memory without a move that was never sent, as if nobody had meant to.

    A process that takes over from what was saved in between still knows it, as one whose answer was lost: for two
    minutes it counts as in flight, and for one it counts against the rate.
    """
    moment = next((move.asked_at for move in memory.moves if move.uid == uid), None)
    sent = list(memory.sent)
    if moment in sent:
        sent.remove(moment)
    moves = tuple(move for move in memory.moves if move.uid != uid)
    return forget_extra_eviction(msgspec.structs.replace(memory, moves=moves, sent=tuple(sent)), uid)


def forget_extra_eviction(memory: Memory, uid: str) -> Memory:
    """Return the memory after nothing came of a request: the eviction to spare, if it was one, is still to be had."""
    spares = tuple(each for each in memory.extra_evictions if each.uid != uid)
    return (
        memory
        if len(spares) == len(memory.extra_evictions)
        else msgspec.structs.replace(memory, extra_evictions=spares)
    )
