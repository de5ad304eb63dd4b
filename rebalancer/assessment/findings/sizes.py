"""SizesWithoutPlacement: numbers of replicas for which the hard constraints of a workload leave no placement."""

from collections.abc import Iterable, Iterator

from rebalancer.assessment.findings.finding import Finding, workload_finding
from rebalancer.assessment.sizes.find import WorkloadSizes
from rebalancer.model.reasons import FindingKind


def size_findings(rows: Iterable[WorkloadSizes]) -> Iterator[Finding]:
    """Yield one finding for each workload with such sizes."""
    for row in rows:
        if row.verdict.number:
            yield workload_finding(FindingKind.SIZES_WITHOUT_PLACEMENT, row.workload, str(row))
