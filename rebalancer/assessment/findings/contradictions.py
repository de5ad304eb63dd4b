"""ConstraintsContradict: rules of one workload that can never hold together, however empty the cluster is.

A domain that counts and takes none of the pods holds the minimum down for ever: it has nodes that the pods' affinity or
tolerations leave out, while the constraint's inclusion policy counts them (docs/semantics.md, "Which nodes").
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
"""Taints of node.kubernetes.io that come and go: what they close is no contradiction of rules."""

_TOLERATED: Final = tuple(Toleration(key=f"node.kubernetes.io/{name}", operator="Exists") for name in _PASSING)


def contradiction_findings(groups: Sequence[EvaluatedGroup], view: View) -> Iterator[Finding]:
    """Yield what contradicts itself: constraints against affinity and taints, affinity against anti-affinity."""
    for judged in groups:
        for each in judged.hard:
            yield from _closed(each, judged, view)
    for member in members(view):
        yield from _both_ways(member)


def _closed(each: EvaluatedConstraint, judged: EvaluatedGroup, view: View) -> Iterator[Finding]:
    """Yield a finding where domains that are closed for good keep some of the pods from ever being placed."""
    sample, counts, constraint = judged.group.sample, each.counts, each.constraint
    if len(counts.eligible.domains) < constraint.min_domains or ineffective(constraint, view):
        return
    closed = _closed_domains(each, sample, view)
    if not closed or len(closed) == len(counts.eligible.domains):
        return
    filled = counts.by_domain.filled
    least = min(filled.get(value, 0) for value in closed)
    room = (len(counts.eligible.domains) - len(closed)) * (least + constraint.max_skew)
    room += sum(filled.get(value, 0) for value in closed)
    counted = [member for member in judged.group.members if _counted(member, constraint)]
    wanted = sum({each.uid: each.replicas for member in counted for each in _tops(member)}.values())
    if wanted <= room:
        return
    message = (
        f"its constraint counts {constraint.key} {list_names(closed)}, but affinity or taints keep its pods out: at "
        f"most {room} of {wanted} pods can be placed. Set nodeTaintsPolicy or nodeAffinityPolicy to Honor, or tolerate "
        "the taint"
    )
    for workload in sorted({member.reference for member in counted}):
        yield workload_finding(FindingKind.CONSTRAINTS_CONTRADICT, workload, message)


def _closed_domains(each: EvaluatedConstraint, sample: Pod, view: View) -> list[str]:
    affinity, tolerations = required_part(sample.spec.node_affinity), sample.spec.tolerations
    eligible = each.counts.eligible

    def make() -> list[str]:
        usable = view.nodes.matching(affinity) & view.nodes.tolerated((*tolerations, *_TOLERATED))
        if eligible.nodes <= usable:
            return []
        return sorted(value for value, nodes in eligible.domains.items() if nodes.isdisjoint(usable))

    # Groups that see the same nodes share one object: the question is answered once for all of them.
    return view.memo(("closed domains", id(eligible), affinity, tolerations), make)


def _counted(member: PodController, constraint: EffectiveConstraint) -> bool:
    """Say whether the constraint counts the pods of an owner, so that each new one fills a domain."""
    selector, sample = constraint.selector, member.sample
    return selector is not None and sample is not None and selector.matches(sample.labels)


def _tops(member: PodController) -> Iterator[Workload]:
    top = member.top or member.owner
    if top is not None:
        yield top


def _both_ways(member: PodController) -> Iterator[Finding]:
    """Yield a finding where a pod must stand beside the very pods that it must keep away from."""
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
                    f"it requires affinity and anti-affinity to {wanted.selector} over {wanted.topology_key}: no node "
                    "satisfies both. Remove one of them"
                )
                yield workload_finding(FindingKind.CONSTRAINTS_CONTRADICT, member.reference, message)
