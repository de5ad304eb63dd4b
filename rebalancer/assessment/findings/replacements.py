"""ReplacementBlocked: workloads with a pod that could not be replaced if it were deleted now.

Problem: a skew within its bound can hide an outage in waiting. A cordoned zone still counts and holds the minimum down,
so that no node admits the replacement of a pod that goes.

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
from rebalancer.assessment.findings.finding import Finding, list_names, workload_finding
from rebalancer.assessment.findings.pod_losses import PodLosses
from rebalancer.creation.replacement import replacement
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import FindingKind
from rebalancer.scheduling.feasibility import admissible, feasible, prepare_filters
from rebalancer.scheduling.inter_pod_affinity import find_repelled_values
from rebalancer.scheduling.node_usage import Usage
from rebalancer.scheduling.pod_topology_spread import Counts, PodTopologySpread
from rebalancer.scheduling.population import NO_AFFINITY
from rebalancer.scheduling.spread_constraints import constraints_of
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

MOST_PREDICTED: Final = 2_000
"""Predictions by the full scheduling model in one assessment; undecided pods beyond them have no finding."""

_MOST_PER_WORKLOAD: Final = 64
"""Predictions for the pods of one workload."""

_REMEDIES: Final = {
    "NodeUnschedulable": "uncordon a node",
    "TaintToleration": "remove a taint, or tolerate it",
    "NodeAffinity": "add nodes that its affinity selects",
    "NodeResourcesFit": "free capacity, or add a node",
    "PodTopologySpread": "raise a maxSkew, or give the emptiest domain a node that takes such pods",
    "InterPodAffinity": "add a domain, or use preferred anti-affinity",
}
_CLOSED: Final = frozenset({"NodeUnschedulable", "TaintToleration"})


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
        """Return which pod could not be replaced and why; "" if all can be, or none was shown to be blocked."""
        losses = PodLosses(next_pod, hard, self._view)
        undecided = losses.undecided(placed)
        for pod in undecided:
            why = losses.why_blocked(pod)
            if why:
                return f"{_if_deleted(pod)}: {why}"
        for pod in undecided[: min(_MOST_PER_WORKLOAD, self._predictions_left)]:
            self._predictions_left -= 1
            made = replacement(pod, self._view)
            state = self._view.without([pod])
            if not isinstance(made, Unpredictable) and not feasible(made, state):
                return f"{_if_deleted(pod)}: {_describe_rejections(made, state)}"
        return ""


def _if_deleted(pod: Pod) -> str:
    return f"if {pod.name} on {pod.node} were deleted, no node would admit its replacement"


# Many branches: a list of independent conditions, cheapest first; each that fails is an answer.
def _can_all_return(placed: Sequence[Pod], next_pod: Pod, hard: Sequence[Counts], view: View) -> bool:
    """Return whether each pod's node surely takes its replacement: what the pod frees is what the new one needs."""
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
    """Return whether a node still has what its pods request; a node that became smaller takes no replacement."""
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
    """Return which filter rejects which nodes, in the scheduler's order, and the remedy."""
    left = view.nodes.names
    rejecting: list[str] = []
    texts: list[str] = []
    for prepared_filter in prepare_filters(pod, view):
        passing = prepared_filter.admit(left)
        if passing != left:
            rejecting.append(prepared_filter.name)
            texts.append(f"{prepared_filter.name} rejects {list_names(sorted(left - passing))}")
        left = passing
    remedy = (
        _REMEDIES.get(rejecting[-1], "check its volumes and host ports")
        if rejecting
        else "wait for the pods that are about to be bound"
    )
    if "PodTopologySpread" in rejecting and not _CLOSED.isdisjoint(rejecting):
        remedy = "let the nodes of the emptiest domain take pods again, or set nodeTaintsPolicy: Honor"
    if "PodTopologySpread" in rejecting:
        missing_keys = [
            constraint.key for constraint in constraints_of(pod, view).hard if not view.nodes.groups(constraint.key)
        ]
        remedy = (
            f"no node has {list_names(missing_keys)}: correct the topologyKey, or label the nodes"
            if missing_keys
            else remedy
        )
    return f"{'; '.join(texts)}. {remedy[0].upper()}{remedy[1:]}"
