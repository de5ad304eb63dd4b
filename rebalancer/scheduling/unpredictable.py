"""Pods whose placement the model cannot predict, and why."""

from collections.abc import Iterator
from typing import Final

from rebalancer.model.facts import Refusal
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.scheduling.view import View
from rebalancer.scheduling.volume_binding import find_driver_with_capacity

OF_DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""Extended resources with this prefix belong to the class named after it, whether it is known or not."""
FOR_CLAIMS = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")


class Unpredictable(Refusal):
    """Why the node of a pod cannot be predicted; the message is the whole sentence."""

    reason: Reason
    message: str

    def __str__(self) -> str:
        return self.message


def unpredictable(pod: Pod, view: View) -> Unpredictable | None:
    """Return why the scheduler's decision on this pod is not modelled, None if it is."""
    spec = pod.spec
    if spec.scheduler != view.profile.name:
        return Unpredictable(Reason.OTHER_SCHEDULER, f"schedulerName is {spec.scheduler}, not {view.profile.name}")
    if spec.unread:
        return Unpredictable(Reason.TOO_LARGE, f"{spec.unread}: its constraints, affinity and tolerations are not read")
    other = view.find_unread(pod)
    if other is not None:
        message = f"affinity terms of pods in namespace {other} may select it that are more or larger than is read"
        return Unpredictable(Reason.NOT_PREDICTABLE, message)
    unmodelled = next(_find_messages(pod, view), None)
    return None if unmodelled is None else Unpredictable(Reason.NOT_PREDICTABLE, unmodelled)


def _find_messages(pod: Pod, view: View) -> Iterator[str]:
    spec, unknown = pod.spec, view.snapshot.unknown
    if spec.node_name is not None:
        bypass = "the scheduler never sees the pod, only that node's kubelet can refuse it"
        yield f"spec.nodeName is {spec.node_name}: {bypass}"
    if spec.gated:
        yield "it has scheduling gates: it is not scheduled until they are removed"
    if spec.unpredictable:
        yield f"its placement depends on {', '.join(spec.unpredictable)}"
    if view.profile.unmodelled:
        yield f"the scheduler's configuration uses {', '.join(view.profile.unmodelled)}"
    if any(toleration.operator in {"Lt", "Gt"} for toleration in spec.tolerations):
        yield "it has tolerations with Lt or Gt, which depend on an alpha feature gate"
    if (device := _find_device(pod, view)) is not None:
        met = "may come" if "DeviceClass" in unknown else "comes"
        yield f"{device} {met} from a DeviceClass on some nodes, and which devices are free there is not read"
    unread = [kind for kind in FOR_CLAIMS if kind in unknown]
    if pod.claims and unread:
        yield f"it has volume claims, and the snapshot has no {unread[0]} list"
    if pod.claims and (driver := find_driver_with_capacity(pod, view)) is not None:
        yield f"a volume of it would be made by {driver}, whose CSIStorageCapacity objects are not read"
    if "Service" in unknown and not spec.spread and view.profile.default_constraints != ():
        yield "the scheduler's default constraints for it depend on Services, which the snapshot does not have"


def _find_device(pod: Pod, view: View) -> str | None:
    """Return the extended resource that the pod requests and that device claims may meet, or None.

    Source: `noderesources/fit.go`, shouldDelegateResourceToDRA: if there is a DeviceClass of that name, nodes that do
    not state the resource are not checked for it.
    """
    snapshot = view.snapshot
    unread = view.rules.devices_meet_resources and "DeviceClass" in snapshot.unknown
    for name, _ in pod.spec.requests.extended:
        may_be_met = unread or name in snapshot.resources_of_devices or name.startswith(OF_DEVICE_CLASS)
        if may_be_met and not _is_on_every_node(name, view):
            return name
    return None


def _is_on_every_node(resource: str, view: View) -> bool:
    def ask() -> bool:
        return all(dict(node.allocatable.extended).get(resource) for node in view.snapshot.nodes)

    return view.memo(("on every node", resource), ask)
