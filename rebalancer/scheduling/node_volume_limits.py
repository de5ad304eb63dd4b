"""NodeVolumeLimits: a CSI driver attaches a limited number of volumes to a node, and none to a node without the driver.

Source: `nodevolumelimits/csi.go`. Leftover VolumeAttachment objects without a pod on the node are not read; in-tree
volumes that are migrated to CSI are not counted.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from rebalancer.model.pods import Pod
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.verdicts import SUCCESS, Verdict, unschedulable
from rebalancer.scheduling.view import View

EXCEEDED: Final = unschedulable("node(s) exceed max volume count")


def find_attached_volumes(pods: Iterable[Pod], view: View) -> frozenset[tuple[str, str]]:
    """Return (driver, handle) of the CSI volumes of pods; a volume that does not exist yet has the claim's name."""
    handles = set()
    for pod in pods:
        for name in pod.claims:
            claim = view.snapshot.claim.get((pod.namespace, name))
            if claim is None:
                continue
            volume = view.snapshot.volume.get(claim.volume)
            if volume is not None:
                handles.add((volume.driver, volume.handle))
            else:
                kind = view.snapshot.storage_class.get(claim.storage_class)
                handles.add((kind.provisioner if kind is not None else "", f"{pod.namespace}/{name}"))
    return frozenset(handle for handle in handles if all(handle))


class NodeVolumeLimits(Filter):
    """The pod's new volumes must fit into the limits that the node's CSINode states; without one there is no limit."""

    name: ClassVar = "NodeVolumeLimits"

    def __init__(self, pod: Pod, view: View) -> None:
        self._view = view
        self._new = find_attached_volumes([pod], view) if pod.claims else frozenset()
        drivers = sorted({driver for driver, _ in self._new}) if view.rules.drivers_required else ()
        known = view.snapshot.csi_driver
        self._required = [name for name in drivers if name in known and known[name].keeps_pods_from_nodes_without]

    def _limits(self, node: str) -> Mapping[str, int]:
        csi_node = self._view.snapshot.csi_node.get(node)
        return {name: count for name, count, _ in csi_node.drivers if count is not None} if csi_node is not None else {}

    def verdict(self, node: str) -> Verdict:
        missing = next((name for name in self._required if node not in self._find_nodes_with(name)), None)
        if missing is not None:
            return unschedulable(f"{missing} CSI driver is not installed on the node")
        limits = self._limits(node) if self._new else {}
        if not limits:
            return SUCCESS
        here = find_attached_volumes(self._view.pods_on(node), self._view)
        coming = self._new - here
        for driver in {driver for driver, _ in coming}:
            present = sum(1 for other, _ in here if other == driver)
            added = sum(1 for other, _ in coming if other == driver)
            if driver in limits and present + added > limits[driver]:
                return EXCEEDED
        return SUCCESS

    def admit(self, nodes: frozenset[str]) -> frozenset[str]:
        for driver in self._required:
            nodes &= self._find_nodes_with(driver)
        limited = [
            nodes & self._find_nodes_with(driver, limited=True) for driver in {driver for driver, _ in self._new}
        ]
        return nodes.difference(node for node in frozenset().union(*limited) if not self.verdict(node))

    def _find_nodes_with(self, driver: str, *, limited: bool = False) -> frozenset[str]:
        """Return the nodes whose CSINode names a driver, or states a limit for it."""

        def make() -> frozenset[str]:
            return frozenset(
                csi_node.name
                for csi_node in self._view.snapshot.csi_nodes
                if any(name == driver and not (limited and count is None) for name, count, _ in csi_node.drivers)
            )

        return self._view.memo(("nodes with a CSI driver", driver, limited), make)
