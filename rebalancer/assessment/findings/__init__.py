"""Findings: what is wrong without being violated, an outage in waiting first, then what is written wrongly.

One module for each kind of question. Each has a function that yields findings, and none knows another.
"""

from collections.abc import Sequence

from rebalancer.assessment.evaluated import EvaluatedGroup
from rebalancer.assessment.findings.budgets import of_budgets
from rebalancer.assessment.findings.contradictions import contradictions
from rebalancer.assessment.findings.domains import too_few, unused
from rebalancer.assessment.findings.finding import Finding
from rebalancer.assessment.findings.mixtures import mixtures
from rebalancer.assessment.findings.replacements import blocked
from rebalancer.assessment.findings.selectors import of_selectors
from rebalancer.assessment.findings.templates import refused
from rebalancer.assessment.findings.topology_keys import keys_of_policy, missing_keys
from rebalancer.assessment.limit_groups import LimitGroup
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.assessment.unmatched import Unmatched
from rebalancer.model.reasons import FindingKind
from rebalancer.scheduling.view import View

__all__ = ["Finding", "findings"]

_ORDER = {kind: place for place, kind in enumerate(FindingKind)}


def findings(
    view: View,
    groups: Sequence[EvaluatedGroup],
    gathered: Sequence[LimitGroup],
    limits: Sequence[EvaluatedLimit],
    unmatched: Sequence[Unmatched],
) -> tuple[Finding, ...]:
    """Find everything, by kind, object and message. Without knowledge of nodes nothing is said of places."""
    found = [*of_selectors(groups, view), *mixtures(view), *of_budgets(view), *refused(view)]
    if "Node" not in view.snapshot.unknown:
        found += [
            *blocked(groups, view),
            *missing_keys(groups, view),
            *keys_of_policy(unmatched, gathered),
            *contradictions(groups, view),
            *too_few(groups, limits, view),
            *unused(gathered, view),
        ]
    return tuple(sorted(dict.fromkeys(found), key=lambda each: (_ORDER[each.kind], each.object, each.message)))
