"""InterPodAffinity: required affinity and anti-affinity, both ways.

Source: `interpodaffinity/filtering.go`. Terminating pods count: the anti-affinity of an evicted pod applies until the
pod is deleted.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.pods import Pod
from rebalancer.scheduling.affinity_terms import count_matching_pods, selects
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.verdicts import SUCCESS, Verdict, unresolvable, unschedulable
from rebalancer.scheduling.view import View

AFFINITY: Final = unresolvable("node(s) didn't match pod affinity rules")
OWN_ANTI_AFFINITY: Final = unschedulable("node(s) didn't match pod anti-affinity rules")
THEIR_ANTI_AFFINITY: Final = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")


class InterPodAffinity(Filter):
    """Own affinity, own anti-affinity, then the anti-affinity of existing pods.

    A node without a term's topology key cannot satisfy affinity, and is never blocked by anti-affinity.
    """

    name: ClassVar = "InterPodAffinity"

    def __init__(self, pod: Pod, view: View) -> None:
        own = pod.spec.pod_affinity
        self._view = view
        self.blocked: Final = find_repelled_values(pod, view)
        """Label values, by key, that existing pods' anti-affinity forbids."""
        self.avoided: Final = tuple(
            (
                term.topology_key,
                _find_topology_values([term], count_matching_pods([term], pod.namespace, view), view)[
                    term.topology_key
                ],
            )
            for term in own.anti_required
        )
        """Label values that each term of the pod's own anti-affinity forbids."""
        self.wanted: Mapping[str, frozenset[str]] = {}
        """The values, by key, that the pod's own affinity requires."""
        self.first_of_its_kind = False
        if own.required:
            self.wanted = _find_topology_values(
                own.required, count_matching_pods(own.required, pod.namespace, view), view
            )
            # The first pod of a group with affinity to its own pods may run anywhere.
            self.first_of_its_kind = not any(self.wanted.values()) and all(
                selects(term, pod.namespace, pod, view) for term in own.required
            )

    def verdict(self, node: str) -> Verdict:
        labels = self._view.nodes.by_name[node].labels
        for key, values in self.wanted.items():
            if key not in labels or (labels[key] not in values and not self.first_of_its_kind):
                return AFFINITY
        for key, values in self.avoided:
            if key in labels and labels[key] in values:
                return OWN_ANTI_AFFINITY
        for key, values in self.blocked.items():
            if key in labels and labels[key] in values:
                return THEIR_ANTI_AFFINITY
        return SUCCESS

    def admit(self, nodes: frozenset[str]) -> frozenset[str]:
        index = self._view.nodes
        for key, values in self.wanted.items():
            nodes = nodes & (index.carrying((key,)) if self.first_of_its_kind else _unite(index.groups(key), values))
        for key, values in (*self.avoided, *self.blocked.items()):
            if values:
                nodes = nodes - _unite(index.groups(key), values)
        return nodes


def _unite(groups: Mapping[str, frozenset[str]], values: Iterable[str]) -> frozenset[str]:
    return frozenset().union(*(groups[value] for value in values if value in groups))


def _find_topology_values(
    terms: Iterable[PodAffinityTerm], per_node: Mapping[str, int], view: View
) -> Mapping[str, frozenset[str]]:
    """Return, for the key of each term, the values of the nodes that hold a matching pod."""
    places = {}
    for key in {term.topology_key for term in terms}:
        values = view.nodes.values(key)
        places[key] = frozenset(values[node] for node in per_node if node in values)
    return places


def find_repelled_values(pod: Pod, view: View) -> Mapping[str, frozenset[str]]:
    """Return the label values, by key, that the anti-affinity of existing pods forbids to this pod."""
    blocked: dict[str, set[str]] = {}
    for namespace, affinity, per_node in view.repelling(pod):
        for key in _find_repelling_keys(affinity, namespace, pod, view):
            values = view.nodes.values(key)
            blocked.setdefault(key, set()).update(values[node] for node in per_node if node in values)
    return {key: frozenset(values) for key, values in blocked.items()}


def _find_repelling_keys(affinity: PodAffinity, namespace: str, pod: Pod, view: View) -> tuple[str, ...]:
    def make() -> tuple[str, ...]:
        return tuple(term.topology_key for term in affinity.anti_required if selects(term, namespace, pod, view))

    return view.memo(("refusing", affinity, namespace, pod.namespace, pod.labels), make)
