"""MixedConstraints: pods that one constraint counts together but that carry different values of it.

After a change of the template new pods carry the new values and running pods the old ones until they are replaced: some
pods are placed by another rule than the rest (docs/semantics.md, 5.1).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from rebalancer.assessment.controllers import PodController, members
from rebalancer.assessment.findings.finding import Finding, list_names
from rebalancer.model.labels import LabelSelector
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import FindingKind
from rebalancer.scheduling.spread_constraints import EffectiveConstraint, constraints_of
from rebalancer.scheduling.view import View

_CountedSet = tuple[str, str, str, LabelSelector]
"""Namespace, topology key, whenUnsatisfiable and selector: constraints that are equal in these count the same pods."""

_Values = tuple[int, int]
"""maxSkew and minDomains."""


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
    """Yield one pod of each pod class with the number of its pods; equal specs and labels are one object mostly.

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
        f"({f'{number} pods' if number else 'the next pod'})"
        for (skew, least), number in sorted(carried.pods.items())
    ]
    return (
        f"the constraint over {key} ({action}) of {list_names(list(map(str, workloads)))} is carried as "
        f"{', as '.join(parts)}: pods counted together are placed by different rules. Make the templates agree and "
        "restart the pods with old values"
    )
