"""Nodes that the scheduler may choose for a pod although other objects show that they cannot run it.

The scheduler does not check any of this. The kubelet rejects the pod, or its containers never start. If the kubelet
rejects the pod, its owner creates one pod after another:

* `spec.os` of the pod is another system than the node's label says;
* the node's CSINode does not name the CSI driver of a volume of the pod, which a CSINode of another node names;
* the node's runtime does not have the handler of the pod's RuntimeClass (`status.runtimeHandlers`);
* the node says that it lacks a feature that the pod needs (`status.features`, features of `status.runtimeHandlers`).

Nor does the scheduler check what its configuration switches off; of these rules, kubelets themselves check node
affinity, host ports and free capacity.

Missing facts restrict nothing: a node without a CSINode, a kubelet that does not list its handlers.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from rebalancer.model.nodes import SYSTEM, Node
from rebalancer.model.pods import NodeFeature, Pod
from rebalancer.scheduling.feasibility import is_on
from rebalancer.scheduling.node_affinity import NodeAffinityFilter
from rebalancer.scheduling.node_ports import NodePorts
from rebalancer.scheduling.node_resources_fit import NodeResourcesFit
from rebalancer.scheduling.view import View


class Inability(NamedTuple):
    """Nodes that cannot run a pod: what they lack, and what to do."""

    nodes: frozenset[str]
    lack: str
    remedy: str
    of_system: bool = False
    uncounted: bool = False
    """Whether constraints may leave these nodes out although the scheduler may choose them."""


_FIELDS: Final[Mapping[str, str]] = {
    NodeFeature.USER_NAMESPACES: "hostUsers is false",
    NodeFeature.SUPPLEMENTAL_GROUPS_POLICY: "securityContext.supplementalGroupsPolicy is Strict",
}
"""For each feature, the part of a pod that needs it."""


def find_inabilities(pod: Pod, view: View) -> Iterator[Inability]:
    """Yield the nodes that cannot run a pod, by what they lack. Its drivers are those of the claims that it names."""
    if pod.spec.os:
        yield from _of_other_systems(pod.spec.os, view)
    if pod.claims or pod.drivers:
        for driver, volume in sorted(_find_drivers(pod, view).items()):
            yield _without_driver(driver, volume, view)
    known = view.snapshot.runtime_class.get(pod.spec.runtime_class) if pod.spec.runtime_class else None
    handler = known.handler if known is not None else ""
    if handler:
        yield _without_handler(handler, pod.spec.runtime_class, view)
    for need in pod.spec.needs:
        yield _without_feature(need, handler, view)
    if view.profile.filters_off:
        yield from _rejecting(pod, view)


def _of_other_systems(wanted: str, view: View) -> Iterator[Inability]:
    for system, nodes in sorted(view.nodes.groups(SYSTEM).items()):
        if system != wanted:
            yield Inability(
                nodes,
                f"runs {system}, where spec.os of the pods is {wanted}",
                f"Add nodeSelector {SYSTEM}: {wanted} to the template",
                of_system=True,
            )


def _rejecting(pod: Pod, view: View) -> Iterator[Inability]:
    for plugin in (NodeAffinityFilter, NodePorts, NodeResourcesFit):
        if not is_on(plugin, view):
            yield Inability(
                view.nodes.names - plugin(pod, view).admit(view.nodes.names),
                f"does not pass {plugin.name}, which the scheduler's configuration switches off and kubelets check",
                f"Switch {plugin.name} on",
                uncounted=True,
            )


def _find_drivers(pod: Pod, view: View) -> Mapping[str, str]:
    """Return the CSI drivers of a pod's volumes, each with the volume or claim that needs it."""
    snapshot, drivers = view.snapshot, dict.fromkeys(pod.drivers, "an inline volume")
    for name in pod.claims:
        claim = snapshot.claim.get((pod.namespace, name))
        if claim is None:
            continue
        volume, kind = snapshot.volume.get(claim.volume), snapshot.storage_class.get(claim.storage_class)
        driver = volume.driver if volume is not None else kind.provisioner if kind is not None else ""
        drivers.setdefault(driver, f"claim {name}")
    drivers.pop("", None)
    return drivers


def _without_driver(driver: str, volume: str, view: View) -> Inability:
    def make() -> frozenset[str]:
        having = {one.name: any(name == driver for name, _, _ in one.drivers) for one in view.snapshot.csi_nodes}
        return frozenset(name for name, has in having.items() if not has) if any(having.values()) else frozenset()

    nodes = view.memo(("nodes without a CSI driver", driver), make)
    return Inability(
        nodes,
        f"does not have the CSI driver {driver} of {volume} (its CSINode does not name it)",
        "Install the driver there, or select the nodes that have it in the template",
    )


def _without_handler(handler: str, name: str, view: View) -> Inability:
    def make() -> frozenset[str]:
        return frozenset(
            node.name
            for node in view.snapshot.nodes
            if node.handlers and not any(handler == known for known, _ in node.handlers)
        )

    return Inability(
        view.memo(("nodes without a runtime handler", handler), make),
        f"does not have the runtime handler {handler} of RuntimeClass {name} (status.runtimeHandlers)",
        "Configure the handler there, or set scheduling.nodeSelector of the RuntimeClass",
    )


def _without_feature(need: NodeFeature, handler: str, view: View) -> Inability:
    def lacks(node: Node) -> bool:
        return need in node.without or any(need in lacking for name, lacking in node.handlers if name == handler)

    def make() -> frozenset[str]:
        return frozenset(node.name for node in view.snapshot.nodes if lacks(node))

    return Inability(
        view.memo(("nodes without a feature", need, handler), make),
        f"does not support {need}, which the pods need: {_FIELDS[need]}",
        "Select nodes that support it in the template",
    )
