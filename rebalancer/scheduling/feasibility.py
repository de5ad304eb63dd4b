"""The filters in the scheduler's order, and which nodes pass them all.

Source: `schedule_one.go` (findNodesThatFitPod), the default plugins of `apis/config/v1/default_plugins.go`. Not here:
SchedulingGates, DynamicResources, NodeDeclaredFeatures and gang scheduling (pods that use them are `Unpredictable`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rebalancer.model.affinity import NodeAffinity, Toleration
from rebalancer.model.pods import Pod
from rebalancer.scheduling.inter_pod_affinity import InterPodAffinity
from rebalancer.scheduling.node_affinity import NodeAffinityFilter
from rebalancer.scheduling.node_index import required_part
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

NODE_FILTERS: Final[Sequence[type[Filter]]] = (NodeUnschedulable, NodeName, TaintToleration, NodeAffinityFilter)
"""Filters that depend on the node alone, not on the pods that run there."""
VOLUME_FILTERS: Final[Sequence[type[Filter]]] = (VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)
CAPACITY_FILTERS: Final[Sequence[type[Filter]]] = (NodePorts, NodeResourcesFit, *VOLUME_FILTERS)
FILTERS: Final[Sequence[type[Filter]]] = (*NODE_FILTERS, *CAPACITY_FILTERS, PodTopologySpread, InterPodAffinity)
"""The first filter that rejects a node decides the reason that is reported for it."""


def prepare_filters(pod: Pod, view: View, plugins: Sequence[type[Filter]] = FILTERS) -> Sequence[Filter]:
    """Return those of these filters that the profile enables, prepared for a pod."""
    return [plugin(pod, view) for plugin in plugins if plugin.name not in view.profile.filters_off]


def feasible(pod: Pod, view: View) -> frozenset[str]:
    """Return the names of the nodes that pass every filter, without reasons.

    If preemption nominated a node for the pod (`nominatedNodeName`), and the pod still fits there, only that node is
    returned.
    """
    nodes = _apply_filters((*CAPACITY_FILTERS, PodTopologySpread, InterPodAffinity), pod, view, admissible(pod, view))
    nodes = _drop_nominated_nodes(pod, view, nodes)
    return frozenset({pod.nominated_node}) if pod.nominated_node in nodes else nodes


def static_feasible(pod: Pod, view: View, group: Iterable[Pod] | None = None) -> frozenset[str]:
    """Return the nodes that pass, wherever the pods of the pod's own group are.

    Applies all filters but PodTopologySpread, and InterPodAffinity as if the `group` (by default the pods of the same
    owner) did not exist. Free capacity is that of the given state.
    """
    if group is None:
        group = view.snapshot.pods_of.get(pod.owner.uid, ()) if pod.owner is not None else ()
    nodes = _apply_filters(CAPACITY_FILTERS, pod, view, admissible(pod, view))
    if not nodes or InterPodAffinity.name in view.profile.filters_off:
        return nodes
    if pod.spec.pod_affinity == NO_AFFINITY and not any(True for _ in view.repelling(pod)):
        return nodes  # the usual case, which needs no state without the group
    present = [member for member in group if view.where(member) is not None]
    return InterPodAffinity(pod, view.without(present) if present else view).admit(nodes)


def reached_by_volumes(pod: Pod, view: View) -> frozenset[str]:
    """Return the nodes on which the pod's volumes can be attached, all other filters aside."""
    return _apply_filters(VOLUME_FILTERS, pod, view, view.nodes.names)


def admissible(pod: Pod, view: View) -> frozenset[str]:
    """Return the nodes that `NODE_FILTERS` admit, regardless of the pods there; computed once for equal pod specs."""
    spec = pod.spec
    affinity = spec.node_affinity
    key = ("admissible", spec.node_name, spec.tolerations, affinity.selector, affinity.required)
    return view.memo(key, lambda: _apply_filters(NODE_FILTERS, pod, view, view.nodes.names))


def is_on(plugin: type[Filter], view: View) -> bool:
    """Return whether the profile enables a filter."""
    return plugin.name not in view.profile.filters_off


def admitted_by_labels(affinity: NodeAffinity, view: View) -> frozenset[str]:
    """Return the nodes whose labels match what a pod and the profile require, if the profile has that filter."""
    if not is_on(NodeAffinityFilter, view):
        return view.nodes.names
    added = view.profile.added_affinity.required
    selected = view.nodes.matching(required_part(affinity))
    return selected if added is None else selected & view.nodes.matching(required_part(view.profile.added_affinity))


def admitted_by_taints(tolerations: tuple[Toleration, ...], view: View) -> frozenset[str]:
    """Return the nodes whose taints are tolerated, all nodes if the profile has that filter off."""
    return view.nodes.tolerated(tolerations) if is_on(TaintToleration, view) else view.nodes.names


def _apply_filters(filters: Iterable[type[Filter]], pod: Pod, view: View, nodes: frozenset[str]) -> frozenset[str]:
    for plugin in filters:
        if nodes and plugin.name not in view.profile.filters_off:
            nodes = plugin(pod, view).admit(nodes)
    return nodes


def _drop_nominated_nodes(pod: Pod, view: View, nodes: frozenset[str]) -> frozenset[str]:
    """Leave out nodes where the pod does not fit once the pods nominated for them have arrived.

    Source: `RunFilterPluginsWithNominatedPods`: nominated pods of equal or higher priority count as present.
    """
    for node, state in iterate_nominated_nodes(pod, view):
        if not _apply_filters(FILTERS, pod, state, nodes & {node}):
            nodes = nodes - {node}
    return nodes


def iterate_nominated_nodes(pod: Pod, view: View) -> Iterator[tuple[str, View]]:
    """Yield each node for which other pods are nominated, with the state in which they run there.

    The scheduler filters such a node in that state first; if the pod passes, again in the actual state.
    """
    for node, promised in find_nominated_pods(pod, view).items():
        state = view
        for other in promised:
            state = state.with_placed(other, node)
        yield node, state


def find_nominated_pods(pod: Pod, view: View) -> Mapping[str, Sequence[Pod]]:
    """Return by node the pending pods, of the pod's priority or above, that preemption nominated for the node."""
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
