"""The cost that one namespace may have in a cycle: beyond it, only the cheapest constraints are evaluated.

Anybody who may create pods in a namespace may create thousands of workloads, each with its own constraints. Their cost
is counted in operations, from the snapshot alone, so that a snapshot gives the same plan on every machine. Each
constraint costs one operation, since pods are indexed by their labels. A constraint whose selector names no value costs
one more for each label set in the namespace, since it is compared with all of them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from rebalancer.assessment.spread_groups import SpreadGroup
from rebalancer.model.facts import Refusal
from rebalancer.model.labels import LabelSelector, Operator
from rebalancer.model.moves import Reference
from rebalancer.model.reasons import Reason
from rebalancer.scheduling.view import View

SHARE: Final = 40_000
"""Operations that the constraints of one namespace may take, some 0.5 s: 13,000 workloads of three constraints."""


class ConstraintsTooCostly(Refusal):
    """The constraints of a namespace take more operations than its share; this workload's are not evaluated."""

    reason = Reason.NAMESPACE_TOO_COSTLY
    namespace: str
    operations: int
    share: int

    def __str__(self) -> str:
        return (
            f"the constraints of namespace {self.namespace} take {self.operations:,} operations in a cycle, and a "
            f"namespace may take {self.share:,}, so the most expensive ones are not evaluated. To make them "
            "cheaper, use fewer constraints, and selectors that name a label's value"
        )


class TooCostly(NamedTuple):
    """The workloads of a namespace whose constraints are not evaluated, and why."""

    refusal: ConstraintsTooCostly
    workloads: tuple[Reference, ...]


class Shared(NamedTuple):
    """The spread groups that are evaluated, in order, and the workloads left out, by namespace."""

    groups: tuple[SpreadGroup, ...]
    left: tuple[TooCostly, ...]


def share_out(groups: Sequence[SpreadGroup], view: View, share: int = SHARE) -> Shared:
    """Divide the groups, the cheapest first, then by name, into those within their namespace's share and the rest."""
    by_namespace: defaultdict[str, list[tuple[int, SpreadGroup]]] = defaultdict(list)
    for group in groups:
        by_namespace[group.namespace].append((_count_operations(group, view), group))
    left = [*_leave(by_namespace, share)]
    if not left:  # the usual case
        return Shared(tuple(groups), ())
    waiting = {id(group) for _, beyond in left for group in beyond}
    return Shared(
        groups=tuple(group for group in groups if id(group) not in waiting),
        left=tuple(
            TooCostly(refusal, tuple(sorted({workload for group in beyond for workload in group.workloads})))
            for refusal, beyond in left
        ),
    )


def _leave(
    by_namespace: Mapping[str, Sequence[tuple[int, SpreadGroup]]], share: int
) -> Iterator[tuple[ConstraintsTooCostly, Sequence[SpreadGroup]]]:
    """Yield the namespaces that take more than their share, with their groups beyond it."""
    for namespace, costs in by_namespace.items():
        total = sum(cost for cost, _ in costs)
        if total <= share:
            continue
        used, beyond = 0, []
        for cost, group in sorted(costs, key=lambda entry: (entry[0], entry[1].name)):
            used += cost
            if used > share:
                beyond.append(group)
        yield ConstraintsTooCostly(namespace, total, share), beyond


def _count_operations(group: SpreadGroup, view: View) -> int:
    """Return the cost of counting the pods of a group's constraints."""
    every = view.count_label_sets(group.namespace)
    return sum(
        1 if constraint.selector is None or names_a_value(constraint.selector) else max(1, every)
        for constraint in chain(*group.constraints)
    )


def names_a_value(selector: LabelSelector) -> bool:
    """Return whether the index of labels and values finds the pods that a selector may match."""
    return any(requirement.operator is Operator.IN for requirement in selector.requirements)
