"""Lost pods that may stay on silent nodes: it is not certain that they are deleted and replaced.

A pod that tolerates the taint of a silent node without an end is not evicted. Other pods may stay, too, where a part of
a zone is silent: at least three nodes and 55 %, but not all. The node controller then evicts nothing any more from a
zone of up to 50 nodes, and seldom from a larger zone.

Source: `pkg/controller/nodelifecycle`, `ComputeZoneState` and `handleDisruption`; `pkg/controller/tainteviction`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from rebalancer.model.affinity import Toleration
from rebalancer.model.facts import Fact
from rebalancer.model.nodes import REGION, ZONE
from rebalancer.model.pods import Pod
from rebalancer.scheduling.node_index import tolerates
from rebalancer.scheduling.view import UNREACHABLE, View

_FEWEST: Final = 3
_PERCENT: Final = 55


class NotDeleted(Fact):
    """Some lost pods of a service, or lost pods that its constraints count, may stay on silent nodes."""

    def __str__(self) -> str:
        return (
            "pods on the silent nodes may stay there, undeleted and not replaced: they tolerate the taint, or the node "
            "controller stops evicting when more than half of a zone is silent"
        )


def find_left_there(view: View, nodes: Collection[str]) -> Sequence[Pod]:
    """Return the pods on silent nodes that may stay there, including pods of DaemonSets, which run on each node."""
    lost = [pod for node in sorted(nodes) for pod in view.pods_on(node)]
    if _may_stop(view, nodes):
        return lost
    stays = {tolerations: _stay(tolerations) for tolerations in {pod.spec.tolerations for pod in lost}}
    return [pod for pod in lost if stays[pod.spec.tolerations]]


def _stay(tolerations: Iterable[Toleration]) -> bool:
    """Return whether pods tolerate without end that their node is unreachable."""
    tolerating = [one for one in tolerations if tolerates((one,), UNREACHABLE[-1])]
    return bool(tolerating) and all(one.seconds is None for one in tolerating)


def _may_stop(view: View, nodes: Collection[str]) -> bool:
    """Return whether a zone has lost so many of its nodes, but not all, that the node controller may stop evicting."""
    silent: Counter[tuple[str, str]] = Counter()
    all_: Counter[tuple[str, str]] = Counter()
    for node in view.snapshot.nodes:
        zone = node.labels.get(REGION, ""), node.labels.get(ZONE, "")
        all_[zone] += 1
        silent[zone] += node.name in nodes or not node.ready
    touched = {
        (node.labels.get(REGION, ""), node.labels.get(ZONE, "")) for node in map(view.snapshot.node.__getitem__, nodes)
    }
    return any(
        silent[zone] >= _FEWEST and 100 * silent[zone] >= _PERCENT * all_[zone] and silent[zone] < all_[zone]
        for zone in touched
    )
