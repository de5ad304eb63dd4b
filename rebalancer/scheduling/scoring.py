"""The score plugins together, and the nodes with the highest total.

Source: `schedule_one.go` (prioritizeNodes). Each plugin gives 0 to 100, times its weight.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from rebalancer.model.pods import Pod
from rebalancer.scheduling import (
    image_locality,
    inter_pod_affinity_score,
    node_affinity,
    node_resources_balanced_allocation,
    node_resources_fit,
    pod_topology_spread_score,
    taint_toleration,
    volume_binding,
)
from rebalancer.scheduling.sampled_scores import SPREAD, best_of_samples
from rebalancer.scheduling.sampling import prepare_search
from rebalancer.scheduling.tie_breaking import find_top
from rebalancer.scheduling.view import View

Scorer: TypeAlias = Callable[[Pod, View, Sequence[str]], Mapping[str, int] | None]

SCORERS: Final[Mapping[str, Scorer]] = {
    "TaintToleration": taint_toleration.score,
    "NodeAffinity": node_affinity.score,
    "NodeResourcesFit": node_resources_fit.score,
    "PodTopologySpread": pod_topology_spread_score.score,
    "InterPodAffinity": inter_pod_affinity_score.score,
    "VolumeBinding": volume_binding.score,
    "NodeResourcesBalancedAllocation": node_resources_balanced_allocation.score,
    "ImageLocality": image_locality.score,
}


def scores(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
    """Return each plugin's score, 0 to 100 before its weight, by plugin and node.

    Plugins that the scheduler skips for this pod are absent.
    """
    by_plugin = {name: SCORERS[name](pod, view, nodes) for name in SCORERS if name in view.profile.weights}
    return {name: values for name, values in by_plugin.items() if values is not None}


def totals(scored: Mapping[str, Mapping[str, int]], view: View, nodes: Sequence[str]) -> Mapping[str, int]:
    """Return the weighted sum by node."""
    weights = view.profile.weights
    return {node: sum(weights[name] * values[node] for name, values in scored.items()) for node in nodes}


def best(pod: Pod, view: View, nodes: frozenset[str]) -> frozenset[str]:
    """Return the feasible nodes that the scheduler may pick: the top-scoring nodes.

    If it does not score all of them, the top-scoring nodes of every possible sample are returned.
    """
    if len(nodes) <= 1:
        return nodes
    search = prepare_search(pod, view)
    if sum(search.zones) > search.enough and _may_be_hinted(pod, view):
        return nodes
    if len(nodes) > search.enough:
        return best_of_samples(pod, view, nodes, search)
    return best_of_all(pod, view, nodes)


def best_of_all(pod: Pod, view: View, nodes: frozenset[str]) -> frozenset[str]:
    """Return the top-scoring nodes if the scheduler scores all of `nodes`."""
    ordered = sorted(nodes)
    return find_top(totals(scores(pod, view, ordered), view, ordered))


def _may_be_hinted(pod: Pod, view: View) -> bool:
    """Return whether a pod may get the next node of an earlier equal pod's sample, from 1.35 on.

    That sample may have lacked nodes even if fewer are feasible by now. Source: `runtime/batch.go`; PodTopologySpread
    excludes pods with constraints, its default ones included (SignPod).
    """
    profile = view.profile
    if SPREAD in profile.filters_off and SPREAD not in profile.weights:
        return True
    return not pod.spec.spread and profile.default_constraints == ()
