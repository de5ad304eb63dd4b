"""Findings for which the assessment already has rows: one finding for each row.

* EvictedByOthers: a drain or a program beside the rebalancer evicts pods of a workload. The plan says whether its moves
  wait for that.
* SizesWithoutPlacement: numbers of replicas for which the hard constraints of a workload leave no placement.
* DomainUnsettled: a domain that loses nodes, or has until a moment ago; a drain of several nodes is reported once.
* NothingStartsThere: a node does not start, or rejects, the pods that were bound to it lately. It is reported even if
  nothing is to be repaired, since the scheduler still chooses the node.
* NamespaceTooCostly: not all constraints of a namespace are evaluated, because they exceed its share.
"""

from collections.abc import Iterator

from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.controllers import find_reference
from rebalancer.assessment.findings.finding import Finding, list_names, workload_finding
from rebalancer.model.reasons import FindingKind
from rebalancer.scheduling.view import View


def evicted_by_others_findings(assessment: Assessment) -> Iterator[Finding]:
    """Yield one finding for each workload whose pods others evict."""
    for one in assessment.evicted_by_others:
        yield workload_finding(FindingKind.EVICTED_BY_OTHERS, one.evictions.workload, str(one.evictions))


def size_findings(assessment: Assessment) -> Iterator[Finding]:
    """Yield one finding for each workload with sizes that have no placement."""
    for row in assessment.sizes:
        if row.verdict.number:
            yield workload_finding(FindingKind.SIZES_WITHOUT_PLACEMENT, row.workload, str(row))


def domain_motion_findings(assessment: Assessment) -> Iterator[Finding]:
    """Yield one finding for each domain that has not settled."""
    for domain in assessment.unsettled_domains:
        name = f"node label {domain.motion.key}={domain.motion.value}"
        yield Finding(kind=FindingKind.DOMAIN_UNSETTLED, object=name, message=domain.sentence)


def start_findings(assessment: Assessment, view: View) -> Iterator[Finding]:
    """Yield one finding for each node on which nothing starts, with the workloads of the pods there."""
    for node in assessment.nodes_without_starts:
        if not node.owner:
            yield Finding(
                kind=FindingKind.NOTHING_STARTS_THERE,
                object=f"Node {node.refusal.node}",
                message=node.refusal.sentence,
                workloads=tuple(sorted({find_reference(pod, view) for pod in node.pods})),
            )


def too_costly_findings(assessment: Assessment) -> Iterator[Finding]:
    """Yield one finding for each namespace that takes more than its share."""
    for refusal, workloads in assessment.too_costly:
        yield Finding(
            kind=FindingKind.NAMESPACE_TOO_COSTLY,
            object=f"Namespace {refusal.namespace}",
            message=f"{refusal}. Not evaluated: {list_names([str(workload) for workload in workloads])}",
            workloads=workloads,
        )
