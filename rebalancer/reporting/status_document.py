"""The Status document: what the controller is doing, did last, and why nothing happens. And its memory, as text."""

from collections import Counter
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from rebalancer.admission.admit import Admission
from rebalancer.admission.pause import Pause
from rebalancer.model.moves import NO_MEMORY, Memory, Move
from rebalancer.model.reasons import Reason
from rebalancer.planning.plan import Plan
from rebalancer.reporting.documents import API_VERSION, Number, Text, WorkloadName, Written
from rebalancer.reporting.plan_document import workload_name

_MEMORY_FORMAT = 1


class ShownMove(Written, frozen=True, kw_only=True):
    """One move of ours."""

    namespace: Text
    pod: Text
    uid: Text
    node: str
    workload: WorkloadName
    state: Text
    since: datetime


class PolicyInForce(Written, frozen=True, kw_only=True):
    """Which policy rules. `valid` is false while a newer one was refused; `error` then says why."""

    hash: Text
    source: str
    valid: bool
    error: str = ""


class PauseInForce(Written, frozen=True, kw_only=True):
    """A pause. `until` null is until somebody resumes; `error` says why the file cannot be read, "" if it can."""

    until: datetime | None
    reason: str
    by: str
    error: str = ""


class PlanFigures(Written, frozen=True, kw_only=True):
    """What is planned against the proven minimum."""

    evictions: Number
    minimum: Number


class StatusDocument(Written, frozen=True, kw_only=True):
    """The controller's status."""

    api_version: str = API_VERSION
    kind: str = "Status"
    mode: Text
    paused: PauseInForce | None
    leader: str
    last_cycle: datetime | None
    stale: str
    in_flight: tuple[ShownMove, ...]
    last_moves: tuple[ShownMove, ...]
    plan: PlanFigures
    refusals: dict[str, Annotated[int, Meta(ge=1)]]
    policy: PolicyInForce


def shown(move: Move) -> ShownMove:
    """Write one move down."""
    return ShownMove(
        namespace=move.namespace,
        pod=move.pod,
        uid=move.uid,
        node=move.node,
        workload=workload_name(move.workload),
        state=move.state,
        since=move.changed_at,
    )


def shown_pause(pause: Pause | None) -> PauseInForce | None:
    """Write a pause down."""
    if pause is None:
        return None
    return PauseInForce(until=pause.until, reason=pause.reason, by=pause.by, error=pause.unreadable)


def refusals(plan: Plan, admission: Admission, deadlocks: int) -> dict[str, int]:
    """Count by reason what is not done, or not yet; `deadlocks` are the waiting pods that are in one."""
    counted = Counter[str](refused.reason for refused in plan.refusals)
    counted.update(each.reason for each in (*plan.waiting, *admission.waiting))
    if deadlocks:
        counted[Reason.PLACEMENT_DEADLOCK] = deadlocks
    return dict(sorted(counted.items()))


class _Kept(msgspec.Struct, frozen=True):
    format: int
    memory: Memory


def memory_text(memory: Memory) -> str:
    """Write the memory for the next process."""
    return msgspec.json.encode(_Kept(_MEMORY_FORMAT, memory)).decode()


def memory_of(text: str) -> Memory:
    """Read a memory back. What cannot be read is forgotten: moves are found again in the cluster itself."""
    if not text:
        return NO_MEMORY
    try:
        kept = msgspec.json.decode(text, type=_Kept)
    except (msgspec.DecodeError, RecursionError):
        return NO_MEMORY
    return kept.memory if kept.format == _MEMORY_FORMAT else NO_MEMORY
