"""Back-off: a repair that does not come out as foreseen is not repeated at once, and not for ever.

Each miss in a row doubles the wait; after the last one the group is left alone until it holds by other means.
"""

from datetime import datetime, timedelta

import msgspec

from rebalancer.model.moves import MAX_FAILED_PREDICTIONS, FailedPrediction, Memory, Move, MoveState
from rebalancer.tracking.requests import forget_extra_eviction

FIRST_WAIT = timedelta(minutes=5)
_MISSES = frozenset({MoveState.INEFFECTIVE, MoveState.LOST})


def record_failure(memory: Memory, group: str, now: datetime) -> Memory:
    """Return the memory after one more miss of a group."""
    times = next((miss.times for miss in memory.failed_predictions if miss.group == group), 0)
    others = (miss for miss in memory.failed_predictions if miss.group != group)
    return msgspec.structs.replace(
        memory, failed_predictions=tuple(sorted((*others, FailedPrediction(group, times + 1, now)), key=_name))
    )


def _name(miss: FailedPrediction) -> str:
    return miss.group


def record_outcomes(memory: Memory, before: tuple[Move, ...], now: datetime) -> Memory:
    """Return the memory after the moves that have ended since `before`.

    Misses are counted, a success forgets them, and what was never granted has cost nothing.
    """
    over = {move.uid for move in before if move.state.over}
    for move in memory.moves:
        if move.uid in over or not move.state.over:
            continue
        if move.state in _MISSES:
            memory = record_failure(memory, move.group, now)
        elif move.state is MoveState.VERIFIED:
            kept = tuple(miss for miss in memory.failed_predictions if miss.group != move.group)
            memory = msgspec.structs.replace(memory, failed_predictions=kept)
        else:
            memory = forget_extra_eviction(memory, move.uid)
    return memory


def backoff_message(memory: Memory, group: str, now: datetime) -> str:
    """Say why a group is left alone for now, "" if it is not."""
    miss = next((miss for miss in memory.failed_predictions if miss.group == group), None)
    if miss is None:
        return ""
    if miss.times >= MAX_FAILED_PREDICTIONS:
        return f"{miss.times} moves in a row did not come out as foreseen; left alone until it holds again"
    wait = FIRST_WAIT * 2 ** (miss.times - 1)
    left = wait - (now - miss.last)
    return (
        f"the last move did not come out as foreseen; tried again in {int(left.total_seconds())}s"
        if left > timedelta(0)
        else ""
    )
