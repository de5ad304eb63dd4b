"""The Plan document: evictions that may go now, evictions that wait, groups with their proof, refusals."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import count, groupby
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rebalancer.account.account import find_undecided
from rebalancer.account.numbers import PlanNumbers, add_numbers, group_numbers, plan_numbers
from rebalancer.admission.approval import plan_hash
from rebalancer.assessment.assess import EvaluatedGroup
from rebalancer.documents.document import (
    API_VERSION,
    CamelCaseStruct,
    Counts,
    LeftOut,
    Number,
    Text,
    WorkloadName,
    fit_json,
    workload_name,
)
from rebalancer.documents.domain_counts import list_counts
from rebalancer.documents.phrases import certainty, component_text, eviction_text, flaw_name, limit_change, why_no_fewer
from rebalancer.documents.plan_notes import NO_NOTES, PlanNotes
from rebalancer.documents.resilience import LossesChanged, losses_changed
from rebalancer.documents.waits import (
    NextMove,
    RepairWait,
    Usual,
    describe_end,
    find_next_end,
    find_usual,
    likely_domains,
    next_move,
)
from rebalancer.model.approvals import Proposal
from rebalancer.model.moves import Move, Reference
from rebalancer.model.reasons import State
from rebalancer.model.snapshot import Snapshot, get_known_time
from rebalancer.model.words import name_list
from rebalancer.planning.diagnosis.relaxation import NO_RELAXATIONS, Relaxations
from rebalancer.planning.eviction import Eviction
from rebalancer.planning.expected_counts import expected_counts
from rebalancer.planning.fates import Fates, Goes, Never
from rebalancer.planning.plan import ComponentPlan, Plan, PlanRefusal
from rebalancer.planning.scope import components as planning_scope
from rebalancer.planning.scope.budgets import StepExceedsBudget
from rebalancer.planning.scope.components import current_counts
from rebalancer.planning.search.report import Attempt
from rebalancer.resilience.comparison import Effect


class PlannedConstraint(CamelCaseStruct, frozen=True, kw_only=True):
    """A constraint of a group."""

    topology_key: Text
    max_skew: Annotated[int, Meta(ge=1)]
    when_unsatisfiable: Text


class PlannedLimit(CamelCaseStruct, frozen=True, kw_only=True, omit_defaults=True):
    """A limit of the policy; `change` has its pods, bound and worst domain before and after, "" if it is satisfied.

    `reason` is why no placement satisfies the limit, so evictions leave it violated; "" if one does.
    """

    group: Text
    limit: Text
    change: str = ""
    reason: Text = ""


class Totals(CamelCaseStruct, frozen=True, kw_only=True):
    """Numbers of evictions: `now` + `waiting` + `later` = `evictions` for violations that can be repaired.

    `now` may be sent, unless the plan's `idle` says why nothing is sent. `waiting` are decided and held back. `later`
    are needed but not decided yet. `blocked` are needed for violations that cannot be repaired now. `partial` of `now`
    and `waiting` repair a violation only in part.

    `lowerBound` is a proved lower bound of `evictions`, `blockedLowerBound` of `blocked`. `optimal`: no fewer than
    `evictions` are enough. `nextAt` is the first moment at which a wait ends, null if no such time is known.

    `uncounted` repairs are not in these numbers: these repairs go on once a StatefulSet has recreated an evicted pod.
    """

    evictions: Number
    now: Number
    waiting: Number
    later: Number
    blocked: Number
    partial: Number
    lower_bound: Number
    blocked_lower_bound: Number
    optimal: bool
    next_at: datetime | None = None
    uncounted: Number = 0


class PredictedPlacement(CamelCaseStruct, frozen=True, kw_only=True):
    """Domains that may receive the replacement, by topology key. `forced`: the scheduler has no other choice."""

    forced: bool
    domains: Mapping[str, tuple[str, ...]]


class PreemptedPods(CamelCaseStruct, frozen=True, kw_only=True):
    """The pods (NAMESPACE/NAME) that are preempted if the replacement is placed on this node."""

    node: Text
    pods: tuple[Text, ...]


class PlannedEviction(CamelCaseStruct, frozen=True, kw_only=True, omit_defaults=True):
    """An eviction that may go now. `step` is the number of its repair. It is no order, because repairs take turns.

    `preempts`, only in a repair by preemption, lists the possible outcomes; one of them will happen for its
    replacement. `added`, in a proposal, is how many pods a surge adds before the pod goes in a scale-down; 0 if the pod
    is evicted.
    """

    step: Annotated[int, Meta(ge=1)]
    namespace: Text
    pod: Text
    uid: str
    node: Text
    workload: WorkloadName
    reason: Text
    message: str
    predicted: PredictedPlacement
    preempts: tuple[PreemptedPods, ...] = ()
    added: Number = 0


class WaitingEviction(CamelCaseStruct, frozen=True, kw_only=True, omit_defaults=True):
    """A planned eviction that waits; `for` is a reason.

    The wait ends at `until`, or, if no time can be known, with the event `endsWith`. With neither, it does not end by
    itself. `then` is what follows, considering this wait alone. `usual` is how long the workload's last moves took, if
    the end of a move ends this wait; it is absent if not known.

    `added` is how many pods a surge adds first: the pod goes in a scale-down once all added pods are Ready, and the
    domains of `then` may receive them. `added` is 0 if the pod is evicted.
    """

    step: Annotated[int, Meta(ge=1)]
    namespace: Text
    pod: Text
    uid: str
    node: str
    workload: WorkloadName
    for_: Text = msgspec.field(name="for")
    message: str
    until: datetime | None
    ends_with: str
    then: NextMove
    usual: Usual | None = None
    added: Number = 0


class SearchAttempt(CamelCaseStruct, frozen=True, kw_only=True):
    """A method that was tried: whether it found the step, and how many candidates it rejected for each reason.

    `limitReached`: the method did not visit every candidate.
    """

    method: Text
    answered: bool
    rejected: Mapping[str, Number]
    limit_reached: bool


class PlannedGroup(CamelCaseStruct, frozen=True, kw_only=True):
    """Groups and limits that are repaired together: the proof, the counts before and after, the state.

    `step` is the number of the step of its evictions now and waiting, null if none is decided.

    `evictions` is the number that the whole repair takes, even if it cannot be made now. `now`, `waiting`, `later` and
    `blocked` are its parts, as in the totals. `after` are the counts after the evictions now and waiting. If there are
    more than twelve domains, only those that hold pods before or after are listed; `emptyDomains` counts the rest.

    `method` is the method that found the step (certificate, contingent, forced, lookahead, partial, preemption,
    addition), null if there is no step. `attempts` are all methods that were tried, in order. `proof` says why fewer
    evictions are not enough, and why the repair may take more; null if no number of evictions is known. `certainty`
    says whether the scheduler is forced to place the replacements as planned, "" if there is no step.

    `until` and `endsWith` say when `reason` ends, as for a waiting eviction. `brief` is the obstacle in a few words.
    `withoutNode`: pods of the group wait for a node. No rule is violated, because pods are counted where they are
    placed. `moving`: pods of the group are in flight. What can be repaired is known once they have arrived.
    """

    namespace: Text
    workloads: tuple[WorkloadName, ...]
    constraints: tuple[PlannedConstraint, ...]
    limits: tuple[PlannedLimit, ...]
    evictions: Number
    now: Number
    waiting: Number
    later: Number
    blocked: Number
    lower_bound: Number
    optimal: bool
    proof: str | None
    before: Mapping[str, Counts]
    after: Mapping[str, Counts]
    empty_domains: Mapping[str, Number]
    state: Text
    reason: str | None
    message: str
    until: datetime | None
    ends_with: str
    method: str | None
    attempts: tuple[SearchAttempt, ...]
    step: Annotated[int, Meta(ge=1)] | None = None
    certainty: str = ""
    brief: str = ""
    without_node: bool = False
    moving: bool = False

    @property
    def is_stuck(self) -> bool:
        """Whether evictions do not repair the group, and no move under way can change that."""
        return self.state != State.VIOLATED and not self.moving

    @property
    def is_repairable(self) -> bool:
        """Whether evictions repair the group completely, now or after a wait."""
        return self.state == State.VIOLATED and bool(self.evictions)


class PlannedRefusal(CamelCaseStruct, frozen=True, kw_only=True):
    """A pod that is not evicted; without `pod`, the whole workload."""

    namespace: Text
    workload: WorkloadName
    pod: str | None
    reason: Text
    message: str


class UnknownWorkload(CamelCaseStruct, frozen=True, kw_only=True):
    """A workload without a known violation whose constraints and limits could not all be counted."""

    namespace: Text
    workload: WorkloadName


class PlanDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """A plan. `generatedAt` is the snapshot's time; if the snapshot has none, it and `expiresAt` are null.

    `planHash` covers the evictions, their order and the policy, and in mode Approve the time of the proposal.

    For the `unknown` workloads, the data that was read does not show whether they satisfy their constraints and limits.
    Of the other workloads outside of the plan, `satisfied` satisfy them, `unplanned` violate only rules that evictions
    do not repair, and `unrepairable` violate a limit that no placement satisfies now. `stuck` are the first twenty such
    limits. `notes` are lines about pods that stay for their volumes, about domains without nodes, and about missing
    capacity.

    `acting` says what the controller does with the plan. `idle` says why it makes none of the evictions that may go
    now, "" if it does; `now` and `evictions` are then only what it would do. `policy_source` says which policy the plan
    follows, "" if that needs no words. `unread` are kinds that were not read, although nothing can be planned without
    them.

    `resilience` is how all decided evictions change the loss of a zone, null if not requested. The controller computes
    it once for each proposal, for the repairs that it begins. `left_out` counts the rows that the lists of a stored
    plan have lost because the plan would have been too large.
    """

    api_version: str = API_VERSION
    kind: str = "Plan"
    generated_at: datetime | None
    expires_at: datetime | None
    plan_hash: Text
    snapshot_hash: Text
    policy_hash: Text
    totals: Totals
    evictions: tuple[PlannedEviction, ...]
    waiting: tuple[WaitingEviction, ...]
    groups: tuple[PlannedGroup, ...]
    refusals: tuple[PlannedRefusal, ...]
    unknown: tuple[UnknownWorkload, ...] = ()
    satisfied: Number = 0
    unplanned: Number = 0
    unrepairable: Number = 0
    stuck: tuple[RepairWait, ...] = ()
    notes: tuple[str, ...] = ()
    acting: str = ""
    idle: str = ""
    policy_source: str = ""
    unread: tuple[Text, ...] = ()
    resilience: LossesChanged | None = None
    left_out: LeftOut = msgspec.field(default_factory=dict)


_NEEDED: Final = frozenset({"Pod", "Node"})
"""Kinds without which nothing can be planned."""

_LISTS: Final = ("refusals", "unknown", "waiting", "groups", "stuck")
"""The lists that lose rows if a plan is too large to be stored; evictions that go now are never lost."""


def fit_plan(document: PlanDocument, most: int) -> str:
    """Return a plan as JSON of at most `most` bytes; a larger plan loses rows."""
    return fit_json(document, _LISTS, most).decode()


def plan_document(
    plan: Plan,
    snapshot: Snapshot,
    relaxations: Relaxations = NO_RELAXATIONS,
    beside: PlanNotes = NO_NOTES,
    *,
    acting: str = "",
    idle: str = "",
    policy_source: str = "",
    effect: Effect | None = None,
) -> PlanDocument:
    """Convert a plan to its document; `relaxations` say what would make infeasible groups feasible."""
    numbers = group_numbers(plan)
    known = get_known_time(plan.made_at)
    return PlanDocument(
        generated_at=known,
        expires_at=get_known_time(plan.expires_at) if known else None,
        plan_hash=plan_hash(plan.fates.going, plan.policy_hash),
        snapshot_hash=snapshot_hash(snapshot, {group.component.namespace for group in plan.components}),
        policy_hash=plan.policy_hash,
        totals=_totals(add_numbers(numbers.values()), plan),
        evictions=tuple(map(planned_eviction, plan.fates.going)),
        waiting=tuple(waiting_evictions(plan, plan.fates, find_undecided(plan))),
        groups=tuple(_planned_groups(plan, numbers, snapshot, relaxations)),
        refusals=(*map(_planned_refusal, plan.refusals), *_never_allowed(plan)),
        unknown=tuple(
            UnknownWorkload(namespace=reference.namespace, workload=workload_name(reference))
            for reference in beside.unknown
        ),
        satisfied=beside.satisfied,
        unplanned=beside.unplanned,
        unrepairable=beside.unrepairable,
        stuck=beside.stuck,
        notes=beside.lines,
        acting=acting,
        idle=idle,
        policy_source=policy_source,
        unread=tuple(sorted(snapshot.unknown & _NEEDED)),
        resilience=None if effect is None else losses_changed(effect),
    )


def mark_moving(document: PlanDocument, moves: Iterable[Move]) -> PlanDocument:
    """Mark the groups that have pods in flight by these moves of the memory."""
    moving = {(move.workload.namespace, workload_name(move.workload)) for move in moves if move.in_flight}
    if not moving:
        return document
    groups = (
        msgspec.structs.replace(group, moving=any((group.namespace, one) in moving for one in group.workloads))
        for group in document.groups
    )
    return msgspec.structs.replace(document, groups=tuple(groups))


def proposal_document(
    plan: Plan, proposal: Proposal, expires_at: datetime, snapshot: Snapshot, effect: Effect | None = None
) -> PlanDocument:
    """Return only the part of a plan that is proposed for approval, or is approved and not yet carried out.

    Its evictions are listed as evictions even while a budget holds them back, because they are what is approved. Each
    repair is numbered again, because planning numbers only repairs with an eviction that goes now.
    """
    planned = {eviction.pod.uid: eviction for eviction in plan.fates.evictions}
    chosen = [planned[uid] for uid in proposal.uids if uid in planned]
    steps = dict(zip(dict.fromkeys(eviction.group for eviction in chosen), count(1), strict=False))
    evictions = [
        msgspec.structs.replace(one, repair=msgspec.structs.replace(one.repair, step=steps[one.group]))
        for one in chosen
    ]
    groups = tuple(group for group in plan.components if group.name in steps)
    part = msgspec.structs.replace(
        plan, expires_at=expires_at, fates=Fates(tuple(map(Goes, evictions))), components=groups, refusals=()
    )
    return msgspec.structs.replace(plan_document(part, snapshot, effect=effect), plan_hash=proposal.hash)


def plan_totals(plan: Plan) -> Totals:
    """Return the sums of a plan."""
    return _totals(plan_numbers(plan), plan)


def _totals(numbers: PlanNumbers, plan: Plan) -> Totals:
    waits = (*(waiting.refusal for waiting in plan.fates.kept), *(group.refusal for group in plan.components))
    once = {id(refusal): refusal for refusal in waits if refusal is not None}  # most evictions share one with others
    next_at = find_next_end(once.values(), get_known_time(plan.made_at))
    return Totals(evictions=numbers.evictions, optimal=numbers.optimal, next_at=next_at, **numbers._asdict())


def planned_eviction(eviction: Eviction) -> PlannedEviction:
    """Convert an eviction to its entry."""
    pod = eviction.pod
    return PlannedEviction(
        step=eviction.step,
        namespace=pod.namespace,
        pod=pod.name,
        uid=pod.uid,
        node=pod.node or "",
        workload=workload_name(eviction.workload),
        reason=eviction.cause,
        message=eviction_text(eviction),
        predicted=PredictedPlacement(
            forced=eviction.forced, domains={target.topology_key: target.values for target in eviction.targets}
        ),
        preempts=tuple(
            PreemptedPods(node=outcome.node, pods=tuple(map(str, outcome.pods))) for outcome in eviction.repair.preempts
        ),
        added=eviction.repair.added,
    )


def number_steps(plan: Plan) -> Mapping[str, int]:
    """Return the number of the step of each group whose evictions go now or wait; groups that go now come first."""
    steps = {eviction.group: eviction.step for eviction in plan.fates.going}
    following = count(max(steps.values(), default=0) + 1)
    for waiting in plan.fates.waiting:
        if waiting.eviction.group not in steps:
            steps[waiting.eviction.group] = next(following)
    return steps


def waiting_evictions(
    plan: Plan, fates: Fates, undecided: Collection[Reference], moves: Sequence[Move] = ()
) -> Iterator[WaitingEviction]:
    """Yield the entries of a plan's evictions that wait by these fates; `moves` are the moves of the memory."""
    steps = number_steps(plan)
    name = cache(workload_name)
    usual = cache(lambda workload: find_usual(moves, [workload]))
    # Rows share equal parts: without sharing, 45,000 rows take 12 MiB more.
    for (refusal, repair), together in groupby(
        fates.waiting, key=lambda waiting: (waiting.refusal, waiting.eviction.repair)
    ):
        message, domains, step = refusal.timeless, likely_domains(repair.targets), steps[repair.group]
        until, ends_with = describe_end(refusal, plan.made_at)
        for waiting in together:
            pod = waiting.eviction.pod
            yield WaitingEviction(
                step=step,
                namespace=pod.namespace,
                pod=pod.name,
                uid=pod.uid,
                node=pod.node or "",
                workload=name(waiting.eviction.workload),
                for_=refusal.reason,
                message=message,
                until=until,
                ends_with=ends_with,
                then=next_move(pod, domains, waiting.eviction.workload in undecided),
                usual=usual(waiting.eviction.workload) if refusal.end.of_move else None,
                added=repair.added,
            )


def _planned_groups(
    plan: Plan, numbers: Mapping[str, PlanNumbers], snapshot: Snapshot, relaxations: Relaxations
) -> Iterator[PlannedGroup]:
    evictions, steps = plan.fates.decided, number_steps(plan)
    for group in plan.components:
        decided = evictions.get(group.name, ())
        after = expected_counts(group, decided, snapshot)
        limits = [
            PlannedLimit(
                group=limit.group,
                limit=limit.limit,
                change="" if limit.state is State.SATISFIED else limit_change(limit, decided, snapshot),
                reason=limit.reason or "",
            )
            for limit in group.limits
        ]
        certain = certainty(decided[0]) if decided else ""
        yield _planned_group(
            group, numbers[group.name], after, relaxations, plan.made_at, limits, certain, steps.get(group.name)
        )


def _planned_group(
    group: ComponentPlan,
    numbers: PlanNumbers,
    after: planning_scope.Counts,
    relaxations: Relaxations,
    made_at: datetime,
    limits: Sequence[PlannedLimit],
    certain: str,
    step: int | None,
) -> PlannedGroup:
    until, ends_with = describe_end(group.refusal, made_at)
    listed = {key: list_counts(counts, after.get(key, {})) for key, counts in current_counts(group.component).items()}
    return PlannedGroup(
        namespace=group.component.namespace,
        workloads=tuple(workload_name(workload) for workload in group.workloads),
        constraints=tuple(_hard_constraints(group.groups)),
        limits=tuple(limits),
        evictions=group.evictions,
        now=numbers.now,
        waiting=numbers.waiting,
        later=numbers.later,
        blocked=numbers.blocked,
        lower_bound=group.lower_bound,
        optimal=group.optimal,
        proof=why_no_fewer(group) or None,
        before={key: counts.before for key, counts in listed.items()},
        after={key: counts.after for key, counts in listed.items() if key in after},
        empty_domains={key: counts.empty for key, counts in listed.items()},
        state=group.state,
        reason=group.reason,
        message=component_text(group, relaxations),
        until=until,
        ends_with=ends_with,
        method=group.method,
        attempts=tuple(search_attempt(attempt) for attempt in group.attempts),
        without_node=not planning_scope.is_violated(group.component),
        step=step,
        certainty=certain,
        brief=_brief(group),
    )


def _brief(group: ComponentPlan) -> str:
    cause = group.refusal
    if isinstance(cause, StepExceedsBudget) and cause.budgets:
        allows = f"{cause.allowed} at once" if cause.allowed else "none"
        return f"PDB {name_list(cause.budgets)} {'allow' if len(cause.budgets) > 1 else 'allows'} {allows}"
    return str(group.reason or group.state)


def search_attempt(attempt: Attempt) -> SearchAttempt:
    """Convert a method that was tried."""
    rejected = {flaw_name(flaw): number for flaw, number in attempt.rejected}
    return SearchAttempt(
        method=attempt.method, answered=attempt.answered, rejected=rejected, limit_reached=attempt.limit_reached
    )


def _hard_constraints(groups: Iterable[EvaluatedGroup]) -> Iterable[PlannedConstraint]:
    """Return the hard constraints of the groups, each once."""
    constraints = [
        PlannedConstraint(
            topology_key=evaluated.constraint.key,
            max_skew=evaluated.constraint.max_skew,
            when_unsatisfiable=evaluated.constraint.when_unsatisfiable,
        )
        for group in groups
        for evaluated in group.hard
    ]
    return dict.fromkeys(constraints)


def _planned_refusal(refusal: PlanRefusal) -> PlannedRefusal:
    return PlannedRefusal(
        namespace=refusal.workload.namespace,
        workload=workload_name(refusal.workload),
        pod=refusal.pod,
        reason=refusal.reason,
        message=str(refusal.refusal),
    )


def _never_allowed(plan: Plan) -> Iterator[PlannedRefusal]:
    """Convert the evictions that no budget ever allows: they do not wait for anything."""
    for waiting in plan.fates.kept:
        if isinstance(waiting, Never):
            eviction = waiting.eviction
            yield PlannedRefusal(
                namespace=eviction.workload.namespace,
                workload=workload_name(eviction.workload),
                pod=eviction.pod.name,
                reason=waiting.reason,
                message=str(waiting.refusal),
            )


def snapshot_hash(snapshot: Snapshot, namespaces: set[str]) -> str:
    """Hash what a plan depends on: the pods and disruption budgets of its namespaces, and the nodes.

    Fields that change without effect (renewal times, resource versions) are left out. Returns 16 hex digits.
    """
    digest = hashlib.sha256()
    of_labels: dict[int, list[tuple[str, str]]] = {}  # cached by identity, because thousands of pods share a label set
    for namespace in sorted(namespaces):
        rows = []
        for pod in snapshot.pods_in.get(namespace, ()):
            labels = of_labels.get(id(pod.labels))
            if labels is None:
                labels = of_labels[id(pod.labels)] = sorted(pod.labels.items())
            rows.append((namespace, pod.name, pod.uid, pod.node, pod.ready, pod.terminating, labels))
        budgets = [
            (namespace, budget.name, budget.allowed, budget.desired_healthy)
            for budget in snapshot.budgets_in.get(namespace, ())
        ]
        digest.update(msgspec.json.encode((rows, budgets)))
    if namespaces:
        for node in snapshot.nodes:
            offer = (node.name, sorted(node.labels.items()), node.taints, node.allocatable, node.unschedulable)
            digest.update(msgspec.json.encode(offer))
    return digest.hexdigest()[:16]
