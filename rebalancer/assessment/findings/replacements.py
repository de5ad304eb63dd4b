"""ReplacementBlocked: were one pod of a workload to vanish now, no node would admit the pod that takes its place.

An outage in waiting that the skew alone does not show: a zone is cordoned, still counts, and holds the minimum down.
The answer is the scheduling model's own, for each pod. Most pods need not be asked: one that stood within all
constraints on a node that still takes such pods could come back to it; and what each constraint sees when a pod has
gone is arithmetic (`losses`), with which a node is found that takes the replacement, or a domain that has none.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rebalancer.assessment.assess import EvaluatedGroup
from rebalancer.assessment.controllers import PodController, members
from rebalancer.assessment.findings.finding import Finding, list_names, workload_finding
from rebalancer.assessment.findings.pod_losses import PodLosses
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import FindingKind
from rebalancer.scheduling.feasibility import admissible, feasible, prepare_filters
from rebalancer.scheduling.inter_pod_affinity import find_repelled_values
from rebalancer.scheduling.node_usage import Usage
from rebalancer.scheduling.pod_topology_spread import Counts, PodTopologySpread
from rebalancer.scheduling.population import NO_AFFINITY
from rebalancer.scheduling.replacement import replacement
from rebalancer.scheduling.spread_constraints import constraints_of
from rebalancer.scheduling.unpredictable import Unpredictable
from rebalancer.scheduling.view import View

MOST_ASKED: Final = 2_000
"""Pods that the whole model is asked about in one assessment; of what is not sure beyond, nothing is told."""

_OF_ONE: Final = 64
"""The same for the pods of one workload."""

_REMEDIES: Final = {
    "NodeUnschedulable": "uncordon a node",
    "TaintToleration": "remove a taint, or tolerate it",
    "NodeAffinity": "bring back nodes that its affinity names",
    "NodeResourcesFit": "free room, or add a node",
    "PodTopologySpread": "raise a maxSkew, or give the emptiest domain a node that takes such pods",
    "InterPodAffinity": "add a domain, or prefer its anti-affinity instead of requiring it",
}
_CLOSED: Final = frozenset({"NodeUnschedulable", "TaintToleration"})


def replacement_findings(groups: Sequence[EvaluatedGroup], view: View) -> Iterator[Finding]:
    """Yield one finding for each workload of which a pod could not be replaced."""
    asking = _Asking(view)
    grouped: set[int] = set()
    off = PodTopologySpread.name in view.profile.filters_off
    for judged in groups:
        hard = () if off else tuple(each.counts for each in judged.hard)
        for member in judged.group.members:
            grouped.add(id(member))
            yield from asking.about(member, hard)
    for member in members(view):
        if id(member) not in grouped:
            yield from asking.about(member, ())


class _Asking:
    """The questions of one assessment: each workload is told of once, and the whole model asked so often."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._told: set[Reference] = set()
        self._left = MOST_ASKED

    def about(self, member: PodController, hard: Sequence[Counts]) -> Iterator[Finding]:
        """Yield a finding if a pod of this owner could not be replaced."""
        coming = member.next_pod
        if member.reference in self._told or isinstance(coming, Unpredictable) or member.owner is None:
            return
        nodes = self._view.nodes.by_name
        standing = [pod for pod in member.pods if pod.node in nodes]
        if not standing or _may_all_return(standing, coming, hard, self._view):
            return
        message = self._blocked(standing, coming, hard)
        if message:
            self._told.add(member.reference)
            yield workload_finding(FindingKind.REPLACEMENT_BLOCKED, member.reference, message)

    def _blocked(self, standing: Sequence[Pod], coming: Pod, hard: Sequence[Counts]) -> str:
        """Say which pod could not be replaced and why, "" where each could, or where that is not sure."""
        losses = PodLosses(coming, hard, self._view)
        unsure = losses.unsure(standing)
        for pod in unsure:
            why = losses.closed(pod)
            if why:
                return f"{_vanished(pod)}: {why}"
        for pod in unsure[: min(_OF_ONE, self._left)]:
            self._left -= 1
            made = replacement(pod, self._view)
            state = self._view.without([pod])
            if not isinstance(made, Unpredictable) and not feasible(made, state):
                return f"{_vanished(pod)}: {_why(made, state)}"
        return ""


def _vanished(pod: Pod) -> str:
    return f"were {pod.name} on {pod.node} to vanish, no node would admit its replacement"


def _may_all_return(standing: Sequence[Pod], coming: Pod, hard: Sequence[Counts], view: View) -> bool:
    """Say whether each pod's place is surely one for its replacement: what it leaves is what the new one needs."""
    places = {pod.node or "" for pod in standing}
    takers = admissible(coming, view)
    if any(each.violated for each in hard) or not places <= takers:
        return False
    if not places <= view.with_room("no less than is taken", _holds):
        return False
    if not all(places <= each.eligible.nodes for each in hard):
        return False
    spec, needs = coming.spec, coming.requests
    if not all((pod.spec is spec or pod.spec == spec) and pod.requests == needs for pod in standing):
        return False
    labels = {id(pod.labels): pod.labels for pod in standing}.values()
    for each in hard:
        selector = each.constraint.selector
        if selector is not None and len({selector.matches(own) for own in (coming.labels, *labels)}) > 1:
            return False
    return spec.pod_affinity == NO_AFFINITY and not find_repelled_values(coming, view)


def _holds(node: Node, used: Usage) -> bool:
    """Say whether a node has all that its pods were promised: one that was made smaller takes none of them back."""
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


def _why(pod: Pod, view: View) -> str:
    """Say which filter rejects which nodes, in the scheduler's order, and what would help."""
    left = view.nodes.names
    rejecting: list[str] = []
    said: list[str] = []
    for each in prepare_filters(pod, view):
        passing = each.admit(left)
        if passing != left:
            rejecting.append(each.name)
            said.append(f"{each.name} rejects {list_names(sorted(left - passing))}")
        left = passing
    remedy = _REMEDIES.get(rejecting[-1], "see to its volumes and ports") if rejecting else "wait for promised pods"
    if "PodTopologySpread" in rejecting and not _CLOSED.isdisjoint(rejecting):
        remedy = "let the nodes of the emptiest domain take pods again, or set nodeTaintsPolicy: Honor"
    if "PodTopologySpread" in rejecting:
        nowhere = [each.key for each in constraints_of(pod, view).hard if not view.nodes.groups(each.key)]
        remedy = (
            f"no node has {list_names(nowhere)}: correct the topologyKey, or label the nodes" if nowhere else remedy
        )
    return f"{'; '.join(said)}. {remedy[0].upper()}{remedy[1:]}"
