"""Pod affinity terms: which namespaces and pods they select.

Source: `framework.AffinityTerm` (GetAffinityTerms, Matches) and `interpodaffinity/plugin.go`
(mergeAffinityTermNamespacesIfNotEmpty). matchLabelKeys and mismatchLabelKeys need no handling here: the API server
writes them into the selector when it creates the pod (1.31 and newer).
"""

from collections.abc import Iterable, Mapping

from rebalancer.model.affinity import PodAffinityTerm
from rebalancer.model.labels import NO_LABELS, Labels, LabelSelector
from rebalancer.model.pods import Pod
from rebalancer.scheduling.view import View


def selects(term: PodAffinityTerm, owner_namespace: str, pod: Pod, view: View) -> bool:
    """Return whether a term of a pod in `owner_namespace` selects another pod."""
    return (
        term.selector is not None
        and _covers(term, owner_namespace, pod.namespace, view)
        and term.selector.matches(pod.labels)
    )


def _covers(term: PodAffinityTerm, owner_namespace: str, namespace: str, view: View) -> bool:
    if not term.namespaces and term.namespace_selector is None:
        return namespace == owner_namespace
    if namespace in term.namespaces:
        return True
    known = view.snapshot.namespace.get(namespace)
    labels: Labels = known.labels if known is not None else NO_LABELS
    return term.namespace_selector is not None and term.namespace_selector.matches(labels)


def find_namespaces(term: PodAffinityTerm, owner_namespace: str, view: View) -> frozenset[str]:
    """Return the namespaces with pods that a term selects; the pod's own namespace if the term names none."""
    if not term.namespaces and term.namespace_selector is None:
        return frozenset({owner_namespace})
    return frozenset(namespace for namespace in view.namespaces if _covers(term, owner_namespace, namespace, view))


def count_matching_pods(terms: Iterable[PodAffinityTerm], owner_namespace: str, view: View) -> Mapping[str, int]:
    """Count the pods that *all* of the terms select, by node, including terminating pods."""
    meant: frozenset[str] | None = None
    merged = LabelSelector()
    for term in terms:
        if term.selector is None:
            return {}
        covered = find_namespaces(term, owner_namespace, view)
        meant = covered if meant is None else meant & covered
        merged = LabelSelector.of(None, (*merged.requirements, *term.selector.requirements))
    total: dict[str, int] = {}
    for namespace in meant or ():
        for node, count in view.present(namespace, merged).items():
            total[node] = total.get(node, 0) + count
    return total
