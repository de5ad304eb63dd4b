"""EvictedByOthers: workloads whose pods others evict: a drain, or a program beside the rebalancer."""

from collections.abc import Iterable, Iterator

from rebalancer.assessment.evicted import EvictedByOthers
from rebalancer.assessment.findings.finding import Finding, workload_finding
from rebalancer.model.reasons import FindingKind


def evicted_by_others_findings(evicted: Iterable[EvictedByOthers]) -> Iterator[Finding]:
    """Yield one finding for each such workload; whether its moves wait for that the plan says."""
    for one in evicted:
        yield workload_finding(FindingKind.EVICTED_BY_OTHERS, one.evictions.workload, str(one.evictions))
