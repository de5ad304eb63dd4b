"""Pods of a PodGroup that may be disrupted only as a whole: an eviction would remove a single pod.

The Eviction API does not check PodGroups. Only kube-scheduler heeds its `disruptionMode`, when it preempts. With `All`,
the remaining pods of the group are useless to their owner, so its pods stay. They also stay if the PodGroup is not
known.

Source: `k8s.io/api/scheduling/v1beta1/types.go` (DisruptionMode).
"""

from rebalancer.model.facts import Refusal
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot


class DisruptedAsWhole(Refusal):
    """The PodGroup of the pod has the disruption mode All."""

    reason = Reason.POD_GROUP_DISRUPTION
    group: str

    def __str__(self) -> str:
        return f"disruptionMode of PodGroup {self.group} is All: its pods may be disrupted only together"


class PodGroupUnknown(Refusal):
    """The PodGroup of the pod is not known: it does not exist, or PodGroups were not read (`unread`)."""

    reason = Reason.POD_GROUP_DISRUPTION
    group: str
    unread: bool

    def __str__(self) -> str:
        doubt = "its pods may have to be disrupted together"
        if self.unread:
            return (
                f"PodGroup {self.group} was not read: {doubt}. Allow podgroups of scheduling.k8s.io/v1beta1 to be "
                "listed, or add them to the file"
            )
        return f"PodGroup {self.group} does not exist: {doubt}. Create it, or remove schedulingGroup from the template"


def refuse_group(pod: Pod, snapshot: Snapshot) -> Refusal | None:
    """Return why a pod must stay because of its PodGroup, or None."""
    if not pod.spec.pod_group:
        return None
    name = f"{pod.namespace}/{pod.spec.pod_group}"
    group = snapshot.pod_group.get((pod.namespace, pod.spec.pod_group))
    if group is None:
        return PodGroupUnknown(name, unread="PodGroup" not in snapshot.known)
    return DisruptedAsWhole(name) if group.whole else None
