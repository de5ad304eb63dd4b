"""Findings about nodes that the scheduler chooses but that cannot run the pods: systems, architectures, lacks.

* SystemNotSelected: the pods of a workload say in `spec.os` what they run on, and may be placed on nodes with another
  kubernetes.io/os label. The scheduler does not read `spec.os`; the kubelet rejects the pod. One finding for each
  workload: each is a fault with its own remedy.
* NodeCannotRun: pods may be placed on nodes that lack something that the pods need, as some object shows: a CSI driver,
  a runtime handler, a feature. One finding for each workload and each lack.
* ArchitectureNotSelected: pods may be placed on nodes of several architectures, and it is not known what their images
  are built for. In a cluster of several architectures this holds for most workloads, mostly without harm, so one
  finding covers all workloads. Workloads with Ready pods on nodes of each architecture are left out, because their
  images work on each.

All concern workloads with their own constraint or a limit in force, because other workloads are not moved.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import structs

from rebalancer.assessment.assess import EvaluatedGroup
from rebalancer.assessment.controllers import PodController
from rebalancer.assessment.findings.finding import Finding, list_names, workload_finding
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.assessment.unable_nodes import Inability, find_inabilities
from rebalancer.model.moves import Reference
from rebalancer.model.nodes import ARCHITECTURE
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import FindingKind
from rebalancer.scheduling.feasibility import admitted_by_labels, admitted_by_taints
from rebalancer.scheduling.node_index import required_part
from rebalancer.scheduling.spread_constraints import Origin
from rebalancer.scheduling.view import View


def platform_findings(
    groups: Sequence[EvaluatedGroup], limits: Sequence[EvaluatedLimit], view: View
) -> Iterator[Finding]:
    """Yield the findings about workloads that constraints or limits concern."""
    mixed: dict[tuple[str, ...], set[Reference]] = {}
    for member in _concerned(groups, limits):
        sample = member.sample
        if sample is None:
            continue
        claims = next((pod.claims for pod in member.pods if pod.claims), ())
        drivers = next((pod.drivers for pod in member.pods if pod.drivers), ())
        for inability in find_inabilities(structs.replace(sample, claims=claims, drivers=drivers), view):
            nodes = inability.nodes & _find_usable(sample, view) if inability.nodes else inability.nodes
            if nodes:
                yield _inability_finding(member.reference, inability, nodes)
        architectures = _usable(sample, ARCHITECTURE, view)
        if len(architectures) > 1 and not _runs_on_all(member, architectures, view):
            mixed.setdefault(tuple(architectures), set()).add(member.reference)
    for names, workloads in mixed.items():
        yield _architecture_finding(names, sorted(workloads))


def _concerned(groups: Sequence[EvaluatedGroup], limits: Sequence[EvaluatedLimit]) -> Sequence[PodController]:
    """Return the owners of pods, each once."""
    members = [
        member
        for group in groups
        if any(constraint.origin is not Origin.DEFAULT for constraint in chain(*group.spread.constraints))
        for member in group.spread.members
    ]
    members += [part.member for limit in limits for part in limit.gathered.parts]
    return list({id(member): member for member in members}.values())


def _find_usable(sample: Pod, view: View) -> frozenset[str]:
    """Return the nodes that a pod may use."""
    spec = sample.spec
    return admitted_by_labels(spec.node_affinity, view) & admitted_by_taints(spec.tolerations, view)


def _usable(sample: Pod, key: str, view: View) -> Mapping[str, frozenset[str]]:
    """Return the nodes that a pod may use, by a label; nodes without the label are left out."""
    affinity, tolerations = required_part(sample.spec.node_affinity), sample.spec.tolerations

    def make() -> Mapping[str, frozenset[str]]:
        nodes = _find_usable(sample, view)
        return {value: nodes & those for value, those in sorted(view.nodes.groups(key).items()) if nodes & those}

    return view.memo(("usable by label", key, affinity, tolerations), make)


def _runs_on_all(member: PodController, architectures: Collection[str], view: View) -> bool:
    """Return whether Ready pods of an owner show that its images are built for each architecture."""
    values, unseen = view.nodes.values(ARCHITECTURE), set(architectures)
    for pod in member.pods:
        if pod.ready:
            unseen.discard(values.get(pod.node or "", ""))
            if not unseen:
                return True
    return False


def _inability_finding(workload: Reference, inability: Inability, nodes: Collection[str]) -> Finding:
    kind = FindingKind.SYSTEM_NOT_SELECTED if inability.of_system else FindingKind.NODE_CANNOT_RUN
    message = (
        f"its pods may be placed on nodes where they would not run ({list_names(sorted(nodes))}): each "
        f"{inability.lack}, which the scheduler ignores. {inability.remedy}"
    )
    return workload_finding(kind, workload, message)


def _architecture_finding(architectures: Sequence[str], workloads: Sequence[Reference]) -> Finding:
    names = list_names([str(workload) for workload in workloads])
    message = (
        f"pods of {names} may be placed on nodes of {', '.join(architectures)}, and do not run on each of these yet: "
        f"an image that is not built for one of them does not start there. Select nodes by {ARCHITECTURE} in the "
        "template, unless the images are built for all"
    )
    return Finding(
        kind=FindingKind.ARCHITECTURE_NOT_SELECTED,
        object=f"node label {ARCHITECTURE}",
        message=message,
        workloads=tuple(workloads),
    )
