"""MixedConstraints: pods that one constraint counts together, and that carry other values of it.

After a scaling the new pods carry new values, running pods keep the old ones until they are made anew: some are placed
by another rule than the rest (docs/semantics.md, 5.1).
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

_Counted = tuple[str, str, str, LabelSelector]
"""Namespace, topology key, whenUnsatisfiable and selector: what counts the same pods for the same purpose."""

_Values = tuple[int, int]
"""maxSkew and minDomains."""


@dataclass(slots=True)
class _Carried:
    """Who carries which values: so many pods, of these workloads."""

    pods: dict[_Values, int] = field(default_factory=dict)
    workloads: dict[Reference, None] = field(default_factory=dict)


def mixed_constraint_findings(view: View) -> Iterator[Finding]:
    """Yield one finding for each constraint that running pods, or next ones, carry with several values."""
    found: dict[_Counted, _Carried] = {}
    for member in members(view):
        for pod, number in _kinds(member):
            for each in chain(*constraints_of(pod, view)):
                if each.selector is not None and each.selector.matches(pod.labels):
                    carried = found.setdefault(_counted(pod, each, each.selector), _Carried())
                    values = each.max_skew, each.min_domains
                    carried.pods[values] = carried.pods.get(values, 0) + number
                    carried.workloads[member.reference] = None
    for (_, key, action, _), carried in found.items():
        if len(carried.pods) > 1:
            workloads = sorted(carried.workloads)
            yield Finding(
                kind=FindingKind.MIXED_CONSTRAINTS,
                object=str(workloads[0]),
                message=_message(key, action, carried, workloads),
                workloads=tuple(workloads),
            )


def _kinds(member: PodController) -> Iterator[tuple[Pod, int]]:
    """Yield a pod of each kind with its number: equal specs and labels are one object in most snapshots.

    The next pod is among them with the number 0: what it will carry differs from what runs.
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


def _counted(pod: Pod, each: EffectiveConstraint, selector: LabelSelector) -> _Counted:
    return pod.namespace, each.key, each.when_unsatisfiable, selector


def _message(key: str, action: str, carried: _Carried, workloads: list[Reference]) -> str:
    domains = len({least for _, least in carried.pods}) > 1
    parts = [
        f"maxSkew {skew}{f' and minDomains {least}' if domains else ''} "
        f"({f'{number} pods' if number else 'the next pod'})"
        for (skew, least), number in sorted(carried.pods.items())
    ]
    return (
        f"the constraint over {key} ({action}) of {list_names([str(each) for each in workloads])} is carried as "
        f"{', as '.join(parts)}: pods counted together are placed by different rules. Make the templates agree and "
        "restart the pods with old values"
    )
