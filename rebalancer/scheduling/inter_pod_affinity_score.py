"""InterPodAffinity's score: preferred terms of the pod, and of existing pods.

Source: `interpodaffinity/scoring.go`. Existing pods' *required* affinity to the newcomer counts as well, with the
profile's `hardPodAffinityWeight` (1).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.pods import Pod
from rebalancer.scheduling.affinity_terms import count_matching_pods, selects
from rebalancer.scheduling.view import View

T = TypeVar("T")


def score(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int] | None:
    """Return 0 to 100 between the worst and the best node; None if no term applies."""
    raw = sum_weights(pod, view, nodes)
    return normalize(raw) if raw is not None else None


def sum_weights(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int] | None:
    """Return the raw score: the weights that apply to each node; None if no term applies."""
    weights = _sum_by_domain(pod, view)
    if not weights:
        return None
    labels = {node: view.nodes.by_name[node].labels for node in nodes}
    return {
        node: sum(values.get(labels[node][key], 0) for key, values in weights.items() if key in labels[node])
        for node in nodes
    }


def normalize(raw: Mapping[T, int]) -> Mapping[T, int]:
    """Scale raw scores to 0…100 between the least and the greatest; all are 0 if the two are equal."""
    least, most = min(raw.values()), max(raw.values())
    if least == most:
        return dict.fromkeys(raw, 0)
    return {node: int(100 * ((value - least) / (most - least))) for node, value in raw.items()}


def _sum_by_domain(pod: Pod, view: View) -> Mapping[str, Mapping[str, int]]:
    """Return the sum of the terms' weights by topology key and value."""
    weights: dict[str, dict[str, int]] = {}

    def add(term: PodAffinityTerm, weight: int, per_node: Mapping[str, int]) -> None:
        values = view.nodes.values(term.topology_key)
        for node, count in per_node.items():
            if node in values:
                worth = weights.setdefault(term.topology_key, {})
                worth[values[node]] = worth.get(values[node], 0) + weight * count

    own = pod.spec.pod_affinity
    for sign, preferred in ((1, own.preferred), (-1, own.anti_preferred)):
        for entry in preferred:
            add(entry.term, sign * entry.weight, count_matching_pods([entry.term], pod.namespace, view))
    if view.profile.ignore_preferred_of_existing and not own.preferred and not own.anti_preferred:
        return {}
    for namespace, affinity, per_node in view.affine_towards(pod.namespace):
        for term, weight in _iterate_weighted_terms(affinity, view.profile.hard_pod_affinity_weight):
            if selects(term, namespace, pod, view):
                add(term, weight, per_node)
    return weights


def _iterate_weighted_terms(affinity: PodAffinity, hard_weight: int) -> Iterable[tuple[PodAffinityTerm, int]]:
    if hard_weight > 0:
        yield from ((term, hard_weight) for term in affinity.required)
    yield from ((entry.term, entry.weight) for entry in affinity.preferred)
    yield from ((entry.term, -entry.weight) for entry in affinity.anti_preferred)
