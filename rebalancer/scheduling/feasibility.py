"""The filters in the scheduler's order, and which nodes pass them all.

Source: `schedule_one.go` (findNodesThatFitPod), the default plugins of `apis/config/v1/default_plugins.go`. Not here:
SchedulingGates, DynamicResources, NodeDeclaredFeatures and gang scheduling (pods that use them are `Unpredictable`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rebalancer.model.pods import Pod
from rebalancer.scheduling.inter_pod_affinity import InterPodAffinity
from rebalancer.scheduling.node_affinity import NodeAffinity
from rebalancer.scheduling.node_name import NodeName
from rebalancer.scheduling.node_ports import NodePorts
from rebalancer.scheduling.node_resources_fit import NodeResourcesFit
from rebalancer.scheduling.node_unschedulable import NodeUnschedulable
from rebalancer.scheduling.node_volume_limits import NodeVolumeLimits
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.pod_topology_spread import PodTopologySpread
from rebalancer.scheduling.population import NO_AFFINITY
from rebalancer.scheduling.taint_toleration import TaintToleration
from rebalancer.scheduling.view import View
from rebalancer.scheduling.volume_binding import VolumeBinding
from rebalancer.scheduling.volume_restrictions import VolumeRestrictions
from rebalancer.scheduling.volume_zone import VolumeZone

OF_THE_NODE: Final[Sequence[type[Filter]]] = (NodeUnschedulable, NodeName, TaintToleration, NodeAffinity)
"""Filters that look at the node alone, not at what runs there."""
OF_ITS_ROOM: Final[Sequence[type[Filter]]] = (
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
)
FILTERS: Final[Sequence[type[Filter]]] = (*OF_THE_NODE, *OF_ITS_ROOM, PodTopologySpread, InterPodAffinity)
"""The first that rejects a node decides the reason reported for it."""


def prepared(pod: Pod, view: View) -> Sequence[Filter]:
    """Return the filters that the profile leaves on, prepared for a pod."""
    return [plugin(pod, view) for plugin in FILTERS if plugin.name not in view.profile.filters_off]


def feasible(pod: Pod, view: View) -> frozenset[str]:
    """Return the names of the nodes that pass every filter, without reasons.

    Where the pod has been promised a node by preemption (`nominatedNodeName`) and still fits there, that one only.
    """
    nodes = _passing((*OF_ITS_ROOM, PodTopologySpread, InterPodAffinity), pod, view, admissible(pod, view))
    nodes = _beside_nominated(pod, view, nodes)
    return frozenset({pod.nominated_node}) if pod.nominated_node in nodes else nodes


def static_feasible(pod: Pod, view: View, group: Iterable[Pod] | None = None) -> frozenset[str]:
    """Return the nodes that pass whatever a planner does with the pod's own group.

    All filters but PodTopologySpread, and InterPodAffinity as if the `group` (by default the pods of the same owner)
    were not there. Room is judged in the given state.
    """
    if group is None:
        group = view.snapshot.pods_of.get(pod.owner.uid, ()) if pod.owner is not None else ()
    nodes = _passing(OF_ITS_ROOM, pod, view, admissible(pod, view))
    if not nodes or InterPodAffinity.name in view.profile.filters_off:
        return nodes
    if pod.spec.pod_affinity == NO_AFFINITY and not any(True for _ in view.repelling(pod)):
        return nodes  # as of most pods, whose groups need not be taken out for nothing
    present = [member for member in group if view.where(member) is not None]
    return InterPodAffinity(pod, view.without(present) if present else view).admitted(nodes)


def admissible(pod: Pod, view: View) -> frozenset[str]:
    """Return the nodes that the filters of the node alone admit, whatever runs there; once for each kind of pod."""
    spec = pod.spec
    affinity = spec.node_affinity
    key = ("admissible", spec.node_name, spec.tolerations, affinity.selector, affinity.required)
    return view.memo(key, lambda: _passing(OF_THE_NODE, pod, view, view.nodes.names))


def _passing(filters: Iterable[type[Filter]], pod: Pod, view: View, nodes: frozenset[str]) -> frozenset[str]:
    for plugin in filters:
        if nodes and plugin.name not in view.profile.filters_off:
            nodes = plugin(pod, view).admitted(nodes)
    return nodes


def _beside_nominated(pod: Pod, view: View, nodes: frozenset[str]) -> frozenset[str]:
    """Leave out nodes where the pod fits only as long as a pod promised to them is not there yet.

    Source: `RunFilterPluginsWithNominatedPods`: promised pods of equal or higher priority are tried as if present.
    """
    for node, state in with_promised(pod, view):
        if not _passing(FILTERS, pod, state, nodes & {node}):
            nodes = nodes - {node}
    return nodes


def with_promised(pod: Pod, view: View) -> Iterator[tuple[str, View]]:
    """Yield each node that others were promised, with the state in which they stand there.

    The scheduler judges such a node in that state first; where the pod passes, again in the state as it is.
    """
    for node, promised in _nominated(pod, view).items():
        state = view
        for other in promised:
            state = state.with_placed(other, node)
        yield node, state


def _nominated(pod: Pod, view: View) -> Mapping[str, Sequence[Pod]]:
    """Return waiting pods that preemption promised a node to, by node, of the pod's priority or above."""
    nominated: dict[str, list[Pod]] = {}
    for other in view.memo("promised", lambda: [p for p in view.snapshot.pods if p.waiting and p.nominated_node]):
        node = other.nominated_node
        if (
            node in view.nodes.by_name
            and other.spec.priority >= pod.spec.priority
            and other.uid != pod.uid
            and view.where(other) is None
        ):
            nominated.setdefault(node, []).append(other)
    return nominated
