"""Pods whose placement the model cannot predict, and why."""

from rebalancer.model.facts import Refusal
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.scheduling.view import View
from rebalancer.scheduling.volume_binding import find_driver_with_capacity

FOR_CLAIMS = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")


class Unpredictable(Refusal):
    """Why the node of a pod cannot be predicted; the message is the whole sentence."""

    reason: Reason
    message: str

    def __str__(self) -> str:
        return self.message


def unpredictable(pod: Pod, view: View) -> Unpredictable | None:
    """Say why the scheduler's decision on this pod is not modelled, or None where it is."""
    spec = pod.spec
    if spec.scheduler != view.profile.name:
        return Unpredictable(Reason.OTHER_SCHEDULER, f"schedulerName is {spec.scheduler}, not {view.profile.name}")
    if spec.node_name is not None:
        bypass = "the scheduler never sees the pod, only that node's kubelet can refuse it"
        return Unpredictable(Reason.NOT_PREDICTABLE, f"spec.nodeName is {spec.node_name}: {bypass}")
    if spec.gated:
        return Unpredictable(
            Reason.NOT_PREDICTABLE, "it has scheduling gates: it is not scheduled until they are removed"
        )
    if spec.unpredictable:
        return Unpredictable(Reason.NOT_PREDICTABLE, f"its placement depends on {', '.join(spec.unpredictable)}")
    if view.profile.unmodelled:
        used = ", ".join(view.profile.unmodelled)
        return Unpredictable(Reason.NOT_PREDICTABLE, f"the scheduler's configuration uses {used}")
    if any(toleration.operator in {"Lt", "Gt"} for toleration in spec.tolerations):
        return Unpredictable(
            Reason.NOT_PREDICTABLE, "it has tolerations with Lt or Gt, which depend on an alpha feature gate"
        )
    driver = find_driver_with_capacity(pod, view) if pod.claims else None
    if driver is not None:
        message = f"a volume of it would be made by {driver}, whose CSIStorageCapacity objects are not read"
        return Unpredictable(Reason.NOT_PREDICTABLE, message)
    unknown = view.snapshot.unknown
    unread = [kind for kind in FOR_CLAIMS if kind in unknown]
    if pod.claims and unread:
        return Unpredictable(Reason.NOT_PREDICTABLE, f"it has volume claims, and the snapshot has no {unread[0]} list")
    if "Service" in unknown and not spec.spread and view.profile.default_constraints != ():
        message = "the scheduler's default constraints for it depend on Services, which the snapshot does not have"
        return Unpredictable(Reason.NOT_PREDICTABLE, message)
    return None
