"""NamespaceTooCostly: namespaces of which not all constraints are evaluated, as they take more than their share."""

from collections.abc import Iterable, Iterator

from rebalancer.assessment.constraint_costs import TooCostly
from rebalancer.assessment.findings.finding import Finding, list_names
from rebalancer.model.reasons import FindingKind


def too_costly_findings(left: Iterable[TooCostly]) -> Iterator[Finding]:
    """Yield one finding for each such namespace."""
    for refusal, workloads in left:
        yield Finding(
            kind=FindingKind.NAMESPACE_TOO_COSTLY,
            object=f"Namespace {refusal.namespace}",
            message=f"{refusal}. Not evaluated: {list_names([str(workload) for workload in workloads])}",
            workloads=workloads,
        )
