"""SharedVolumeNotAttached: pods share a ReadWriteOnce volume of a driver that attaches nothing.

Kubernetes keeps other nodes away from a ReadWriteOnce volume by attaching it to one node. If the CSIDriver has
`attachRequired: false`, nothing keeps them away: once a pod is placed on another node, for example after an eviction,
two nodes mount the volume, and only the driver knows whether that is safe.
"""

from collections.abc import Iterator

from rebalancer.assessment.controllers import find_reference
from rebalancer.assessment.findings.finding import Finding
from rebalancer.model.reasons import FindingKind
from rebalancer.scheduling.view import View


def volume_findings(view: View) -> Iterator[Finding]:
    """Yield one finding for each claim that several pods use."""
    snapshot = view.snapshot
    if not snapshot.attaching_nothing:
        return
    for (namespace, name), users in snapshot.users_of.items():
        claim = snapshot.claim.get((namespace, name))
        volume = snapshot.volume.get(claim.volume) if claim is not None else None
        if volume is None or not volume.of_one_node or volume.driver not in snapshot.attaching_nothing:
            continue
        if len(users) > 1:
            message = (
                f"{len(users)} pods use it, it is ReadWriteOnce, and CSIDriver {volume.driver} has attachRequired: "
                "false: nothing keeps a second node from mounting it, and evictions may place its pods on several. Use "
                "a ReadWriteMany volume, or one for each pod"
            )
            yield Finding(
                kind=FindingKind.SHARED_VOLUME_NOT_ATTACHED,
                object=f"PersistentVolumeClaim {namespace}/{name}",
                message=message,
                workloads=tuple(sorted({find_reference(pod, view) for pod in users})),
            )
