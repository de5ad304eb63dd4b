"""Findings about constraints themselves: pod templates state rules that cannot work, or not for all pods.

* Selectors that do not count the workload's own pods: missing, empty, or for other pods.
* TemplateRefused: the API server accepted a template but refuses its pods, so that none is created.
* MixedConstraints: pods that one constraint counts together carry different values of it. After a change of the
  template new pods carry the new values, and running pods the old values until they are replaced, so some pods are
  placed by another rule than the rest.
* ConstraintsContradict: rules of one workload can never be satisfied together, however empty the cluster is. A domain
  that counts but takes none of the pods keeps the minimum low permanently: the pods' affinity or tolerations exclude
  its nodes, while the constraint's inclusion policy counts them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from rebalancer.assessment.assess import EvaluatedConstraint, EvaluatedGroup
from rebalancer.assessment.controllers import PodController, members
from rebalancer.assessment.findings.finding import Finding, list_names, workload_finding
from rebalancer.creation.replacement import check_template
from rebalancer.model.labels import LabelSelector
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import PASSING
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import FindingKind
from rebalancer.model.words import plural
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.scheduling.feasibility import admitted_by_labels, admitted_by_taints
from rebalancer.scheduling.node_index import required_part
from rebalancer.scheduling.pod_topology_spread import ineffective
from rebalancer.scheduling.spread_constraints import EffectiveConstraint, Origin, constraints_of
from rebalancer.scheduling.view import View

_CountedSet = tuple[str, str, str, LabelSelector]
"""Namespace, topology key, whenUnsatisfiable and selector: constraints that are equal in these count the same pods."""

_Values = tuple[int, int]
"""maxSkew and minDomains."""


def selector_findings(groups: Sequence[EvaluatedGroup], view: View) -> Iterator[Finding]:
    """Yield findings about the constraints in the workloads' own templates, hard and soft."""
    for group in groups:
        for constraint in (*group.spread.constraints.hard, *group.spread.constraints.soft):
            if constraint.origin is not Origin.DEFAULT:
                yield from _constraint_findings(constraint, group, view)


def _constraint_findings(constraint: EffectiveConstraint, group: EvaluatedGroup, view: View) -> Iterator[Finding]:
    selector = constraint.selector
    what = f"its constraint over {constraint.key}"
    for member in group.spread.members:
        sample = member.sample
        if selector is None:
            message = f"{what} has no labelSelector and counts no pod: give it the labels of the template"
            yield workload_finding(FindingKind.SELECTOR_NULL, member.reference, message)
        elif ineffective(constraint, view):
            message = (
                f"{what} has an empty labelSelector, with which kube-scheduler {view.snapshot.version} counts no pod: "
                "give it the labels of the template"
            )
            yield workload_finding(FindingKind.SELECTOR_EMPTY, member.reference, message)
        elif sample is not None and not selector.matches(sample.labels):
            message = (
                f"{what} selects {selector}, which its own pods do not match: its pods never change the counts that "
                "they are placed by. Make the selector match the labels of the template"
            )
            yield workload_finding(FindingKind.SELECTOR_MISSES_OWN_PODS, member.reference, message)


def template_findings(view: View) -> Iterator[Finding]:
    """Yield a finding for every owner that should have pods, whether it has any or not."""
    snapshot = view.snapshot
    for owner in snapshot.workloads:
        why = check_template(owner.template) if owner.replicas else None
        if why is not None:
            top = snapshot.top_of(owner)
            message = f"{why.message}. Remove it from one of the two: a deleted pod is not replaced"
            yield workload_finding(FindingKind.TEMPLATE_REFUSED, reference_of(top), message)


@dataclass(slots=True)
class _Carriers:
    """The number of pods that carry each pair of values, and their workloads."""

    pods: dict[_Values, int] = field(default_factory=dict)
    workloads: dict[Reference, None] = field(default_factory=dict)


def mixed_constraint_findings(view: View) -> Iterator[Finding]:
    """Yield one finding for each constraint that running or next pods carry with different values."""
    carried_by: dict[_CountedSet, _Carriers] = {}
    for member in members(view):
        for pod, number in _pod_classes(member):
            for constraint in chain(*constraints_of(pod, view)):
                if constraint.selector is not None and constraint.selector.matches(pod.labels):
                    carried = carried_by.setdefault(_counted_set(pod, constraint, constraint.selector), _Carriers())
                    values = constraint.max_skew, constraint.min_domains
                    carried.pods[values] = carried.pods.get(values, 0) + number
                    carried.workloads[member.reference] = None
    for (_, key, action, _), carried in carried_by.items():
        if len(carried.pods) > 1:
            workloads = sorted(carried.workloads)
            yield Finding(
                kind=FindingKind.MIXED_CONSTRAINTS,
                object=str(workloads[0]),
                message=_message(key, action, carried, workloads),
                workloads=tuple(workloads),
            )


def _pod_classes(member: PodController) -> Iterator[tuple[Pod, int]]:
    """Yield one pod of each pod class with the number of its pods; equal specs and labels are mostly one object.

    The next pod is yielded with the number 0, because its values may differ from those of the running pods.
    """
    numbers: dict[tuple[int, int], int] = {}
    pods: dict[tuple[int, int], Pod] = {}
    for pod in member.pods:
        if pod.spec.spread:
            kind = id(pod.spec), id(pod.labels)
            numbers[kind] = numbers.get(kind, 0) + 1
            pods.setdefault(kind, pod)
    yield from ((pods[kind], number) for kind, number in numbers.items())
    if isinstance(member.next_pod, Pod) and member.next_pod.spec.spread:
        yield member.next_pod, 0


def _counted_set(pod: Pod, constraint: EffectiveConstraint, selector: LabelSelector) -> _CountedSet:
    return pod.namespace, constraint.key, constraint.when_unsatisfiable, selector


def _message(key: str, action: str, carried: _Carriers, workloads: list[Reference]) -> str:
    domains = len({least for _, least in carried.pods}) > 1
    parts = [
        f"maxSkew {skew}{f' and minDomains {least}' if domains else ''} "
        f"({plural(number, 'pod') if number else 'the next pod'})"
        for (skew, least), number in sorted(carried.pods.items())
    ]
    return (
        f"the constraint over {key} ({action}) of {list_names(list(map(str, workloads)))} is carried as "
        f"{', as '.join(parts)}: pods counted together are placed by different rules. Make the templates agree and "
        "restart the pods with old values"
    )


def contradiction_findings(groups: Sequence[EvaluatedGroup], view: View) -> Iterator[Finding]:
    """Yield contradictions: of constraints with affinity or taints, and of affinity with anti-affinity."""
    for group in groups:
        for constraint in group.hard:
            yield from _closed_domain_finding(constraint, group, view)
    for member in members(view):
        yield from _affinity_contradiction(member)


def _closed_domain_finding(evaluated: EvaluatedConstraint, group: EvaluatedGroup, view: View) -> Iterator[Finding]:
    """Yield a finding if permanently closed domains prevent some pods from ever being placed."""
    sample, counts, constraint = group.spread.sample, evaluated.counts, evaluated.constraint
    if counts.floor_at_zero or ineffective(constraint, view):
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
        usable = admitted_by_labels(sample.spec.node_affinity, view)
        usable &= admitted_by_taints((*tolerations, *PASSING), view)
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
    """Yield a finding if a pod requires both affinity and anti-affinity to the same pods."""
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
