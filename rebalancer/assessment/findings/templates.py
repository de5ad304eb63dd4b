"""TemplateRefused: templates that the API server accepted but whose pods it refuses, so that none is created."""

from collections.abc import Iterator

from rebalancer.assessment.findings.finding import Finding, workload_finding
from rebalancer.model.reasons import FindingKind
from rebalancer.model.workloads import reference_of
from rebalancer.scheduling.replacement import check_template
from rebalancer.scheduling.view import View


def template_findings(view: View) -> Iterator[Finding]:
    """Yield a finding for every owner that should have pods, whether it has any or not."""
    snapshot = view.snapshot
    for owner in snapshot.workloads:
        why = check_template(owner.template) if owner.replicas else None
        if why is not None:
            top = snapshot.workload.get(owner.owner.uid, owner) if owner.owner is not None else owner
            message = f"{why.message}. Remove it from one of the two: a deleted pod is not replaced"
            yield workload_finding(FindingKind.TEMPLATE_REFUSED, reference_of(top), message)
