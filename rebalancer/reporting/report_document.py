"""The Report document: every constraint of every workload, every limit, and what planning knows of the violated."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rebalancer.assessment.assess import Assessment, EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.causes import Causes, constraint_token, limit_token
from rebalancer.assessment.domain_failures import Failure, Failures
from rebalancer.assessment.findings import Finding
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import State, ViolationCause
from rebalancer.model.snapshot import known_time
from rebalancer.planning.plan import Plan
from rebalancer.reporting.documents import (
    LargestShare,
    LostGroup,
    ReportDocument,
    ReportedConstraint,
    ReportedDeadlock,
    ReportedFailure,
    ReportedFinding,
    ReportedLimit,
)
from rebalancer.reporting.plan_document import workload_name
from rebalancer.reporting.remedies import limit_remedy, remedy
from rebalancer.reporting.state_reasons import StateReason, StateReasons

Chosen = Callable[[Reference], bool]

_MOST_LOSSES: Final = 20
"""Sets of pods that are listed for the loss of one domain, the worst."""

_MOST_EMPTY: Final = 100
"""Domains from which on a limit's empty ones are left out: of 5,000 nodes a row would name 4,970."""


def everything(_: Reference) -> bool:
    """Choose every workload."""
    return True


def report_document(  # each is a result of its own, computed only where a report is wanted
    assessment: Assessment,
    plan: Plan,
    causes: Causes,
    findings: Sequence[Finding],
    chosen: Chosen = everything,
    lost: Failures | None = None,
) -> ReportDocument:
    """Write a report on the chosen workloads, the violated first; `lost` is what losing each domain would break.

    `causes` and `findings` are the results of `find_causes` and `find_findings`.
    """
    verdicts = StateReasons(plan)
    rows = [
        row
        for judged in assessment.groups
        if any(chosen(each) for each in judged.group.workloads)
        for row in _rows(judged, verdicts, causes)
    ]
    rows.sort(key=lambda row: row.state == State.SATISFIED)
    limits = [
        _limit(each, verdicts.of_limit(each), causes) for each in assessment.limits if any(map(chosen, owners_of(each)))
    ]
    limits.sort(key=lambda row: row.state == State.SATISFIED)
    return ReportDocument(
        generated_at=known_time(plan.made_at),
        constraints=tuple(rows),
        limits=tuple(limits),
        deadlocks=tuple(
            ReportedDeadlock(namespace=each.pod.namespace, pod=each.pod.name, message=each.message)
            for each in assessment.deadlocks
            if chosen(each.workload)
        ),
        findings=tuple(
            ReportedFinding(kind=each.kind, object=each.object, message=each.message)
            for each in findings
            if any(map(chosen, each.workloads)) or (chosen is everything and not each.workloads)
        ),
        failures=tuple(_failures(lost.found, chosen)) if lost is not None else None,
        failure_domains=lost.domains if lost is not None else None,
    )


def _failures(lost: Sequence[Failure], chosen: Chosen) -> Iterator[ReportedFailure]:
    for each in lost:
        losses = [loss for loss in each.losses if any(map(chosen, loss.workloads))]
        if losses:
            yield ReportedFailure(
                topology_key=each.topology_key,
                domain=each.domain,
                groups=tuple(
                    LostGroup(
                        group=loss.group,
                        limit=loss.limit,
                        namespace=loss.namespace,
                        key=dict(loss.key),
                        lost=loss.lost,
                        total=loss.total,
                        left=loss.left,
                        share=float(loss.share),
                        holds=loss.holds,
                    )
                    for loss in losses[:_MOST_LOSSES]
                ),
                omitted=max(0, len(losses) - _MOST_LOSSES),
                unplaceable=each.unplaceable,
                unknown=each.unknown,
            )


def owners_of(limit: EvaluatedLimit) -> frozenset[Reference]:
    """Return the workloads that a limit is about."""
    return frozenset(part.member.reference for part in limit.parts)


def _limit(each: EvaluatedLimit, standing: StateReason, causes: Causes) -> ReportedLimit:
    cause = causes.get(limit_token(each))
    largest = each.largest
    counts = each.counts if len(each.counts) <= _MOST_EMPTY else each.counts.filled
    return ReportedLimit(
        group=each.group,
        limit=each.limit,
        namespace=each.namespace,
        key=dict(each.key),
        topology_key=each.topology_key,
        bound=each.rule.bound,
        total=each.total,
        cap=each.cap,
        counts=dict(sorted(counts.items())),
        largest=LargestShare(domain=largest.domain, count=largest.count, share=float(largest.share))
        if largest is not None
        else None,
        headroom=each.headroom,
        state=standing.state,
        reason=standing.reason,
        message=each.message,
        obstacle=standing.message,
        cause=cause,
        remedy=limit_remedy(each, standing.reason, cause),
        guaranteed=each.guaranteed,
        severity=each.severity,
    )


def _rows(judged: EvaluatedGroup, verdicts: StateReasons, causes: Causes) -> Iterator[ReportedConstraint]:
    for each in (*judged.hard, *judged.soft):
        cause = causes.get(constraint_token(judged, each))
        yield _row(judged, each, verdicts.of_constraint(judged, each), cause)


def _row(
    judged: EvaluatedGroup, each: EvaluatedConstraint, standing: StateReason, cause: ViolationCause | None
) -> ReportedConstraint:
    constraint = each.constraint
    return ReportedConstraint(
        namespace=judged.group.namespace,
        workloads=tuple(workload_name(workload) for workload in judged.group.workloads),
        topology_key=constraint.key,
        max_skew=constraint.max_skew,
        min_domains=constraint.min_domains,
        when_unsatisfiable=constraint.when_unsatisfiable,
        origin=constraint.origin,
        counts=dict(each.counts.by_domain),
        skew=each.counts.skew,
        state=standing.state,
        reason=standing.reason,
        message=standing.message,
        cause=cause,
        remedy=remedy(standing.reason, cause),
    )
