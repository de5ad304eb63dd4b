"""Back-off: a repair whose prediction failed is not repeated at once, and only a few times.

Each failed prediction in a row doubles the wait. After the last one no repair of the group is planned until it is
satisfied by other means.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from rebalancer.model.moves import MAX_FAILED_PREDICTIONS, FailedPrediction, Memory, Move, MoveState
from rebalancer.tracking.requests import forget_extra_eviction

FIRST_WAIT = timedelta(minutes=5)
_FAILED = frozenset({MoveState.INEFFECTIVE, MoveState.LOST})


def record_failure(memory: Memory, group: str, now: datetime) -> Memory:
    """Return the memory after one more failed prediction for a group."""
    times = next((failure.times for failure in memory.failed_predictions if failure.group == group), 0)
    others = (failure for failure in memory.failed_predictions if failure.group != group)
    failures = sorted((*others, FailedPrediction(group, times + 1, now)), key=_group_of)
    return msgspec.structs.replace(memory, failed_predictions=tuple(failures))


def _group_of(failure: FailedPrediction) -> str:
    return failure.group


def record_outcomes(memory: Memory, before: tuple[Move, ...], now: datetime) -> Memory:
    """Return the memory after the moves that have ended since `before`.

    A failed prediction is counted, a verified move resets the count, and a refused move used no extra eviction. A move
    that its owner has overtaken says nothing about the prediction.
    """
    ended_before = {move.uid for move in before if move.state.over}
    for move in memory.moves:
        if move.uid in ended_before or not move.state.over:
            continue
        if move.state in _FAILED:
            memory = record_failure(memory, move.group, now)
        elif move.state is MoveState.VERIFIED:
            others = tuple(failure for failure in memory.failed_predictions if failure.group != move.group)
            memory = msgspec.structs.replace(memory, failed_predictions=others)
        elif move.state is MoveState.REFUSED:
            memory = forget_extra_eviction(memory, move.uid)
    return memory


class Backoff(NamedTuple):
    """A group is left alone after `times` failed predictions in a row: for `left`, or None for good."""

    times: int
    left: timedelta | None


def find_backoff(memory: Memory, group: str, now: datetime) -> Backoff | None:
    """Return how a group backs off now, None if it does not."""
    failure = next((failure for failure in memory.failed_predictions if failure.group == group), None)
    if failure is None:
        return None
    if failure.times >= MAX_FAILED_PREDICTIONS:
        return Backoff(failure.times, None)
    waited = max(timedelta(0), now - failure.last)  # a clock that was set back must not prolong the wait
    left = FIRST_WAIT * 2 ** (failure.times - 1) - waited
    return Backoff(failure.times, left) if left > timedelta(0) else None
