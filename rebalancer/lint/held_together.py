"""Required affinity of pods to each other that prevents a drain from ending.

Problem: a new pod goes only where another pod of the workload is. If all pods are in one domain, and that domain is
drained, no new pod is placed elsewhere before the last pod is gone. A budget that keeps one pod healthy never lets the
last pod go.
"""

from collections.abc import Collection

from rebalancer.model.affinity import PodAffinityTerm
from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.pods import Pod
from rebalancer.scheduling.view import View


def find_key_that_holds(pod: Pod, budget: DisruptionBudget, nodes: Collection[str], view: View) -> str | None:
    """Return the key by which required affinity holds a pod's workload on drained nodes; None if there is none.

    `pod` is a pod of the workload on these nodes, whose terms include what `matchLabelKeys` adds. A budget that also
    counts pods of other workloads may let all pods of this workload go.
    """
    if any(not _is_sibling(one, pod) for one in view.snapshot.budget_selection.pods_of(budget)):
        return None
    for term in pod.spec.pod_affinity.required:
        if _is_of_its_namespace(term, pod) and _is_held(term, pod, nodes, view):
            return term.topology_key
    return None


def _is_sibling(one: Pod, pod: Pod) -> bool:
    return one.owner is not None and pod.owner is not None and one.owner.uid == pod.owner.uid


def _is_of_its_namespace(term: PodAffinityTerm, pod: Pod) -> bool:
    return term.namespace_selector is None and set(term.namespaces) <= {pod.namespace}


def _is_held(term: PodAffinityTerm, pod: Pod, nodes: Collection[str], view: View) -> bool:
    """Return whether all pods that a term selects have one owner, and are in domains that are drained as a whole."""
    selector, values = term.selector, view.nodes.values(term.topology_key)
    if selector is None or not selector.matches(pod.labels):
        return False
    selected = [one for one in view.snapshot.pods if one.namespace == pod.namespace and selector.matches(one.labels)]
    domains = {values.get(one.node) for one in selected if one.node is not None}
    inside = all(name in nodes for name, value in values.items() if value in domains)
    return inside and None not in domains and all(_is_sibling(one, pod) for one in selected)
