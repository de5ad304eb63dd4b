"""Placement deadlocks: pods that wait for a node, and that none can ever admit while the others stay where they are.

Each rule of such a pod admits some node, and no node is admitted by all of them: spread constraints and anti-affinity,
or two constraints, exclude each other (docs/semantics.md, 5.2). Room is left out of account, since waiting may bring
it. A pod that a single rule keeps from every node is no deadlock either: that rule is to blame, and no other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

from rebalancer.assessment.controllers import reference_of, stray_reference
from rebalancer.assessment.rules import Rule, rules
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.scheduling.feasibility import admissible
from rebalancer.scheduling.unpredictable import unpredictable
from rebalancer.scheduling.view import View


@dataclass(frozen=True, kw_only=True)
class Deadlock:
    """A waiting pod, the workload that it is of, and which of its rules exclude each other."""

    pod: Pod
    workload: Reference
    message: str

    @property
    def reason(self) -> Reason:
        """Name it as documents, metrics and alerts do."""
        return Reason.PLACEMENT_DEADLOCK


def deadlocks(view: View) -> tuple[Deadlock, ...]:
    """Find every deadlock, by namespace and name. Pods that have a node cost nothing; equal pods are judged once."""
    found: list[Deadlock] = []
    known: dict[tuple[object, ...], str] = {}
    for pod in view.snapshot.unplaced:
        if view.where(pod) is not None:
            continue
        kind = (pod.namespace, pod.labels, pod.spec)
        if kind not in known:
            known[kind] = _clash(pod, view)
        if known[kind]:
            top = view.snapshot.top_owner_of(pod)
            workload = reference_of(top) if top is not None else stray_reference(pod)
            found.append(Deadlock(pod=pod, workload=workload, message=known[kind]))
    return tuple(sorted(found, key=lambda each: (each.pod.namespace, each.pod.name)))


def _clash(pod: Pod, view: View) -> str:
    """Say which of a pod's rules exclude each other, "" where they do not."""
    if unpredictable(pod, view) is not None:
        return ""
    nodes = admissible(pod, view)
    asked = rules(pod, view, nodes)
    if _common(asked, nodes) or not all(rule.nodes for rule in asked):
        return ""
    for number in range(2, len(asked) + 1):
        for clashing in combinations(asked, number):
            if not _common(clashing, nodes):
                return "; ".join(rule.words for rule in clashing) + _way_out(asked, clashing, nodes, view)
    return ""


def _common(asked: Sequence[Rule], nodes: frozenset[str]) -> frozenset[str]:
    return reduce(frozenset.__and__, (rule.nodes for rule in asked), nodes)


def _way_out(asked: Sequence[Rule], clashing: Sequence[Rule], nodes: frozenset[str], view: View) -> str:
    """Name the least maxSkew that would free the pod, of each constraint of the clash that alone could."""
    ways: list[str] = []
    for rule in clashing:
        if rule.spread is None:
            continue
        seen, key = rule.spread, rule.spread.constraint.key
        others = _common([each for each in asked if each is not rule], nodes)
        values = view.nodes.values(key)
        held = [seen.by_domain.filled.get(values[node], 0) for node in others if node in values]
        if held:
            ways.append(f"maxSkew {min(held) + seen.self_match - seen.minimum} over {key}")
    ways.append("moving a pod that stands in its way")
    return f"; {' or '.join(ways)} would let it in"
