"""The loop's state as documents in the status ConfigMap."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import structlog
from msgspec import structs

from rebalancer.account.account import Account
from rebalancer.controller.account import find_account
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.state import InForce, LoopState, find_windows
from rebalancer.documents.losses import loss_status
from rebalancer.documents.memory import memory_text, parse_memory
from rebalancer.documents.resilience_status import ResilienceStatus, resilience_status
from rebalancer.documents.status import (
    MoveEntry,
    PlanSummary,
    PolicyStatus,
    StatusDocument,
    approval_status,
    blocked_namespaces,
    breaker_status,
    count_refusals,
    fit_status,
    guard_status,
    move_entry,
    pause_status,
    prevention_status,
    refused_evictions,
    slow_start_status,
    standing_status,
    team_errors,
)
from rebalancer.documents.surges import surge_refusals, surge_status
from rebalancer.documents.waits import (
    MOST_WAITS,
    HoldStatus,
    NamespaceHold,
    RepairWait,
    find_holds,
    find_misplaced_holds,
    find_missing_rights,
    find_usual,
    find_waits,
    limit_waits,
)
from rebalancer.model.breaker import CLOSED
from rebalancer.model.events import NOTE_LIMIT
from rebalancer.model.moves import NO_MEMORY, Memory, Move, Reference, SentRequest
from rebalancer.model.snapshot import OPTIONAL
from rebalancer.policy import Mode, Policy
from rebalancer.policy.merging import find_loss_keys
from rebalancer.ports import MEMORY_KEY, PLAN_KEY, STATUS_BYTES, STATUS_KEY, Document
from rebalancer.resilience.worst import find_workloads
from rebalancer.scheduling.view import View

_MOST_EVICTIONS = 200
"""A plan with more evictions is not stored: the ConfigMap would be too large."""

_MOST_NAMESPACES: Final = 100
"""Up to this many namespaces without the right to evict are named."""

_MOST_DETAILED: Final = 100
"""Up to this many moves in flight are stored with their destinations."""

_MOST_SENT: Final = 1_000
"""Most evictions that are assumed for the last minute; larger rates are not reached in practice."""

_LEAST_STATUS: Final = 24 * 1024
"""Bytes reserved for the status beside a plan that waits for approval."""

_log = structlog.get_logger("rebalancer")


def status_documents(
    state: LoopState, identity: str, policy_source: str, as_of: datetime | None = None
) -> tuple[Document, ...]:
    """Return the documents to store, the most important first; later documents are left out if there is no space.

    First comes the memory, then a plan that waits for approval. The status is made to fit beside them: it loses its
    map, and then rows, before a plan is left out.
    """
    memory = Document(MEMORY_KEY, memory_text(state.memory))
    cycle, status = state.cycle, status_document(state, identity, policy_source, as_of)
    capacity = STATUS_BYTES - len(memory.text.encode())
    if cycle is None:
        return memory, Document(STATUS_KEY, fit_status(status, None, capacity))
    plan = Document(PLAN_KEY, cycle.plan_json)
    size = len(plan.text.encode())
    if cycle.memory.proposal is not None and size + _LEAST_STATUS <= capacity:
        return memory, plan, Document(STATUS_KEY, fit_status(status, cycle.stored_map, capacity - size))
    many = len(cycle.plan.fates.rows) > _MOST_EVICTIONS
    left_out = cycle.memory.proposal is None and many
    written = Document(STATUS_KEY, fit_status(status, cycle.stored_map, capacity, 0 if left_out else size))
    return (memory, written) if left_out else (memory, written, plan)


def read_memory(text: str, policy: Policy, now: datetime) -> Memory:
    """Return the memory that the last leader saved; an unreadable one becomes one without evictions for a minute.

    In that case the evictions of the last minute are unknown, so the most that the policy allows is assumed.
    """
    memory = parse_memory(text)
    if memory is not NO_MEMORY or not text.strip():
        return memory
    _log.warning(
        "memory cannot be read", key=MEMORY_KEY, consequence="it begins anew, and nothing is evicted for a minute"
    )
    return structs.replace(NO_MEMORY, sent=(SentRequest(now),) * min(policy.budgets.per_minute.value, _MOST_SENT))


def status_document(
    state: LoopState, identity: str, policy_source: str, as_of: datetime | None = None
) -> StatusDocument:
    """Return the status of a process by its loop's state; `as_of` is now, None to leave the time out."""
    cycle = state.cycle
    moves = state.memory.moves
    account = find_account(state, cycle) if cycle else None
    return StatusDocument(
        cluster=state.process.cluster_name,
        mode=state.mode,
        paused=pause_status(state.in_force.pause),
        leader=identity,
        page_port=state.process.page_port,
        as_of=as_of,
        last_cycle=cycle.context.now if cycle else None,
        stale=cycle.context.stale if cycle else "",
        breaker=breaker_status(cycle.context.breaker if cycle else CLOSED, moves),
        slow_start=slow_start_status(find_windows(state)),
        guards=guard_status(state.guards),
        in_flight=_in_flight(moves),
        last_moves=tuple(move_entry(move) for move in moves if move.state.over),
        plan=_plan_summary(account),
        losses=loss_status(cycle.losses) if cycle else (),
        figures=cycle.overview.find_figures(account) if cycle and account else None,
        approval=approval_status(cycle.plan, cycle.memory.proposal, cycle.context.policy) if cycle else None,
        standing=standing_status(state.memory.standing or None),
        approval_problem=cycle.admission.whole.problem if cycle else "",
        refusals=count_refusals(account, len(cycle.assessment.deadlocks)) if cycle and account else {},
        waits=_find_waits(cycle, account) if cycle and account else (),
        holds=_find_holds(state),
        refused_evictions=refused_evictions(state.memory, cycle.context.now) if cycle else (),
        policy=_policy_status(state.in_force, policy_source),
        prevention=prevention_status(state.reported.prevention),
        surges=surge_status(state.reported.surges),
        surges_refused=surge_refusals(state.reported.surges),
        surges_stopped=state.reported.surges.stopped[:NOTE_LIMIT],
        resilience=_find_resilience(state),
        forbidden_kinds=tuple(sorted(cycle.snapshot.unknown & OPTIONAL)) if cycle else (),
        missing_rights=tuple(sorted(state.queue.rights.missing))[:_MOST_NAMESPACES]
        if state.mode is not Mode.OBSERVE
        else (),
    )


def _find_waits(cycle: Cycle, account: Account) -> tuple[RepairWait, ...]:
    waits = find_waits(account)
    stuck = cycle.overview.find_stuck_limits(account.moving.keys())
    return *waits, *limit_waits(stuck, MOST_WAITS - len(waits))


def _policy_status(in_force: InForce, source: str) -> PolicyStatus:
    return PolicyStatus(
        hash=in_force.policy.cluster.hash,
        source=source,
        valid=not in_force.policy_error,
        missing=in_force.policy_missing,
        error=in_force.policy_error,
        interval_seconds=int(in_force.policy.interval.total_seconds()),
        teams_invalid=len(in_force.team_problems),
        team_errors=team_errors(in_force.team_problems),
    )


def _find_resilience(state: LoopState) -> ResilienceStatus | None:
    keys = find_loss_keys(state.in_force.policy)
    if not keys:
        return None
    workloads = _find_workloads(state.cycle.view) if state.cycle else ()
    return resilience_status(state.reported.resilience, keys, workloads)


def _find_workloads(view: View) -> frozenset[Reference]:
    return view.memo("workloads with resilience", lambda: find_workloads(view))


def _in_flight(moves: Sequence[Move]) -> tuple[MoveEntry, ...]:
    """Return the entries of the moves in flight; if there are many, only the first have all details."""
    moving = [move for move in moves if move.in_flight]
    detailed = [move_entry(move, find_usual(moves, [move.workload])) for move in moving[:_MOST_DETAILED]]
    return (*detailed, *(structs.replace(move_entry(move), to={}) for move in moving[_MOST_DETAILED:]))


def _find_holds(state: LoopState) -> tuple[HoldStatus, ...]:
    cycle = state.cycle
    if cycle is None:
        return ()
    queue = state.queue
    context = replace(
        cycle.context, pause=state.in_force.pause, mode=state.mode, overload=queue.overload, unsaved=queue.unsaved
    )
    moves = state.memory.moves
    misplaced = find_misplaced_holds(state.memory, cycle.view.snapshot, cycle.context.now)
    overdue = [NamespaceHold(one.namespace, one.since, one.refusal) for one in blocked_namespaces(moves)]
    missing = [] if state.mode is Mode.OBSERVE else find_missing_rights(state.queue.rights)
    return find_holds(context, cycle.assessment.unsettled_domains, [*overdue, *missing, *misplaced])


def _plan_summary(account: Account | None) -> PlanSummary:
    if account is None:
        return PlanSummary(evictions=0, minimum=0)
    return PlanSummary(evictions=account.waiting, minimum=account.lower_bound, uncounted=account.uncounted)
