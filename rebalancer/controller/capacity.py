"""Capacity for repairs in the loop: what a cycle reads about placeholders, and when it creates and deletes their Jobs.

The memory is saved before a Job is created, so that the next leader knows about the Job. The leader deletes a Job that
no request in the memory names. While `capacity.mode` is Off and no placeholder exists, nothing is read or written.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from msgspec import Struct, structs

from rebalancer.admission.admit import AdmissionContext, find_common_obstacle
from rebalancer.assessment.assess import Assessment
from rebalancer.capacity.decision import CapacityDecision, NotInModeEvict, PlaceholdersUnread, decide_capacity
from rebalancer.capacity.gate import CapacityHeld, Gate, pass_gate
from rebalancer.capacity.needs import Candidate, Need, RehearsedNeed, find_need
from rebalancer.capacity.requests import Observation
from rebalancer.engine import Evaluation
from rebalancer.model.facts import Fact, Refusal
from rebalancer.model.moves import CapacityRequest, CapacityState, DomainName, Memory, PlanningMemory
from rebalancer.model.placeholders import placeholder_name, placeholder_pods, settle_nodes, without_placeholders
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.fates import Fates
from rebalancer.policy import CapacityMode, Mode, Policy
from rebalancer.ports import Placeholders, ReadFailedError
from rebalancer.scheduling.view import View
from rebalancer.tracking.moves import overlay_moves

_Rehearsed = Mapping[tuple[str, tuple[DomainName, ...]], tuple[PlanningMemory, RehearsedNeed]]
"""Results of rehearsals by the request's token and the domains, each with the memory that it was made with."""

_RELEASING = frozenset({Reason.PAUSED, Reason.OBSERVE_ONLY, Reason.OUTSIDE_WINDOW, Reason.BREAKER_OPEN})
"""Reasons that hold every eviction back for so long that capacity is released."""


def uses_capacity(policy: Policy, memory: Memory, snapshot: Snapshot) -> bool:
    """Return whether capacity is on, or requests are left in the memory or placeholders in the cluster."""
    rules = policy.capacity
    return (
        rules.mode is not CapacityMode.OFF
        or bool(memory.capacity or memory.capacity_attempts or memory.capacity_wanted)
        or rules.namespace in snapshot.pods_in
    )


class CapacityReading(Struct, frozen=True, kw_only=True):
    """What was read of placeholders: the names of their Jobs, or the `problem` with reading them.

    `reported` is what autoscaler and scheduler report on requests that wait too long, by token.
    """

    jobs: frozenset[str] = frozenset()
    problem: str = ""
    reported: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class CapacityOutcome:
    """What a cycle decided about capacity."""

    decision: CapacityDecision
    gate: Gate
    """Which evictions may go."""
    requests: tuple[CapacityRequest, ...]
    """The requests of the decision, less the placeholders that the gate frees."""
    held: int
    """How many placeholders exist."""
    unneeded: tuple[str, ...]
    """The names of the Jobs to delete."""
    assessment: Assessment
    rehearsed: _Rehearsed
    """Results for later cycles. They are valid while the assessment is the same."""


def read_capacity(
    source: Placeholders, policy: Policy, memory: Memory, snapshot: Snapshot, now: datetime
) -> CapacityReading | None:
    """Read the Jobs of placeholders; None, without a request, if there can be none."""
    rules = policy.capacity
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
class CapacityStage:
    """The part of a cycle that requests and releases capacity."""

    namespace: str
    reading: CapacityReading | None = None
    creating: frozenset[str] = frozenset()
    """The names of the Jobs that are being created."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Why a Job was not created, by token."""
    last: CapacityOutcome | None = None
    """What the last cycle decided."""
    seen: Snapshot
    """The snapshot with the placeholders."""

    def hide(self, snapshot: Snapshot, memory: Memory) -> Snapshot:
        """Return the snapshot without placeholders, in which the nodes of ready requests count as settled."""
        return settle_nodes(without_placeholders(snapshot, self.namespace), memory.capacity)

    def decide(
        self, evaluation: Evaluation, memory: Memory, fates: Fates, context: AdmissionContext
    ) -> CapacityOutcome:
        """Request and release capacity; admit only evictions whose capacity is free."""
        known = self.last.rehearsed if self.last and self.last.assessment is evaluation.assessment else {}
        rehearsals = _Rehearsals(evaluation, known)
        decision = self._decide(evaluation, memory, context, rehearsals)
        gate = self._gate(fates, decision, self._view_with_placeholders(evaluation, memory))
        freed = frozenset(gate.freed)
        requests = tuple(
            structs.replace(request, placeholders=tuple(name for name in request.placeholders if name not in freed))
            for request in decision.requests
        )
        jobs = self.reading.jobs if self.reading is not None else frozenset()
        existing = jobs | {placeholder_name(pod) for pod in self._held}
        return CapacityOutcome(
            decision=decision,
            gate=gate,
            requests=requests,
            held=len(self._held),
            unneeded=tuple(sorted(existing - _names(requests) - self.creating)),
            assessment=evaluation.assessment,
            rehearsed=rehearsals.results,
        )

    @cached_property
    def _held(self) -> tuple[Pod, ...]:
        return placeholder_pods(self.seen, self.namespace)

    def _view_with_placeholders(self, evaluation: Evaluation, memory: Memory) -> View:
        if not self._held:
            return evaluation.view
        return View(overlay_moves(self.seen, memory.moves), evaluation.inputs.profile)

    def _decide(
        self, evaluation: Evaluation, memory: Memory, context: AdmissionContext, rehearsals: "_Rehearsals"
    ) -> CapacityDecision:
        """Decide about requests for capacity; on a stale view they stay as they are."""
        reading = self.reading
        if context.stale:
            return CapacityDecision(
                requests=memory.capacity, attempts=memory.capacity_attempts, wanted=memory.capacity_wanted
            )
        refusal = find_common_obstacle(context)
        known = reading is not None and not reading.problem
        observation = Observation(
            now=context.now,
            held=self._held,
            jobs=(reading.jobs | self.creating) if reading is not None and known else _names(memory.capacity),
            plan=evaluation.plan,
            ending=_find_end(refusal, context) if known else "",
            refused=self.refused,
            reported=reading.reported if reading is not None else {},
        )
        return decide_capacity(
            evaluation,
            memory,
            observation,
            lambda candidate: rehearsals.find_need(candidate, memory),
            obstacle=_find_obstacle(reading, refusal, context),
            lasting=timedelta(0) if context.at_once else context.policy.spread.for_,
        )

    def _gate(self, fates: Fates, decision: CapacityDecision, view: View) -> Gate:
        """Admit only evictions whose capacity is free; `view` has the placeholders on their nodes."""
        if self.reading is None or self.reading.problem:
            return Gate(fates=_hold(fates, decision) if self._held else fates)
        return pass_gate(fates, view, self._held, decision.requests)


class _Rehearsals:
    """Rehearses repairs in one cycle, unless the last result is still valid."""

    def __init__(self, evaluation: Evaluation, known: _Rehearsed) -> None:
        self._evaluation = evaluation
        self.results = dict(known)

    def find_need(self, candidate: Candidate, memory: Memory) -> Need | None:
        """Return the capacity that a repair needs, None if it lacks anything else."""
        view, policy = self._evaluation.view, self._evaluation.inputs.policy
        key, known_by = (candidate.token, candidate.names), memory.planning
        before, last = self.results.get(key, (None, None))
        if last is None or before != known_by or view.snapshot.taken_at >= last.holds_until:
            last = find_need(candidate, view, policy, memory)
            self.results[key] = known_by, last
        return last.need


def _find_obstacle(reading: CapacityReading | None, refusal: Refusal | None, context: AdmissionContext) -> Fact | None:
    """Return why no capacity may be requested now."""
    if context.mode is not Mode.EVICT:
        return NotInModeEvict()
    if refusal is not None:
        return refusal
    if reading is None:
        return PlaceholdersUnread("this process cannot create Jobs")
    return PlaceholdersUnread(reading.problem) if reading.problem else None


def _names(requests: Iterable[CapacityRequest]) -> frozenset[str]:
    return frozenset(name for request in requests for name in request.placeholders)


def _find_end(refusal: Refusal | None, context: AdmissionContext) -> str:
    """Return why no capacity may be held now, "" if it may."""
    if context.policy.capacity.mode is not CapacityMode.REQUEST:
        return f"capacity.mode is {context.policy.capacity.mode}"
    if refusal is not None and refusal.reason in _RELEASING:
        return str(refusal)
    return "" if context.mode is Mode.EVICT else f"the mode is {context.mode}"


def _hold(fates: Fates, decision: CapacityDecision) -> Fates:
    """Hold back the evictions that may count on unknown capacity."""
    waiting_for = {workload for request in decision.requests for workload in request.workloads}
    refusal = CapacityHeld()
    return fates.hold(lambda eviction: refusal if eviction.workload in waiting_for else None)
