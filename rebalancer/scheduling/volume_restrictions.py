"""VolumeRestrictions: a ReadWriteOncePod claim has one user in the cluster.

Source: `volumerestrictions/volume_restrictions.go`. Disks named in the pod itself (GCE, EBS, iSCSI, RBD) make a pod
unpredictable when it is decoded, so their conflicts are not modelled.
"""

from typing import ClassVar, Final

from rebalancer.model.pods import Pod
from rebalancer.scheduling.plugin import Filter
from rebalancer.scheduling.verdicts import SUCCESS, Verdict, unresolvable, unschedulable
from rebalancer.scheduling.view import View

READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"


class VolumeRestrictions(Filter):
    """The claims must exist, and a claim for a single pod must not be in use, even by a terminating pod."""

    name: ClassVar = "VolumeRestrictions"

    def __init__(self, pod: Pod, view: View) -> None:
        self._verdict: Verdict = SUCCESS
        for name in pod.claims:
            claim = view.snapshot.claim.get((pod.namespace, name))
            if claim is None:
                self.refusal = unresolvable(f'persistentvolumeclaim "{name}" not found')
                return
            if READ_WRITE_ONCE_POD in claim.access_modes and view.claim_users(pod.namespace, name):
                self._verdict = unschedulable(view.rules.claim_reason)

    def verdict(self, node: str) -> Verdict:  # noqa: ARG002  # it is the same for every node
        return self._verdict

    def admit(self, nodes: frozenset[str]) -> frozenset[str]:
        return nodes if self.refusal is None and self._verdict else frozenset()
