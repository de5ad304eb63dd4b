"""The score plugins together, and which nodes they put first.

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
)
from rebalancer.scheduling.view import View

Scorer: TypeAlias = Callable[[Pod, View, Sequence[str]], Mapping[str, int] | None]

SCORERS: Final[Mapping[str, Scorer]] = {
    "TaintToleration": taint_toleration.score,
    "NodeAffinity": node_affinity.score,
    "NodeResourcesFit": node_resources_fit.score,
    "PodTopologySpread": pod_topology_spread_score.score,
    "InterPodAffinity": inter_pod_affinity_score.score,
    "NodeResourcesBalancedAllocation": node_resources_balanced_allocation.score,
    "ImageLocality": image_locality.score,
}

ALWAYS_EXAMINED: Final = 100
"""So many feasible nodes are looked for in any case."""
LEAST_PERCENTAGE: Final = 5


def scores(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
    """Return each plugin's score, 0 to 100 before its weight, by plugin and node.

    Plugins that have nothing to say of this pod (the scheduler skips them) are absent.
    """
    by_plugin = {name: SCORERS[name](pod, view, nodes) for name in SCORERS if name in view.profile.weights}
    return {name: values for name, values in by_plugin.items() if values is not None}


def totals(scored: Mapping[str, Mapping[str, int]], view: View, nodes: Sequence[str]) -> Mapping[str, int]:
    """Return the weighted sum by node."""
    weights = view.profile.weights
    return {node: sum(weights[name] * values[node] for name, values in scored.items()) for node in nodes}


def best(pod: Pod, view: View, nodes: frozenset[str]) -> frozenset[str]:
    """Return the nodes, of the feasible ones, that the scheduler may pick: the top-scoring ones.

    Where it would not examine all of them (`examined`), any may win.
    """
    if len(nodes) <= 1 or len(nodes) > examined(len(view.nodes.by_name), view.profile.percentage):
        return nodes
    ordered = sorted(nodes)
    sums = totals(scores(pod, view, ordered), view, ordered)
    top = max(sums.values())
    return frozenset(node for node, total in sums.items() if total == top)


def examined(nodes: int, percentage: int = 0) -> int:
    """Return how many feasible nodes the scheduler looks for in a cluster of so many nodes before it stops.

    Below 100 nodes it looks at all; from there on at `percentage` of them, by default 50 less one for each 125 nodes.
    It starts where it stopped the last time, so which ones cannot be known.
    """
    if nodes < ALWAYS_EXAMINED:
        return nodes
    share = percentage or max(LEAST_PERCENTAGE, 50 - nodes // 125)
    return max(ALWAYS_EXAMINED, nodes * share // 100)
