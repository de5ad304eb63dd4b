"""Findings: faults that violate no constraint, first looming outages, then mistakes in manifests.

Each module answers one kind of question by a function that yields findings; no module imports another.
"""

from collections.abc import Sequence

from rebalancer.assessment.assess import Assessment
from rebalancer.assessment.findings.assessed import (
    domain_motion_findings,
    evicted_by_others_findings,
    size_findings,
    start_findings,
    too_costly_findings,
)
from rebalancer.assessment.findings.budgets import budget_findings
from rebalancer.assessment.findings.constraints import (
    contradiction_findings,
    mixed_constraint_findings,
    selector_findings,
    template_findings,
)
from rebalancer.assessment.findings.domains import (
    domain_without_nodes_findings,
    missing_key_findings,
    policy_key_findings,
    too_few_domains_findings,
    unused_domain_findings,
)
from rebalancer.assessment.findings.finding import Finding
from rebalancer.assessment.findings.platforms import platform_findings
from rebalancer.assessment.findings.replacements import replacement_findings
from rebalancer.assessment.findings.too_large import too_large_findings
from rebalancer.assessment.findings.volumes import volume_findings
from rebalancer.assessment.unmatched import Unmatched
from rebalancer.model.reasons import FindingKind
from rebalancer.scheduling.view import View

__all__ = ["Finding", "find_findings"]

_ORDER = {kind: place for place, kind in enumerate(FindingKind)}


def find_findings(view: View, assessment: Assessment, unmatched: Sequence[Unmatched]) -> tuple[Finding, ...]:
    """Return every finding, by kind, object and message; `unmatched` is the result of `find_unmatched`.

    Without knowledge of nodes, findings about nodes and domains are left out. Costs about as much as the assessment.
    """
    groups = assessment.groups
    findings = [
        *selector_findings(groups, view),
        *mixed_constraint_findings(view),
        *budget_findings(view),
        *template_findings(view),
        *volume_findings(view),
        *evicted_by_others_findings(assessment),
        *too_costly_findings(assessment),
        *too_large_findings(assessment.too_large),
    ]
    if "Node" not in view.snapshot.unknown:
        findings += [
            *replacement_findings(groups, view),
            *missing_key_findings(groups, view),
            *policy_key_findings(unmatched, assessment.pod_groups),
            *contradiction_findings(groups, view),
            *too_few_domains_findings(groups, assessment.limits, view),
            *domain_without_nodes_findings(assessment.domains_without_nodes),
            *size_findings(assessment),
            *unused_domain_findings(assessment.pod_groups, view),
            *domain_motion_findings(assessment),
            *platform_findings(groups, assessment.limits, view),
            *start_findings(assessment, view),
        ]
    unique = dict.fromkeys(findings)
    return tuple(sorted(unique, key=lambda finding: (_ORDER[finding.kind], finding.object, finding.message)))
