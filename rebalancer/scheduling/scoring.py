"""The score plugins together, and the nodes with the highest total.

Source: `schedule_one.go` (prioritizeNodes, numFeasibleNodesToFind). Each plugin gives 0 to 100, times its weight.
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

ALWAYS_EXAMINED: Final = 100
"""The scheduler searches for at least this many feasible nodes."""
LEAST_PERCENTAGE: Final = 5


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
    """Return the nodes, of the feasible ones, that the scheduler may pick: the top-scoring ones.

    Where the scheduler would not examine all of them (`count_examined_nodes`), it may pick any.
    """
    if len(nodes) <= 1 or len(nodes) > count_examined_nodes(len(view.nodes.by_name), view.profile.percentage):
        return nodes
    ordered = sorted(nodes)
    return find_top(totals(scores(pod, view, ordered), view, ordered))


def count_examined_nodes(nodes: int, percentage: int = 0) -> int:
    """Return after how many feasible nodes the scheduler stops its search in a cluster of `nodes` nodes.

    Below 100 nodes it examines all; from there on `percentage` percent of them, by default 50 less one for each 125
    nodes. It starts where it stopped the last time, so which nodes these are cannot be known.
    """
    if nodes < ALWAYS_EXAMINED:
        return nodes
    share = percentage or max(LEAST_PERCENTAGE, 50 - nodes // 125)
    return max(ALWAYS_EXAMINED, nodes * share // 100)
