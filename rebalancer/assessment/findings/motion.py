"""Findings about domains in motion: a drain of several nodes, a zonal shift, a zone that fails, reported once.

DomainUnsettled: a domain that loses nodes, or has until a moment ago. Nothing is moved into it until it has settled.
"""

from collections.abc import Iterable, Iterator

from rebalancer.assessment.assess import UnsettledDomain
from rebalancer.assessment.findings.finding import Finding
from rebalancer.model.reasons import FindingKind


def domain_motion_findings(domains: Iterable[UnsettledDomain]) -> Iterator[Finding]:
    """Yield one finding for each domain that has not settled."""
    for domain in domains:
        name = f"node label {domain.motion.key}={domain.motion.value}"
        yield Finding(kind=FindingKind.DOMAIN_UNSETTLED, object=name, message=domain.sentence)
