"""VolumeBinding: a bound volume must be reachable from the node, an unbound claim must be servable there.

Source: `volumebinding/volume_binding.go`, `scorer.go`, `binder.go`, component-helpers
`storage/volume.FindMatchingVolume`. Storage capacity (CSIStorageCapacity) is not read: a pod that needs a volume of a
driver that publishes it is not predicted (`find_driver_with_capacity`).
"""

from collections.abc import Container, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

from rebalancer.model.affinity import NodeSelectorTerm
from rebalancer.model.pods import Pod
from rebalancer.model.storage import PersistentVolume, PersistentVolumeClaim
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.verdicts import SUCCESS, Verdict, unresolvable
from rebalancer.scheduling.view import View

BIND_CONFLICT: Final = "node(s) didn't find available persistent volumes to bind"
NO_PROVISIONER: Final = frozenset({"", "kubernetes.io/no-provisioner"})


class Bindings(NamedTuple):
    """The volumes that waiting claims would get on a node: existing volumes, and volumes to be created."""

    existing: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...]
    made: tuple[PersistentVolumeClaim, ...]


class VolumeBinding(Filter):
    """Bound claims pin the pod to the nodes of their volumes; delayed claims get their volumes on the pod's node."""

    name: ClassVar = "VolumeBinding"

    def __init__(self, pod: Pod, view: View) -> None:
        """Sort the claims; a claim that is missing, being deleted, or unbound in immediate mode refuses the pod."""
        self._view = view
        self._key = ("volumes", pod.namespace, pod.claims)
        self._bound: list[PersistentVolume] = []
        self._delayed: list[PersistentVolumeClaim] = []
        immediate = False
        for name in pod.claims:
            claim = view.snapshot.claim.get((pod.namespace, name))
            if claim is None or claim.deleted:
                fate = "not found" if claim is None else "is being deleted"
                self.refusal = unresolvable(f'persistentvolumeclaim "{name}" {fate}')
                return
            if claim.bound:
                volume = view.snapshot.volume.get(claim.volume)
                if volume is not None:
                    self._bound.append(volume)
            elif claim.volume or not _is_delayed(claim, view):
                immediate = True
            else:
                self._delayed.append(claim)
        if immediate:
            self.refusal = unresolvable("pod has unbound immediate PersistentVolumeClaims")

    def verdict(self, node: str) -> Verdict:
        reasons = []
        if any(node not in find_reachable_nodes(volume, self._view) for volume in self._bound):
            reasons.append(self._view.rules.volume_reason)
        if not self._servable(node):
            reasons.append(BIND_CONFLICT)
        return unresolvable(*reasons) if reasons else SUCCESS

    def admit(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return the nodes that pass; neither claims nor volumes change between hypothetical states."""
        if not self._bound and not self._delayed and self.refusal is None:
            return nodes
        return nodes & self._view.memo(self._key, lambda: Filter.admit(self, self._view.nodes.names))

    @property
    def waits(self) -> bool:
        """Whether the pod has claims that are bound only when it has a node."""
        return bool(self._delayed)

    def _servable(self, node: str) -> bool:
        found = self.find_bindings(node)
        return found is not None and all(_can_be_provisioned(claim, node, self._view) for claim in found.made)

    def find_bindings(self, node: str) -> Bindings | None:
        """Return what the waiting claims would get on a node; None if a volume is being created on another node."""
        made = []
        open_claims = []
        for claim in self._delayed:
            if not claim.selected_node:
                open_claims.append(claim)
            elif claim.selected_node == node:
                made.append(claim)
            else:
                return None
        existing: dict[str, tuple[PersistentVolumeClaim, PersistentVolume]] = {}
        for claim in sorted(open_claims, key=lambda claim: claim.request):
            volume = _find_volume(claim, node, existing, self._view)
            if volume is None:
                made.append(claim)
            else:
                existing[volume.name] = (claim, volume)
        return Bindings(tuple(existing.values()), tuple(made))


def score(pod: Pod, view: View, nodes: Sequence[str]) -> Mapping[str, int] | None:
    """Return 0 to 100, the mean over storage classes: higher if less of the volumes is requested.

    0 for a node on which all volumes would be created. None if nothing waits for a node, or before 1.37.
    """
    binding = VolumeBinding(pod, view)
    if not view.rules.storage_scored or not binding.waits:
        return None
    return {node: _score_bindings(binding.find_bindings(node)) for node in nodes}


def _score_bindings(found: Bindings | None) -> int:
    by_class: dict[str, tuple[int, int]] = {}
    for claim, volume in found.existing if found is not None else ():
        requested, capacity = by_class.get(claim.storage_class, (0, 0))
        by_class[claim.storage_class] = requested + claim.request, capacity + volume.capacity
    if not by_class:
        return 0
    used = [100 if not capacity else min(100, 100 * requested // capacity) for requested, capacity in by_class.values()]
    return (2 * sum(100 - share for share in used) + len(used)) // (2 * len(used))


def find_driver_with_capacity(pod: Pod, view: View) -> str | None:
    """Return the CSI driver that would create a volume of the pod and publishes its capacity, or None."""
    for name in pod.claims:
        claim = view.snapshot.claim.get((pod.namespace, name))
        if claim is None or claim.bound or claim.volume:
            continue
        storage_class = view.snapshot.storage_class.get(claim.storage_class)
        driver = view.snapshot.csi_driver.get(storage_class.provisioner) if storage_class is not None else None
        if driver is not None and driver.publishes_capacity:
            return driver.name
    return None


def find_reachable_nodes(volume: PersistentVolume, view: View) -> frozenset[str]:
    """Return the nodes from which a volume can be used: all nodes if it names none."""
    terms = volume.node_affinity
    return view.nodes.names if terms is None else _select_nodes(terms, view)


def _select_nodes(terms: Sequence[NodeSelectorTerm], view: View) -> frozenset[str]:
    return frozenset().union(*(view.nodes.selected(term) for term in terms))


def _is_delayed(claim: PersistentVolumeClaim, view: View) -> bool:
    storage_class = view.snapshot.storage_class.get(claim.storage_class)
    return storage_class is not None and storage_class.delayed


# Many branches: the conditions of kube-scheduler's volume binder, in its order.
def _find_volume(claim: PersistentVolumeClaim, node: str, taken: Container[str], view: View) -> PersistentVolume | None:
    """Find the smallest available volume for a claim on a node, or the volume that is reserved for it."""
    smallest: PersistentVolume | None = None
    for volume in view.snapshot.volumes:
        if volume.name in taken or volume.deleted or volume.storage_class != claim.storage_class:
            continue
        reserved = volume.claim == (claim.namespace, claim.name)
        if (volume.claim is not None and not reserved) or volume.capacity < claim.request:
            continue
        if volume.volume_mode != claim.volume_mode:
            continue
        if reserved:
            return volume if node in find_reachable_nodes(volume, view) else None
        if (
            volume.phase == "Available"
            and (claim.selector is None or claim.selector.matches(volume.labels))
            and node in find_reachable_nodes(volume, view)
            and set(claim.access_modes) <= set(volume.access_modes)
            and (smallest is None or smallest.capacity > volume.capacity)
        ):
            smallest = volume
    return smallest


def _can_be_provisioned(claim: PersistentVolumeClaim, node: str, view: View) -> bool:
    """Say whether the claim's storage class could provision a volume for it on a node."""
    storage_class = view.snapshot.storage_class.get(claim.storage_class)
    if storage_class is None or storage_class.provisioner in NO_PROVISIONER:
        return False
    return not storage_class.allowed_topologies or node in _select_nodes(storage_class.allowed_topologies, view)
