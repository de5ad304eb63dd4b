"""The Report document: every constraint of every workload, and what planning knows of the violated ones."""

from collections.abc import Callable, Iterator

from rebalancer.assessment.judgement import Assessment, Judged, JudgedGroup
from rebalancer.model.moves import Reference
from rebalancer.model.verdicts import State
from rebalancer.planning.plans import GroupPlan, Plan
from rebalancer.reporting.documents import ReportDocument, ReportedConstraint
from rebalancer.reporting.plan_document import workload_name

Chosen = Callable[[Reference], bool]


def everything(_: Reference) -> bool:
    """Choose every workload."""
    return True


def report_document(assessment: Assessment, plan: Plan, chosen: Chosen = everything) -> ReportDocument:
    """Write a report on the chosen workloads, the violated first."""
    planned = {group.judged.group.name: group for group in plan.groups}
    rows = [
        row
        for judged in assessment.groups
        if any(chosen(each) for each in judged.group.workloads)
        for row in _rows(judged, planned.get(judged.group.name))
    ]
    rows.sort(key=lambda row: row.state == State.SATISFIED)
    return ReportDocument(generated_at=plan.made_at, constraints=tuple(rows))


def _rows(judged: JudgedGroup, planned: GroupPlan | None) -> Iterator[ReportedConstraint]:
    for each in (*judged.hard, *judged.soft):
        yield _row(judged, each, planned if each.counts.violated and each.constraint.hard else None)


def _row(judged: JudgedGroup, each: Judged, planned: GroupPlan | None) -> ReportedConstraint:
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
        state=planned.state if planned else each.state,
        reason=planned.reason if planned else None,
        message=planned.message if planned else "",
    )
