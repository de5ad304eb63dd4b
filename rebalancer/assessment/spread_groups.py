"""Spread groups: workloads whose next pods have the same constraints over the same nodes.

A group's constraints are those of its owners' *next* pod, because that pod replaces an evicted pod. Constraints that
only older pods carry are no longer enforced.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Self

from msgspec import Struct

from rebalancer.assessment.controllers import PodController, members, stray_reference, unowned_pods
from rebalancer.model.affinity import Toleration
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.scheduling.node_index import RequiredAffinity, required_part
from rebalancer.scheduling.spread_constraints import Constraints, constraints_of
from rebalancer.scheduling.view import View

__all__ = ["PodController", "SpreadGroup", "find_spread_groups", "workloads_of"]

_Key = tuple[str, Constraints, RequiredAffinity | None, tuple[Toleration, ...]]


class SpreadGroup(Struct, frozen=True, kw_only=True, gc=False):
    """Owners that share constraints and eligible nodes. `sample` represents the next pods of all owners."""

    namespace: str
    constraints: Constraints
    sample: Pod
    members: tuple[PodController, ...]
    workloads: tuple[Reference, ...]
    """The workloads by name, sorted, each once."""
    name: str
    """A name that stays the same from cycle to cycle: its workloads and its constraints' keys."""

    @classmethod
    def of(cls, namespace: str, constraints: Constraints, sample: Pod, members: tuple[PodController, ...]) -> Self:
        """Make a group of owners."""
        workloads = workloads_of(members)
        keys = ",".join(
            [f"{constraint.key}:{constraint.max_skew}" for constraint in (*constraints.hard, *constraints.soft)]
        )
        names = ",".join([f"{workload.kind}/{workload.name}" for workload in workloads])
        return cls(
            namespace=namespace,
            constraints=constraints,
            sample=sample,
            members=members,
            workloads=workloads,
            name=f"{namespace} {names} {keys}",
        )


def workloads_of(members: Sequence[PodController]) -> tuple[Reference, ...]:
    """Return the members' workloads by name, sorted, each once."""
    if len(members) == 1:
        return (members[0].reference,)
    return tuple(sorted({member.reference for member in members}))


def find_spread_groups(view: View) -> tuple[SpreadGroup, ...]:
    """Return every group with a constraint, hard or soft, in a stable order."""
    entries_by_key: defaultdict[_Key, list[tuple[Pod, PodController]]] = defaultdict(list)
    for member in _constrained_controllers(view):
        sample = member.sample or member.pods[0]
        constraints = constraints_of(sample, view)
        if constraints.hard or constraints.soft:
            affinity = required_part(sample.spec.node_affinity)
            key = (sample.namespace, constraints, affinity, sample.spec.tolerations)
            entries_by_key[key].append((sample, member))
    made = [
        SpreadGroup.of(namespace, constraints, entries[0][0], tuple([member for _, member in entries]))
        for (namespace, constraints, _, _), entries in entries_by_key.items()
    ]
    return tuple(sorted(made, key=lambda group: (group.namespace, group.workloads, group.name)))


def _constrained_controllers(view: View) -> Iterator[PodController]:
    """Yield the owners with living pods, then the pods with constraints of their own and no known owner."""
    yield from members(view)
    for pod in unowned_pods(view):
        if pod.spec.spread:
            yield PodController(reference=stray_reference(pod), owner=None, top=None, pods=(pod,), next_pod=pod)
