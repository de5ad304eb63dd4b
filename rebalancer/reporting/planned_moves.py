"""The decided evictions of a plan: which go now, which wait and for what, and which no budget ever allows."""

from collections.abc import Iterator
from typing import NamedTuple

from rebalancer.admission.admit import Admission
from rebalancer.model.reasons import Reason
from rebalancer.planning.plan import Eviction, Plan
from rebalancer.reporting.documents.map import MoveKind


class PlannedMove(NamedTuple):
    """A decided eviction; `reason` is what it waits for, None of one that may go."""

    eviction: Eviction
    kind: MoveKind
    reason: Reason | None


def find_planned_moves(plan: Plan, admission: Admission | None) -> Iterator[PlannedMove]:
    """Yield the decided evictions in the order of the plan.

    Without an `admission` what the plan would evict now counts as moving.
    """
    waits = {wait.eviction.pod.uid: wait.reason for wait in admission.waiting} if admission else {}
    for eviction in plan.evictions:
        reason = waits.get(eviction.pod.uid)
        yield PlannedMove(eviction, MoveKind.MOVING if reason is None else MoveKind.WAITING, reason)
    for wait in plan.waiting:
        never = wait.reason is Reason.STEP_EXCEEDS_BUDGET
        yield PlannedMove(wait.eviction, MoveKind.BLOCKED if never else MoveKind.WAITING, wait.reason)
