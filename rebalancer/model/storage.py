"""Volumes, claims and storage classes, which can bind a pod to nodes."""

from typing import Final

from msgspec import Struct

from rebalancer.model.affinity import NodeSelectorTerm
from rebalancer.model.labels import NO_LABELS, Labels, LabelSelector, Operator
from rebalancer.model.nodes import HOSTNAME

_ONE_NODE: Final = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})


def _names_one_node(term: NodeSelectorTerm) -> bool:
    named = [one for one in term.expressions if one.key == HOSTNAME] + list(term.fields)
    return any(one.operator is Operator.IN and len(one.values) == 1 for one in named)


class PersistentVolume(Struct, frozen=True, gc=False, kw_only=True):
    """A volume. `node_affinity` None: reachable from everywhere. `driver` is its CSI driver, "" if it has none."""

    name: str
    labels: Labels = NO_LABELS
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    storage_class: str = ""
    driver: str = ""
    handle: str = ""
    attached: bool = False
    """Whether the volume may have to be attached to a node: a CSI driver says so, all other volumes have to."""
    on_node: bool = False
    """Whether it is a directory or a disk of the node where its pod runs (`hostPath`, `local`)."""
    claim: tuple[str, str] | None = None
    """(namespace, name) of the claim it is reserved for."""
    capacity: int = 0
    access_modes: tuple[str, ...] = ()
    phase: str = ""
    volume_mode: str = "Filesystem"
    deleted: bool = False

    @property
    def left_behind(self) -> bool:
        """Whether a pod would find other data on another node: the volume is local and not bound to a single node."""
        return self.on_node and not (self.node_affinity and all(map(_names_one_node, self.node_affinity)))

    @property
    def of_one_node(self) -> bool:
        """Whether it is attached to one node at a time; without access modes it may be attached to several."""
        return bool(self.access_modes) and _ONE_NODE.issuperset(self.access_modes)


class PersistentVolumeClaim(Struct, frozen=True, gc=False, kw_only=True):
    """A claim. `volume` is "" until it is bound; `selected_node` is the node that a delayed binding has selected."""

    namespace: str
    name: str
    uid: str = ""
    volume: str = ""
    bound: bool = False
    """Whether binding has completed, both ways (annotation `pv.kubernetes.io/bind-completed`)."""
    storage_class: str = ""
    selected_node: str = ""
    access_modes: tuple[str, ...] = ()
    request: int = 0
    volume_mode: str = "Filesystem"
    selector: LabelSelector | None = None
    """Which volumes may serve the claim; None for any."""
    deleted: bool = False
    lost: bool = False
    """Whether its volume is gone (phase Lost), so that no pod that uses the claim starts."""
    owner_uid: str = ""


class StorageClass(Struct, frozen=True, gc=False, kw_only=True):
    """A storage class. `delayed`: volumes are provisioned only when a pod has a node (WaitForFirstConsumer)."""

    name: str
    provisioner: str = ""
    delayed: bool = False
    allowed_topologies: tuple[NodeSelectorTerm, ...] = ()
    default: bool = False


class CSIDriver(Struct, frozen=True, gc=False, kw_only=True):
    """A CSI driver. `attach_required`: Kubernetes attaches its volumes to a node before they are mounted there."""

    name: str
    attach_required: bool = True
    publishes_capacity: bool = False
    """Whether CSIStorageCapacity objects say where a volume can be made, and the scheduler goes by them."""
    keeps_pods_from_nodes_without: bool = False
    """`preventPodSchedulingIfMissing`: its pods stay away from nodes whose CSINode does not name it."""


class CSINode(Struct, frozen=True, gc=False, kw_only=True):
    """The CSI drivers of a node: (driver, how many volumes it may attach there or None, topology keys)."""

    name: str
    drivers: tuple[tuple[str, int | None, tuple[str, ...]], ...] = ()
