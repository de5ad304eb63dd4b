"""The loop's state as documents in the status ConfigMap."""

from rebalancer.controller.state import LoopState
from rebalancer.model.breaker import CLOSED
from rebalancer.ports import Document
from rebalancer.reporting.documents.document import to_json
from rebalancer.reporting.documents.memory import memory_text
from rebalancer.reporting.documents.status import (
    PlanSummary,
    PolicyStatus,
    StatusDocument,
    breaker_status,
    count_refusals,
    move_entry,
    pause_status,
    prevention_status,
    team_errors,
)

STATUS, MEMORY, PLAN = "status.json", "memory.json", "plan.json"
_MOST_EVICTIONS = 200
"""A plan with more evictions is not stored: the ConfigMap would be too large."""


def status_documents(state: LoopState, identity: str, policy_source: str) -> tuple[Document, ...]:
    """Return the documents to store, the memory first: the others are left out if there is no space."""
    made = [Document(MEMORY, memory_text(state.memory)), Document(STATUS, _status(state, identity, policy_source))]
    cycle = state.cycle
    if cycle is not None and (
        cycle.memory.proposal is not None or len(cycle.plan.evictions) + len(cycle.plan.waiting) <= _MOST_EVICTIONS
    ):
        made.append(Document(PLAN, cycle.plan_json))
    return tuple(made)


def _status(state: LoopState, identity: str, policy_source: str) -> str:
    cycle = state.cycle
    moves = state.memory.moves
    planned = len(cycle.plan.evictions) + len(cycle.plan.waiting) if cycle else 0
    document = StatusDocument(
        mode=state.mode,
        paused=pause_status(state.pause),
        leader=identity,
        last_cycle=cycle.context.now if cycle else None,
        stale=cycle.context.stale if cycle else "",
        breaker=breaker_status(cycle.context.breaker if cycle else CLOSED),
        in_flight=tuple(move_entry(move) for move in moves if not move.state.over),
        last_moves=tuple(move_entry(move) for move in moves if move.state.over),
        plan=PlanSummary(evictions=planned, minimum=cycle.plan.lower_bound if cycle else 0),
        refusals=count_refusals(cycle.plan, cycle.admission, len(cycle.assessment.deadlocks)) if cycle else {},
        policy=PolicyStatus(
            hash=state.policy.hash,
            source=policy_source,
            valid=not state.policy_error,
            error=state.policy_error,
            teams_invalid=len(state.team_problems),
            team_errors=team_errors(state.team_problems),
        ),
        prevention=prevention_status(state.prevention),
    )
    return to_json(document).decode()
