"""Capacity for repairs in the loop: what a cycle reads of placeholders, and when their Jobs are created and deleted.

The memory is saved before a Job is created, so that the next leader knows of it; a Job that no request in the memory
names is deleted by whoever leads. Nothing is read or written while `capacity.mode` is Off and no placeholder exists.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from msgspec import structs

from rebalancer.admission.admit import Admission, AdmissionContext, find_common_obstacle
from rebalancer.capacity.causes import CapacityHeld, NotInModeEvict, PlaceholdersUnread
from rebalancer.capacity.decision import Decision, decide_capacity
from rebalancer.capacity.gate import Gate, pass_gate
from rebalancer.capacity.placeholders import placeholder_name, placeholder_pods
from rebalancer.capacity.requests import Observation
from rebalancer.controller.evaluation import Evaluation
from rebalancer.model.moves import CapacityRequest, CapacityState, Memory
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.causes import Fact, Refusal
from rebalancer.planning.plan import Waiting
from rebalancer.policy import CapacityMode, Mode, Policy
from rebalancer.ports import Placeholders, ReadFailedError
from rebalancer.reporting.refusals import refusal_text
from rebalancer.scheduling.view import View


@dataclass(frozen=True, kw_only=True)
class CapacityReading:
    """What was read of placeholders: the names of their Jobs, or the `problem` with reading them.

    `reported` is what autoscaler and scheduler say of requests that wait too long, by token.
    """

    jobs: frozenset[str] = frozenset()
    problem: str = ""
    reported: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CapacityOutcome:
    """What a cycle decided about capacity. `held` is how many placeholders exist, `unneeded` are the Jobs to delete."""

    decision: Decision
    held: int = 0
    unneeded: tuple[str, ...] = ()


def read_capacity(
    source: Placeholders | None, policy: Policy, memory: Memory, snapshot: Snapshot, now: datetime
) -> CapacityReading | None:
    """Read the Jobs of placeholders; None where there can be none, so that nothing needs to be read."""
    rules = policy.capacity
    if source is None:
        return None
    used = rules.mode is CapacityMode.REQUEST or memory.capacity
    if not used and not placeholder_pods(snapshot, rules.namespace):
        return None
    try:
        jobs = source.list_placeholders(rules.namespace)
    except ReadFailedError as error:
        return CapacityReading(problem=str(error))
    late = [
        request
        for request in memory.capacity
        if request.state is CapacityState.REQUESTED and now - request.since >= rules.timeout
    ]
    reported = {request.token: source.explain_placeholder(rules.namespace, request.token) for request in late}
    return CapacityReading(jobs=jobs, reported=reported)


@dataclass(frozen=True, kw_only=True)
class CapacityContext:
    """What the capacity stage of a cycle is given besides the stages before it.

    `held` are the placeholders' pods, `creating` the names of Jobs whose creation is under way. `refused` says by token
    why one was not created.
    """

    reading: CapacityReading | None = None
    held: tuple[Pod, ...] = ()
    creating: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)


NO_CAPACITY = CapacityContext()


def decide_in_cycle(
    evaluation: Evaluation, memory: Memory, context: AdmissionContext, capacity: CapacityContext
) -> Decision:
    """Decide about requests for capacity; on a stale view they stay as they are."""
    if context.stale:
        return Decision(requests=memory.capacity, attempts=memory.capacity_attempts, wanted=memory.capacity_wanted)
    reading, refusal = capacity.reading, find_common_obstacle(context)
    known = reading is not None and not reading.problem
    seen = Observation(
        now=context.now,
        held=capacity.held,
        jobs=(reading.jobs | capacity.creating) if reading is not None and known else _names(memory.capacity),
        plan=evaluation.plan,
        ending=_find_end(refusal, context) if known else "",
        refused=capacity.refused,
        reported=reading.reported if reading is not None else {},
    )
    lasting = timedelta(0) if context.at_once else context.policy.spread.for_
    obstacle = _find_obstacle(reading, refusal, context)
    return decide_capacity(
        evaluation.view,
        evaluation.assessment,
        context.policy,
        memory,
        seen,
        lambda candidate: evaluation.find_need(candidate, memory),
        obstacle=obstacle,
        lasting=lasting,
    )


def _find_obstacle(reading: CapacityReading | None, refusal: Refusal | None, context: AdmissionContext) -> Fact | None:
    """Return why no capacity may be requested now."""
    if context.mode is not Mode.EVICT:
        return NotInModeEvict()
    if refusal is not None:
        return refusal.cause
    if reading is None:
        return PlaceholdersUnread("this process cannot create Jobs")
    return PlaceholdersUnread(reading.problem) if reading.problem else None


def _names(requests: Iterable[CapacityRequest]) -> frozenset[str]:
    return frozenset(name for request in requests for name in request.placeholders)


_RELEASING = frozenset({Reason.PAUSED, Reason.OBSERVE_ONLY, Reason.OUTSIDE_WINDOW, Reason.BREAKER_OPEN})
"""What holds every eviction back for long enough that capacity is not to be held for them."""


def _find_end(refusal: Refusal | None, context: AdmissionContext) -> str:
    """Return why no capacity may be held now, "" if it may."""
    if context.policy.capacity.mode is not CapacityMode.REQUEST:
        return f"capacity.mode is {context.policy.capacity.mode}"
    if refusal is not None and refusal.reason in _RELEASING:
        return refusal_text(refusal)
    return "" if context.mode is Mode.EVICT else f"the mode is {context.mode}"


def gate_evictions(
    admission: Admission, decision: Decision, view: View, capacity: CapacityContext
) -> tuple[Admission, tuple[CapacityRequest, ...], CapacityOutcome]:
    """Let only those evictions go whose capacity is free; return the requests afterwards, and the Jobs to delete.

    `view` has the placeholders on their nodes.
    """
    reading, held = capacity.reading, capacity.held
    if reading is None or reading.problem:
        gate = _hold(admission, decision) if held else Gate(evictions=admission.evictions)
    else:
        gate = pass_gate(admission.evictions, view, held, decision.requests)
    freed = frozenset(gate.freed)
    requests = tuple(
        structs.replace(request, placeholders=tuple(name for name in request.placeholders if name not in freed))
        for request in decision.requests
    )
    jobs = reading.jobs if reading is not None else frozenset()
    unneeded = tuple(sorted((jobs | {placeholder_name(pod) for pod in held}) - _names(requests) - capacity.creating))
    gated = replace(admission, evictions=gate.evictions, waiting=(*admission.waiting, *gate.waiting))
    return gated, requests, CapacityOutcome(decision=decision, held=len(held), unneeded=unneeded)


def _hold(admission: Admission, decision: Decision) -> Gate:
    """Hold the evictions that may count on capacity of which nothing is known."""
    waiting_for = {workload for request in decision.requests for workload in request.workloads}
    refusal = Refusal(Reason.AWAITING_CAPACITY, CapacityHeld())
    return Gate(
        evictions=tuple(eviction for eviction in admission.evictions if eviction.workload not in waiting_for),
        waiting=tuple(
            Waiting(eviction=eviction, refusal=refusal)
            for eviction in admission.evictions
            if eviction.workload in waiting_for
        ),
    )
