"""ConstraintsContradict: rules of one workload that can never be satisfied together, however empty the cluster is.

A domain that counts but takes none of the pods keeps the minimum low permanently: the pods' affinity or tolerations
exclude its nodes, while the constraint's inclusion policy counts them (docs/semantics.md, "Which nodes").
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rebalancer.assessment.assess import EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.controllers import PodController, members
from rebalancer.assessment.findings.finding import Finding, list_names, workload_finding
from rebalancer.model.affinity import Toleration
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import FindingKind
from rebalancer.model.workloads import Workload
from rebalancer.scheduling.node_index import required_part
from rebalancer.scheduling.pod_topology_spread import ineffective
from rebalancer.scheduling.spread_constraints import EffectiveConstraint
from rebalancer.scheduling.view import View

_PASSING: Final = ("unschedulable", "not-ready", "unreachable", "memory-pressure", "disk-pressure", "pid-pressure")
"""Taints of node.kubernetes.io that come and go: a domain that they close is no contradiction."""

_TOLERATED: Final = tuple(Toleration(key=f"node.kubernetes.io/{name}", operator="Exists") for name in _PASSING)


def contradiction_findings(groups: Sequence[EvaluatedGroup], view: View) -> Iterator[Finding]:
    """Yield contradictions: of constraints with affinity or taints, and of affinity with anti-affinity."""
    for group in groups:
        for constraint in group.hard:
            yield from _closed_domain_finding(constraint, group, view)
    for member in members(view):
        yield from _affinity_contradiction(member)


def _closed_domain_finding(evaluated: EvaluatedConstraint, group: EvaluatedGroup, view: View) -> Iterator[Finding]:
    """Yield a finding where domains that are closed for good prevent some of the pods from ever being placed."""
    sample, counts, constraint = group.spread.sample, evaluated.counts, evaluated.constraint
    if len(counts.eligible.domains) < constraint.min_domains or ineffective(constraint, view):
        return
    closed = _closed_domains(evaluated, sample, view)
    if not closed or len(closed) == len(counts.eligible.domains):
        return
    filled = counts.by_domain.filled
    least = min(filled.get(value, 0) for value in closed)
    most = (len(counts.eligible.domains) - len(closed)) * (least + constraint.max_skew)
    most += sum(filled.get(value, 0) for value in closed)
    counted = [member for member in group.spread.members if _is_counted(member, constraint)]
    wanted = sum({workload.uid: workload.replicas for member in counted for workload in _top_owner(member)}.values())
    if wanted <= most:
        return
    message = (
        f"its constraint counts {constraint.key} {list_names(closed)}, but affinity or taints keep its pods out: at "
        f"most {most} of {wanted} pods can be placed. Set nodeTaintsPolicy or nodeAffinityPolicy to Honor, or tolerate "
        "the taint"
    )
    for workload in sorted({member.reference for member in counted}):
        yield workload_finding(FindingKind.CONSTRAINTS_CONTRADICT, workload, message)


def _closed_domains(evaluated: EvaluatedConstraint, sample: Pod, view: View) -> list[str]:
    affinity, tolerations = required_part(sample.spec.node_affinity), sample.spec.tolerations
    eligible = evaluated.counts.eligible

    def make() -> list[str]:
        usable = view.nodes.matching(affinity) & view.nodes.tolerated((*tolerations, *_TOLERATED))
        if eligible.nodes <= usable:
            return []
        return sorted(value for value, nodes in eligible.domains.items() if nodes.isdisjoint(usable))

    # Groups with the same eligible nodes share one object, so the result is computed once for all of them.
    return view.memo(("closed domains", id(eligible), affinity, tolerations), make)


def _is_counted(member: PodController, constraint: EffectiveConstraint) -> bool:
    """Return whether the constraint counts the pods of an owner, so that each new pod fills a domain."""
    selector, sample = constraint.selector, member.sample
    return selector is not None and sample is not None and selector.matches(sample.labels)


def _top_owner(member: PodController) -> Iterator[Workload]:
    top = member.top or member.owner
    if top is not None:
        yield top


def _affinity_contradiction(member: PodController) -> Iterator[Finding]:
    """Yield a finding where a pod requires both affinity and anti-affinity to the same pods."""
    sample = member.sample
    if sample is None:
        return
    affinity = sample.spec.pod_affinity
    for wanted in affinity.required:
        for shunned in affinity.anti_required:
            same = (wanted.topology_key, wanted.selector, wanted.namespaces, wanted.namespace_selector) == (
                shunned.topology_key,
                shunned.selector,
                shunned.namespaces,
                shunned.namespace_selector,
            )
            if same:
                message = (
                    f"it requires both affinity and anti-affinity to {wanted.selector} over {wanted.topology_key}: no "
                    "node satisfies both. Remove one of them"
                )
                yield workload_finding(FindingKind.CONSTRAINTS_CONTRADICT, member.reference, message)
