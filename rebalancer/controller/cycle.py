"""One cycle: from a snapshot to an admission, each stage a pure function of the stages before it.

    snapshot -> tracking -> assessment -> planning -> admission

`tracked` is the memory before planning, `Cycle.memory` the memory afterwards; no stage runs twice.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property

from msgspec import structs

from rebalancer.admission.admit import Admission, AdmissionContext, admit
from rebalancer.admission.approval import expires_at
from rebalancer.admission.breaker import observe_cluster, update_breaker
from rebalancer.admission.memory import update_memory
from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.causes import Causes
from rebalancer.assessment.limit_groups import LimitGroup
from rebalancer.capacity.placeholders import placeholder_pods, without_pods
from rebalancer.controller.capacity import (
    NO_CAPACITY,
    CapacityContext,
    CapacityOutcome,
    decide_in_cycle,
    gate_evictions,
)
from rebalancer.controller.evaluation import Evaluation, evaluate
from rebalancer.model.moves import Memory, Reference
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.planning.plan import Eviction, Plan
from rebalancer.planning.planner import find_relaxations
from rebalancer.ports import ReplicaCount
from rebalancer.reporting.documents.document import to_json
from rebalancer.reporting.documents.plan import plan_document, proposal_document
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.view import View
from rebalancer.tracking.overlay import overlay_moves
from rebalancer.tracking.track import track

Stopwatch = Callable[[str], AbstractContextManager[None]]
"""Times the block that it wraps, under the name of a phase; time is an argument like everything else."""


def without_stopwatch(_: str) -> AbstractContextManager[None]:
    """Time nothing."""
    return nullcontext()


@dataclass(frozen=True, kw_only=True)
class Cycle:
    """The results of one cycle. `memory` has to be stored after it."""

    snapshot: Snapshot
    evaluation: Evaluation
    plan: Plan
    """The evaluation's, with what capacity refuses."""
    admission: Admission
    memory: Memory
    context: AdmissionContext
    capacity: CapacityOutcome

    @property
    def view(self) -> View:
        """The snapshot that was evaluated."""
        return self.evaluation.view

    @property
    def assessment(self) -> Assessment:
        """Every spread group and every limit, evaluated."""
        return self.evaluation.assessment

    @property
    def causes(self) -> Causes:
        """What caused the violations."""
        return self.evaluation.causes

    def count_replicas(self, workload: Reference) -> ReplicaCount:
        """Return how many pods a workload wants, and how many are Ready in the snapshot and not terminating."""
        top = self._workloads[workload]
        owners = (top, *self.snapshot.owned_by.get(top.uid, ()))
        pods = (pod for owner in owners for pod in self.snapshot.pods_of.get(owner.uid, ()))
        return ReplicaCount(wanted=top.replicas, ready=sum(pod.ready and not pod.terminating for pod in pods))

    def sharers(self, eviction: Eviction) -> frozenset[Reference]:
        """Return the workloads whose unavailable pods count against this eviction by the policy.

        That is the pod's own, and all of a group of the policy that limits how many of its pods may be in flight.
        Owners of kinds that are not read (a Job, say) are counted in the snapshot only.
        """
        groups = self._limited_groups.get(eviction.pod.uid, ())
        owners = {eviction.workload, *(owner for group in groups for owner in group.owners)}
        return frozenset(owners & self._workloads.keys())

    @cached_property
    def waiting_namespaces(self) -> frozenset[str]:
        """The namespaces in which evictions of the plan wait."""
        return frozenset(waiting.eviction.pod.namespace for waiting in self.plan.waiting)

    @cached_property
    def _workloads(self) -> Mapping[Reference, Workload]:
        return {reference_of(workload): workload for workload in self.snapshot.workloads}

    @cached_property
    def _limited_groups(self) -> Mapping[str, tuple[LimitGroup, ...]]:
        """The groups with `disruption.maxInFlight`, by the UIDs of their pods."""
        limited: dict[str, tuple[LimitGroup, ...]] = {}
        for group in self.assessment.pod_groups:
            if group.group.disruption.max_in_flight is not None:
                for pod in group.pods:
                    limited[pod.uid] = (*limited.get(pod.uid, ()), group)
        return limited

    @cached_property
    def plan_json(self) -> str:
        """The Plan document. Made once per cycle: it reads every pod of its namespaces, and is saved many times.

        In mode Approve it is the proposed or approved plan, if there is one.
        """
        proposal = self.memory.proposal
        if proposal is None:
            return to_json(plan_document(self.plan, self.snapshot, find_relaxations(self.plan))).decode()
        document = proposal_document(self.plan, proposal, expires_at(proposal, self.context.policy), self.snapshot)
        return to_json(document).decode()


def run_cycle(
    snapshot: Snapshot,
    profile: Profile,
    memory: Memory,
    context: AdmissionContext,
    stopwatch: Stopwatch = without_stopwatch,
    before: Snapshot | None = None,
    capacity: CapacityContext = NO_CAPACITY,
    known: Evaluation | None = None,
) -> Cycle:
    """Track, assess, plan and admit on one snapshot.

    `before` is the snapshot of the last cycle, `known` its evaluation, which is used again while it holds.

    Placeholders are outside of everything but the last stage, which lets evictions go only into capacity that is free.

    The breaker's state after the last cycle is in the memory, that after this one in the result's memory and context.
    """
    capacity = replace(capacity, held=placeholder_pods(snapshot, context.policy.capacity.namespace))
    seen, snapshot = snapshot, without_pods(snapshot, capacity.held)
    with stopwatch("assess"):
        # A view of long ago says nothing about what became of an eviction.
        tracked = memory if context.stale else track(memory, before, snapshot, context.policy, context.now)
        evaluation = evaluate(snapshot, profile, context.policy, tracked, known)
        view, assessment = evaluation.view, evaluation.assessment
    with stopwatch("plan"):
        made = evaluation.plan
    with stopwatch("admit"):
        updated = update_memory(tracked, assessment, evaluation.causes, made, context.now)
        bounds = context.policy.breaker
        readings = observe_cluster(snapshot, tracked.moves, context.requests, bounds, context.now)
        breaker = update_breaker(memory.breaker, readings, bounds, context.now)
        context, updated = replace(context, breaker=breaker), structs.replace(updated, breaker=breaker)
        admission = admit(made, snapshot, updated, context)
        decision = decide_in_cycle(evaluation, updated, context, capacity)
        made = structs.replace(made, refusals=(*made.refusals, *decision.refusals))
        crowded = View(overlay_moves(seen, tracked.moves), profile) if capacity.held else view
        admission, requests, outcome = gate_evictions(admission, decision, crowded, capacity)
        updated = structs.replace(
            updated, capacity=requests, capacity_attempts=decision.attempts, capacity_wanted=decision.wanted
        )
    return Cycle(
        snapshot=snapshot,
        evaluation=evaluation,
        plan=made,
        admission=admission,
        memory=structs.replace(updated, proposal=admission.proposal),
        context=context,
        capacity=outcome,
    )
