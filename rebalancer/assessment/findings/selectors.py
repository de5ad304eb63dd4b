"""Selectors of constraints that do not count the workload's pods: missing, empty, or for other pods."""

from collections.abc import Iterator, Sequence

from rebalancer.assessment.assess import EvaluatedGroup
from rebalancer.assessment.findings.finding import Finding, workload_finding
from rebalancer.model.reasons import FindingKind
from rebalancer.scheduling.pod_topology_spread import ineffective
from rebalancer.scheduling.spread_constraints import EffectiveConstraint, Origin
from rebalancer.scheduling.view import View


def selector_findings(groups: Sequence[EvaluatedGroup], view: View) -> Iterator[Finding]:
    """Yield findings about the constraints in the workloads' own templates, hard and soft."""
    for group in groups:
        for constraint in (*group.spread.constraints.hard, *group.spread.constraints.soft):
            if constraint.origin is not Origin.DEFAULT:
                yield from _constraint_findings(constraint, group, view)


def _constraint_findings(constraint: EffectiveConstraint, group: EvaluatedGroup, view: View) -> Iterator[Finding]:
    selector = constraint.selector
    what = f"its constraint over {constraint.key}"
    for member in group.spread.members:
        sample = member.sample
        if selector is None:
            message = f"{what} has no labelSelector and counts no pod: give it the labels of the template"
            yield workload_finding(FindingKind.SELECTOR_NULL, member.reference, message)
        elif ineffective(constraint, view):
            message = (
                f"{what} has an empty labelSelector, with which kube-scheduler {view.snapshot.version} counts no pod: "
                "give it the labels of the template"
            )
            yield workload_finding(FindingKind.SELECTOR_EMPTY, member.reference, message)
        elif sample is not None and not selector.matches(sample.labels):
            message = (
                f"{what} selects {selector}, which its own pods do not match: its pods never change the counts that "
                "they are placed by. Make the selector match the labels of the template"
            )
            yield workload_finding(FindingKind.SELECTOR_MISSES_OWN_PODS, member.reference, message)
