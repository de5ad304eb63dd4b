"""TooLarge: pods with more constraints, terms or text than is read, or than the policy's `eligibility.maxTerms`.

There is one finding for each namespace, because a tenant with one such workload has many.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from rebalancer.assessment.findings.finding import Finding
from rebalancer.assessment.too_large import TooLarge
from rebalancer.model.reasons import FindingKind


def too_large_findings(workloads: Iterable[TooLarge]) -> Iterator[Finding]:
    """Yield the findings."""
    by_namespace: defaultdict[str, list[TooLarge]] = defaultdict(list)
    for one in workloads:
        by_namespace[one.workload.namespace].append(one)
    for namespace, several in by_namespace.items():
        first, *others = sorted(several)
        more = f", and {len(others):,} more" if others else ""
        yield Finding(
            kind=FindingKind.TOO_LARGE,
            object=f"Namespace {namespace}",
            message=(
                f"{first.workload}: {first.why}{more}. Such pods are not moved; they are counted by their labels. Give "
                "them fewer and shorter constraints and terms"
            ),
            workloads=tuple(one.workload for one in (first, *others)),
        )
