"""One cycle: from a snapshot to an admission, each stage a pure function of the stages before it.

    hide -> track -> evaluate -> remember -> admit -> capacity

`hide` removes the pods that hold capacity from the snapshot. `track` follows the moves in flight. `evaluate` assesses
and plans, unless the last evaluation is still valid. `remember` adds the findings and the breaker's state to the
memory. `admit` lets the evictions go that memory and clock allow now. `capacity` holds back those that lack capacity.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.account.account import Account
from rebalancer.account.losses import Loss, find_losses
from rebalancer.account.numbers import PlanNumbers, group_numbers
from rebalancer.admission.admit import Admission, AdmissionContext, admit, find_common_obstacle
from rebalancer.admission.approval import expires_at
from rebalancer.admission.breaker import observe_cluster, update_breaker
from rebalancer.admission.lasting import find_approved, outlast_waits
from rebalancer.admission.memory import update_memory
from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.causes import Causes, causes_to_store
from rebalancer.assessment.controllers import find_reference
from rebalancer.assessment.limit_groups import LimitGroup
from rebalancer.controller.capacity import CapacityOutcome, CapacityStage
from rebalancer.documents.cluster_map import stored_map
from rebalancer.documents.document import to_json
from rebalancer.documents.map import MapDocument
from rebalancer.documents.overview import Overview
from rebalancer.documents.plan import fit_plan, mark_moving, plan_document, proposal_document
from rebalancer.documents.plan_notes import find_notes
from rebalancer.documents.state_reasons import StateReasons
from rebalancer.engine import Evaluation, Inputs, Stopwatch, evaluate, without_stopwatch
from rebalancer.model.breaker import BreakerState
from rebalancer.model.moves import Memory, Reference
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.planning.adding_first import hold_surging
from rebalancer.planning.diagnosis.relaxation import Relaxations
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.fates import Fates
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import find_relaxations
from rebalancer.policy import Mode
from rebalancer.ports import ReplicaCount, count_pods
from rebalancer.reporting.acting import describe_mode, find_idle
from rebalancer.resilience.comparison import Effect, find_effect
from rebalancer.resilience.sizes import Sizes
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.view import View
from rebalancer.tracking.evicted import SeenEviction, note_evictions
from rebalancer.tracking.motion import Look
from rebalancer.tracking.track import track

_MOST_OF_PLAN: Final = 128 * 1024
"""Most bytes of a stored plan that needs no approval."""

_QUICK: Final = Sizes(by_node=150, all_nodes=150, by_group=100, all_groups=100)
"""Small bounds for the computation on a proposal, because the loop waits for it once."""


class ProposalEffect(NamedTuple):
    """How a proposal changes the losses of zones; `hash` is the proposal's."""

    hash: str
    effect: Effect


@dataclass(frozen=True, kw_only=True)
class CycleInputs:
    """The inputs of a cycle."""

    snapshot: Snapshot
    profile: Profile
    memory: Memory
    context: AdmissionContext
    """Further inputs of admission, with the policy."""
    before: Snapshot | None = None
    """The snapshot of the last cycle with a fresh view, None if there is none."""
    look: Look | None = None
    """The last look at the nodes, even if another process led then; None if there was none."""
    known: Evaluation | None = None
    """The last evaluation, which is used again while it is valid."""
    capacity: CapacityStage | None = None
    """Capacity for repairs; None where it is off and nothing of it is left."""
    evicted: tuple[SeenEviction, ...] = ()
    """The pods evicted since the last cycle, by this controller or others."""
    effect: ProposalEffect | None = None
    """The effect of the last cycle's proposal, which is used again while the proposal waits."""
    surging: frozenset[str] = frozenset()
    """The UIDs of the owners of pods to which pods are added by a surge."""


@dataclass(frozen=True, kw_only=True)
class Cycle:
    """The results of one cycle. `memory` has to be stored after the cycle."""

    snapshot: Snapshot
    evaluation: Evaluation
    plan: Plan
    """The evaluation's, with the repairs that lack capacity."""
    admission: Admission
    fates: Fates
    """The fates of the plan's evictions after admission and the gate of capacity."""
    memory: Memory
    context: AdmissionContext
    relaxations: Relaxations
    """Changes that would make infeasible components feasible, without a solver between admission and evictions."""
    capacity: CapacityOutcome | None = None
    """The decisions about capacity, None if it is off."""
    known_effect: ProposalEffect | None = None
    """The effect of the last cycle's proposal."""

    @property
    def view(self) -> View:
        """The view of the evaluated snapshot."""
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
        """Return how many pods a workload wants, and the pods that it has in the snapshot."""
        top = self._workloads[workload]
        owners = (top, *self.snapshot.owned_by.get(top.uid, ()))
        pods = (pod for owner in owners for pod in self.snapshot.pods_of.get(owner.uid, ()))
        return count_pods(top.replicas, pods)

    def sharers(self, eviction: Eviction) -> frozenset[Reference]:
        """Return the workloads whose unavailable pods count against this eviction by the policy.

        These are the pod's own workload, and the workloads of the pods that may be preempted for its replacement. Where
        the policy limits the moves in flight of a group, all workloads of that group count too.

        Owners of unread kinds, such as Jobs, are counted in the snapshot only.
        """
        groups = self._limited_groups.get(eviction.pod.uid, ())
        owners = {eviction.workload, *(owner for group in groups for owner in group.owners)}
        for outcome in eviction.repair.preempts:
            owners.update(find_reference(pod, self.view) for pod in outcome.pods)
        return frozenset(owners & self._workloads.keys())

    @cached_property
    def waiting_namespaces(self) -> frozenset[str]:
        """The namespaces in which evictions of the plan wait."""
        return frozenset(waiting.eviction.pod.namespace for waiting in self.plan.fates.kept)

    @cached_property
    def _workloads(self) -> Mapping[Reference, Workload]:
        return {reference_of(workload): workload for workload in self.snapshot.workloads}

    @cached_property
    def _limited_groups(self) -> Mapping[str, tuple[LimitGroup, ...]]:
        """The groups with `disruption.maxInFlight`, by the UIDs of their pods."""
        limited: dict[str, tuple[LimitGroup, ...]] = {}
        for group in self.assessment.pod_groups:
            if group.policy_group.disruption.max_in_flight is not None:
                for pod in group.pods:
                    limited[pod.uid] = (*limited.get(pod.uid, ()), group)
        return limited

    @cached_property
    def plan_json(self) -> str:
        """The Plan document. In mode Approve it is the proposed or approved plan, if there is one.

        It is made once per cycle, because making it reads every pod of its namespaces, and it is saved many times.
        """
        proposal = self.memory.proposal
        if proposal is None:
            notes, mode = find_notes(self.plan, self.assessment), self.context.mode
            acting, idle = describe_mode(mode), find_idle(mode)
            document = plan_document(self.plan, self.snapshot, self.relaxations, notes, acting=acting, idle=idle)
            return fit_plan(mark_moving(document, self.memory.moves), _MOST_OF_PLAN)
        expires, effect = expires_at(proposal, self.context.policy), self.effect
        document = proposal_document(
            self.plan, proposal, expires, self.snapshot, None if effect is None else effect.effect
        )
        return to_json(document).decode()

    @cached_property
    def effect(self) -> ProposalEffect | None:
        """How the proposal's repairs change the loss of a zone; computed once for each proposal, at its time.

        It covers every eviction that these repairs need, not only those of the proposal. A half-done repair may be
        worse than none, and an approval covers the later steps.
        """
        proposal, known = self.memory.proposal, self.known_effect
        if proposal is None:
            return None
        if known is not None and known.hash == proposal.hash:
            return known
        fates = self.plan.fates
        groups = {eviction.group for eviction in fates.evictions if eviction.pod.uid in proposal.uids}
        return ProposalEffect(proposal.hash, find_effect(self.view, fates.select(groups), _QUICK))

    @cached_property
    def account(self) -> Account:
        """The fates of the plan before any request."""
        # In Observe, nothing is evicted when a pause ends.
        observes = self.context.mode is Mode.OBSERVE
        common = find_common_obstacle(replace(self.context, pause=None) if observes else self.context)
        rights = self.context.rights
        approved = find_approved(self.plan, self.memory, self.context.mode)
        return Account(
            plan=self.plan,
            numbers=self.numbers,
            fates=outlast_waits(self.fates, common, rights, approved, self.plan.made_at),
            moves=self.memory.moves,
            common=common,
            approved=approved.components if approved is not None else None,
            rights=rights,
        )

    @cached_property
    def losses(self) -> tuple[Loss, ...]:
        """The cluster's lost nodes and domains, and the violations due to them."""
        return find_losses(self.memory.lost, self.snapshot, self.assessment, self.causes, self.account)

    @cached_property
    def numbers(self) -> Mapping[str, PlanNumbers]:
        """The numbers of the plan, by component."""
        return group_numbers(self.plan)

    @cached_property
    def overview(self) -> Overview:
        """A row for each set of workloads with rules."""
        return Overview(self.assessment, self.plan, StateReasons(self.plan, self.relaxations))

    @cached_property
    def stored_map(self) -> MapDocument | None:
        """The map that is stored with the status, made once per cycle. Pods that the cycle evicts are moving in it."""
        return stored_map(self.evaluation, self.memory, self.fates, self.overview)


def run_cycle(inputs: CycleInputs, stopwatch: Stopwatch = without_stopwatch) -> Cycle:
    """Run every stage, in order."""
    snapshot = _hide(inputs)
    tracked = _track(inputs, snapshot)
    evaluation = _evaluate(inputs, snapshot, tracked, stopwatch)
    with stopwatch("admit"):
        breaker = _observe(inputs, evaluation.view, snapshot, tracked)
        memory = _remember(inputs, evaluation, tracked, breaker)
        context = replace(inputs.context, breaker=breaker)
        relaxations = find_relaxations(evaluation.plan)
        admission = admit(evaluation.plan, snapshot, memory, context, evaluation.view)
        cycle = Cycle(
            snapshot=snapshot,
            evaluation=evaluation,
            plan=evaluation.plan,
            admission=admission,
            fates=hold_surging(admission.fates, inputs.surging),
            memory=structs.replace(
                memory,
                proposal=admission.proposal,
                windows=admission.windows,
                queued=admission.queued,
                **admission.whole.stored,
            ),
            context=context,
            relaxations=relaxations,
            known_effect=inputs.effect,
        )
        return cycle if inputs.capacity is None else _with_capacity(cycle, inputs.capacity)


def _hide(inputs: CycleInputs) -> Snapshot:
    """Return the snapshot without the placeholders of capacity."""
    return inputs.snapshot if inputs.capacity is None else inputs.capacity.hide(inputs.snapshot, inputs.memory)


def _with_capacity(cycle: Cycle, stage: CapacityStage) -> Cycle:
    """Return the cycle with the decisions about capacity: evictions that wait for it, requests, refusals."""
    outcome = stage.decide(cycle.evaluation, cycle.memory, cycle.fates, cycle.context)
    decision = outcome.decision
    return replace(
        cycle,
        plan=structs.replace(cycle.plan, refusals=(*cycle.plan.refusals, *decision.refusals)),
        fates=outcome.gate.fates,
        memory=structs.replace(
            cycle.memory,
            capacity=outcome.requests,
            capacity_attempts=decision.attempts,
            capacity_wanted=decision.wanted,
        ),
        capacity=outcome,
    )


def _track(inputs: CycleInputs, snapshot: Snapshot) -> Memory:
    """Follow the moves and others' evictions; an old view does not show the outcome of an eviction."""
    context = inputs.context
    memory = note_evictions(inputs.memory, inputs.evicted, snapshot, context.now)  # before ended moves are forgotten
    if context.stale:
        return memory
    return track(memory, inputs.before, snapshot, context.policy, context.now, inputs.look, inputs.profile)


def _evaluate(inputs: CycleInputs, snapshot: Snapshot, tracked: Memory, stopwatch: Stopwatch) -> Evaluation:
    """Assess and plan, unless the last evaluation is still valid."""
    policy, profile = inputs.context.policy, inputs.profile
    now = Inputs(snapshot=snapshot, policy=policy, profile=profile, memory=tracked)
    if inputs.known is not None and inputs.known.serves(now):
        with stopwatch("assess"), stopwatch("plan"):  # every cycle has every phase
            return inputs.known.at(now)
    return evaluate(snapshot, policy, profile=profile, memory=tracked, stopwatch=stopwatch)


def _observe(inputs: CycleInputs, view: View, snapshot: Snapshot, tracked: Memory) -> BreakerState:
    """Return the breaker's state after this cycle; the memory has the state after the last cycle."""
    context = inputs.context
    bounds, requests = context.policy.breaker, context.requests
    if context.stale:  # for the view, an outage ends when the watches have caught up, not with the first answer
        requests = structs.replace(requests, outage_ended=None)
    readings = observe_cluster(
        snapshot, tracked.moves, requests, bounds, context.now, view=view, changes=tracked.changes
    )
    return update_breaker(
        inputs.memory.breaker, readings, bounds, context.now, moves=tracked.moves, replaced_at=tracked.replaced_at
    )


def _remember(inputs: CycleInputs, evaluation: Evaluation, tracked: Memory, breaker: BreakerState) -> Memory:
    """Return the memory with the findings; a stale view shows no causes, because parts of a change may be missing."""
    context = inputs.context
    memory = update_memory(
        tracked, evaluation.assessment, evaluation.plan, context.now, canary=context.policy.budgets.canary
    )
    causes = tracked.causes
    if not context.stale:
        causes = causes_to_store(evaluation.causes, evaluation.assessment, evaluation.view, tracked)
    return structs.replace(memory, breaker=breaker, causes=causes)
