"""ReplacementBlocked: workloads with a pod that could not be replaced if it were deleted now.

Problem: a skew within its bound can hide an outage in waiting. A cordoned zone still counts and keeps the minimum low,
so that no node admits the replacement of a lost pod.

Idea, cheapest test first: (1) a pod within all constraints, on a node that still takes such pods, can return there;
(2) the counts after the deletion follow by arithmetic (`pod_losses`), which mostly yields a node that takes the
replacement, or a domain without one; (3) the full scheduling model decides the rest.

Example: zones a, b, c hold 2,2,2 with maxSkew 1, and c is cordoned. Without one pod of c the counts are 2,2,1: a
replacement in a or b would make the skew 2, and c takes no pods, so that no node admits it.

Cost: (1) and (2) are linear in pods and constraints; (3) is bounded by `MOST_PREDICTED` predictions per assessment.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rebalancer.assessment.assess import EvaluatedGroup
from rebalancer.assessment.controllers import PodController, members
from rebalancer.assessment.findings.finding import Finding, workload_finding
from rebalancer.assessment.findings.pod_losses import PodLosses
from rebalancer.creation.replacement import replacement
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import FindingKind
from rebalancer.scheduling.feasibility import admissible, feasible
from rebalancer.scheduling.inter_pod_affinity import find_repelled_values
from rebalancer.scheduling.node_usage import Usage
from rebalancer.scheduling.openings import admitted_by_spread, find_opening, find_relaxed_constraint
from rebalancer.scheduling.pod_topology_spread import Counts, PodTopologySpread
from rebalancer.scheduling.population import NO_AFFINITY
from rebalancer.scheduling.rejections import count_rejections, describe_rejections, reject_nodes
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

MOST_PREDICTED: Final = 2_000
"""Predictions by the full scheduling model in one assessment; further undecided pods get no finding."""

MOST_DESCRIBED: Final = 1_000_000
"""Up to this many nodes are visited in one assessment to count the filters that reject a replacement."""

_MOST_PER_WORKLOAD: Final = 64
"""Predictions for the pods of one workload."""


def replacement_findings(groups: Sequence[EvaluatedGroup], view: View) -> Iterator[Finding]:
    """Yield one finding for each workload with a pod that could not be replaced."""
    check = _ReplacementCheck(view)
    grouped: set[int] = set()
    off = PodTopologySpread.name in view.profile.filters_off
    for group in groups:
        hard = () if off else tuple(constraint.counts for constraint in group.hard)
        for member in group.spread.members:
            grouped.add(id(member))
            yield from check.findings(member, hard)
    for member in members(view):
        if id(member) not in grouped:
            yield from check.findings(member, ())


class _ReplacementCheck:
    """Checks the workloads of one assessment: one finding per workload, and a bounded number of predictions."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._reported: set[Reference] = set()
        self._predictions_left = MOST_PREDICTED
        self._nodes_left = MOST_DESCRIBED

    def findings(self, member: PodController, hard: Sequence[Counts]) -> Iterator[Finding]:
        """Yield a finding if a pod of this owner could not be replaced."""
        next_pod = member.next_pod
        if member.reference in self._reported or isinstance(next_pod, Unpredictable) or member.owner is None:
            return
        placed: Sequence[Pod] = member.pods
        if member.labels is None or not self._view.all_on_nodes:
            nodes = self._view.nodes.by_name
            placed = [pod for pod in member.pods if pod.node in nodes]
        if not placed or _can_all_return(placed, next_pod, hard, self._view):
            return
        message = self._describe_blocked(placed, next_pod, hard)
        if message:
            self._reported.add(member.reference)
            yield workload_finding(FindingKind.REPLACEMENT_BLOCKED, member.reference, message)

    def _describe_blocked(self, placed: Sequence[Pod], next_pod: Pod, hard: Sequence[Counts]) -> str:
        """Return which pod could not be replaced and why; "" if no pod was shown to be blocked."""
        losses = PodLosses(next_pod, hard, self._view)
        undecided = losses.undecided(placed)
        for pod in undecided:
            if losses.is_blocked(pod):
                return self._describe(pod, next_pod, self._view.without([pod]))
        for pod in undecided[: min(_MOST_PER_WORKLOAD, self._predictions_left)]:
            self._predictions_left -= 1
            made = replacement(pod, self._view)
            state = self._view.without([pod])
            if not isinstance(made, Unpredictable) and not feasible(made, state):
                return self._describe(pod, made, state)
        return ""

    def _describe(self, pod: Pod, made: Pod, state: View) -> str:
        """Return why a future pod finds no node in a state; the filters are named only within the search budget."""
        self._nodes_left -= len(state.nodes.names)
        text = f"if {pod.name} on {pod.node} were deleted, no node would admit its replacement"
        return f"{text}: {_describe_rejections(made, state)}" if self._nodes_left >= 0 else text


# Many branches: a list of independent conditions, cheapest first; each failed condition returns.
def _can_all_return(placed: Sequence[Pod], next_pod: Pod, hard: Sequence[Counts], view: View) -> bool:
    """Return whether each pod's node surely takes its replacement: the pod frees what the new pod needs."""
    nodes = {pod.node or "" for pod in placed}
    admitting = admissible(next_pod, view)
    if any(counts.violated for counts in hard) or not nodes <= admitting:
        return False
    if not nodes <= view.fitting_nodes("no less than is taken", _holds):
        return False
    if not all(nodes <= counts.eligible.nodes for counts in hard):
        return False
    spec, requests = next_pod.spec, next_pod.requests
    if not all((pod.spec is spec or pod.spec == spec) and pod.requests == requests for pod in placed):
        return False
    labels = {id(pod.labels): pod.labels for pod in placed}.values()
    for counts in hard:
        selector = counts.constraint.selector
        if selector is not None and len({selector.matches(own) for own in (next_pod.labels, *labels)}) > 1:
            return False
    return spec.pod_affinity == NO_AFFINITY and not find_repelled_values(next_pod, view)


def _holds(node: Node, used: Usage) -> bool:
    """Return whether a node still offers what its pods request; a node that became smaller takes no replacement."""
    have = node.allocatable
    return (
        used.pods <= node.pods
        and used.cpu <= have.cpu
        and used.memory <= have.memory
        and used.ephemeral_storage <= have.ephemeral_storage
        and (not used.extended or _holds_extended(dict(have.extended), used))
    )


def _holds_extended(capacities: dict[str, int], used: Usage) -> bool:
    return all(taken <= capacities.get(name, 0) for name, taken in used.extended.items())


def _describe_rejections(pod: Pod, view: View) -> str:
    """Return how many nodes each filter rejects, and which tried remedy helps."""
    rejected = reject_nodes(pod, view)
    text = describe_rejections(len(view.nodes.names), count_rejections(rejected))
    opening = find_opening(rejected, admitted_by_spread(pod, view), pod, view)
    remedy = ", or ".join(filter(None, (opening, find_relaxed_constraint(pod, view))))
    return f"{text}. {remedy[0].upper()}{remedy[1:]}" if remedy else text
