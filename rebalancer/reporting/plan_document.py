"""The Plan document of a plan."""

import hashlib
from collections.abc import Iterable

import msgspec

from rebalancer.assessment.assess import EvaluatedGroup
from rebalancer.model.moves import Reference
from rebalancer.model.snapshot import Snapshot, get_known_time
from rebalancer.planning.plan import ComponentPlan, Counts, Eviction, Plan, PlanRefusal, Waiting
from rebalancer.planning.scope.components import current_counts
from rebalancer.reporting.documents import (
    ConstraintName,
    LimitName,
    PlanDocument,
    PlannedEviction,
    PlannedGroup,
    Predicted,
    RefusalEntry,
    Totals,
    WaitingEviction,
    WorkloadName,
)
from rebalancer.reporting.expected_counts import after, decided
from rebalancer.reporting.plan_totals import sums, to_the_end


def plan_document(plan: Plan, snapshot: Snapshot) -> PlanDocument:
    """Write a plan down."""
    landing = decided(plan)
    return PlanDocument(
        generated_at=get_known_time(plan.made_at),
        expires_at=get_known_time(plan.expires_at) if get_known_time(plan.made_at) else None,
        snapshot_hash=snapshot_hash(snapshot, {group.component.namespace for group in plan.groups}),
        policy_hash=plan.policy_hash,
        totals=_totals(plan),
        evictions=tuple(_eviction(each) for each in plan.evictions),
        waiting=tuple(_waiting(each) for each in plan.waiting),
        groups=tuple(_group(each, after(each, landing.get(each.name, ()), snapshot)) for each in plan.groups),
        refusals=tuple(_refusal(each) for each in plan.refusals),
    )


def _totals(plan: Plan) -> Totals:
    now = len(plan.evictions)
    return Totals(
        evictions=now + len(plan.waiting),
        now=now,
        lower_bound=plan.lower_bound,
        out_of_reach=sums(plan).out_of_reach,
        optimal=plan.optimal and all(map(to_the_end, plan.groups)),
    )


def workload_name(reference: Reference) -> WorkloadName:
    """Name a workload within its namespace."""
    return WorkloadName(kind=reference.kind, name=reference.name)


def _eviction(eviction: Eviction) -> PlannedEviction:
    pod = eviction.pod
    return PlannedEviction(
        step=eviction.step,
        namespace=pod.namespace,
        pod=pod.name,
        uid=pod.uid,
        node=pod.node or "",
        workload=workload_name(eviction.workload),
        reason=eviction.cause,
        message=eviction.message,
        predicted=Predicted(
            forced=eviction.forced, domains={each.topology_key: each.values for each in eviction.targets}
        ),
    )


def _waiting(waiting: Waiting) -> WaitingEviction:
    pod = waiting.eviction.pod
    return WaitingEviction(
        namespace=pod.namespace, pod=pod.name, uid=pod.uid, for_=waiting.reason, message=waiting.message
    )


def _group(group: ComponentPlan, landed: Counts) -> PlannedGroup:
    return PlannedGroup(
        namespace=group.component.namespace,
        workloads=tuple(workload_name(each) for each in group.workloads),
        constraints=tuple(_constraints(group.groups)),
        limits=tuple(LimitName(group=each.group, limit=each.limit) for each in group.limits),
        evictions=group.evictions,
        lower_bound=group.lower_bound,
        optimal=group.optimal,
        before=current_counts(group.component),
        after=landed,
        state=group.state,
        reason=group.reason,
        message=group.message,
    )


def _constraints(groups: Iterable[EvaluatedGroup]) -> Iterable[ConstraintName]:
    found = [
        ConstraintName(
            topology_key=each.constraint.key,
            max_skew=each.constraint.max_skew,
            when_unsatisfiable=each.constraint.when_unsatisfiable,
        )
        for judged in groups
        for each in judged.hard
    ]
    return dict.fromkeys(found)


def _refusal(refused: PlanRefusal) -> RefusalEntry:
    return RefusalEntry(
        namespace=refused.workload.namespace,
        workload=workload_name(refused.workload),
        pod=refused.pod,
        reason=refused.reason,
        message=refused.message,
    )


def snapshot_hash(snapshot: Snapshot, namespaces: set[str]) -> str:
    """Hash what a plan has read: pods and disruption budgets of its namespaces, and what nodes offer.

    Readings that change without meaning (times of renewal, resource versions) are left out.
    """
    digest = hashlib.sha256()
    for namespace in sorted(namespaces):
        for pod in snapshot.pods_in.get(namespace, ()):
            read = (namespace, pod.name, pod.uid, pod.node, pod.ready, pod.terminating, sorted(pod.labels.items()))
            digest.update(msgspec.json.encode(read))
        for budget in snapshot.budgets_in.get(namespace, ()):
            digest.update(msgspec.json.encode((namespace, budget.name, budget.allowed, budget.desired_healthy)))
    if namespaces:
        for node in snapshot.nodes:
            offer = (node.name, sorted(node.labels.items()), node.taints, node.allocatable, node.unschedulable)
            digest.update(msgspec.json.encode(offer))
    return digest.hexdigest()[:16]
