"""Back-off: a failure of a group is not repeated at once. One group's failures never delay another group.

A failed prediction is repeated only a few times. Each failure in a row doubles the wait; after the last, no repair of
the group is planned until it is satisfied by other means. A request that was not granted is repeated without end,
because the refuser may recover. Each refusal in a row doubles the wait, up to an hour.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from rebalancer.model.moves import (
    MAX_FAILED_PREDICTIONS,
    FailedPrediction,
    Memory,
    Move,
    MoveState,
    RefusedRequest,
)
from rebalancer.tracking.moves import is_deferred
from rebalancer.tracking.requests import forget_extra_eviction

FIRST_WAIT = timedelta(minutes=5)
"""The wait after the first failed prediction in a row."""

LONGEST_WAIT = timedelta(hours=1)
"""The longest wait after refused requests."""

_FAILED = frozenset({MoveState.INEFFECTIVE, MoveState.LOST})

_UNGRANTED = frozenset({MoveState.PLANNED, MoveState.REFUSED})


def record_failure(memory: Memory, group: str, now: datetime) -> Memory:
    """Return the memory after one more failed prediction for a group."""
    times = next((failure.times for failure in memory.failed_predictions if failure.group == group), 0)
    others = (failure for failure in memory.failed_predictions if failure.group != group)
    failures = sorted((*others, FailedPrediction(group, times + 1, now)), key=_group_of)
    return msgspec.structs.replace(memory, failed_predictions=tuple(failures))


def forget_failures(memory: Memory, group: str) -> Memory:
    """Return the memory after a verified prediction for a group."""
    others = tuple(failure for failure in memory.failed_predictions if failure.group != group)
    return msgspec.structs.replace(memory, failed_predictions=others)


def _group_of(failure: FailedPrediction) -> str:
    return failure.group


def record_outcomes(memory: Memory, before: tuple[Move, ...], now: datetime) -> Memory:
    """Return the memory after the moves that have ended since `before`.

    A failed prediction is counted, and a verified move resets the count. A refused move used no extra eviction, unless
    the refuser may still carry it out. A move that its owner has overtaken says nothing about the prediction. An
    eviction that took place despite a refusal or a lost answer does not count as refused.
    """
    ended_before = {move.uid for move in before if move.state.over and move.state is not MoveState.REFUSED}
    ungranted = {move.uid for move in before if move.state in _UNGRANTED}
    for move in memory.moves:
        if move.uid in ungranted and move.state not in _UNGRANTED:
            memory = forget_refusals(memory, move.group)
        if move.uid not in ended_before and move.state.over:
            memory = _record_end(memory, move, now)
    return memory


def _record_end(memory: Memory, move: Move, now: datetime) -> Memory:
    if move.state in _FAILED:
        return record_failure(memory, move.group, now)
    if move.state is MoveState.VERIFIED:
        return forget_failures(memory, move.group)
    if move.state is MoveState.REFUSED and not is_deferred(move):
        return forget_extra_eviction(memory, move.uid)
    return memory


class Backoff(NamedTuple):
    """A group is not repaired after `times` failed predictions in a row, for the time `left` (None: permanently)."""

    times: int
    left: timedelta | None


def find_backoff(memory: Memory, group: str, now: datetime) -> Backoff | None:
    """Return the back-off of a group at this time; None if it does not back off."""
    failure = next((failure for failure in memory.failed_predictions if failure.group == group), None)
    if failure is None:
        return None
    if failure.times >= MAX_FAILED_PREDICTIONS:
        return Backoff(failure.times, None)
    waited = max(timedelta(0), now - failure.last)  # a future time from another clock; admission stores it as now
    left = FIRST_WAIT * 2 ** (failure.times - 1) - waited
    return Backoff(failure.times, left) if left > timedelta(0) else None


def record_refusal(
    memory: Memory, group: str, now: datetime, least: timedelta, *, refuser: str = "", words: str = "", pod: str = ""
) -> Memory:
    """Return the memory after another request for a group was not granted; `least` is the shortest wait.

    For `refuser`, `words` and `pod`, see `RefusedRequest`.
    """
    times = 1 + next((refused.times for refused in memory.refused if refused.group == group), 0)
    wait = max(least, min(LONGEST_WAIT, least * 2 ** min(times - 1, 12)))
    others = tuple(refused for refused in memory.refused if refused.group != group)
    request = RefusedRequest(group, times, now, wait, refuser, words, pod)
    return msgspec.structs.replace(memory, refused=(*others, request))


def forget_refusals(memory: Memory, group: str) -> Memory:
    """Return the memory after a request for a group was granted."""
    others = tuple(refused for refused in memory.refused if refused.group != group)
    return msgspec.structs.replace(memory, refused=others) if len(others) < len(memory.refused) else memory


class RefusalWait(NamedTuple):
    """A group waits because its last requests were not granted."""

    times: int
    """How many requests in a row were not granted."""
    left: timedelta
    """How long the group still waits."""
    refuser: str = ""
    """Who in admission control refused the last request, else ""."""
    words: str = ""
    """Why it was refused or, if a budget refused it, what the plan had counted on; else ""."""


def find_refusals_since(memory: Memory, since: datetime) -> Mapping[str, RefusalWait]:
    """Return the remaining wait as of `since`, by group, for groups with a request that was not granted since then."""
    return {
        one.group: RefusalWait(one.times, one.next_try - since, one.refuser, one.words)
        for one in memory.refused
        if one.last >= since
    }


def find_refusals(memory: Memory, group: str, now: datetime) -> RefusalWait | None:
    """Return the wait of a group whose last requests were not granted; None if it does not wait."""
    refused = next((refused for refused in memory.refused if refused.group == group), None)
    if refused is None:
        return None
    left = refused.wait - max(timedelta(0), now - refused.last)
    return RefusalWait(refused.times, left, refused.refuser, refused.words) if left > timedelta(0) else None
