"""Nodes."""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from rebalancer.model.affinity import Taint, Toleration
from rebalancer.model.labels import NO_LABELS, Labels
from rebalancer.model.pods import NOTHING, Resources

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
"""The well-known labels of a node's place; the last two are the names that zone and region had before."""

SYSTEM: Final = "kubernetes.io/os"
ARCHITECTURE: Final = "kubernetes.io/arch"
"""The labels with which a kubelet says what its node runs on."""

NODE_POOL: Final = "karpenter.sh/nodepool"
"""The label with the name of the NodePool that a node is of."""

BEING_REMOVED: Final = frozenset(
    {"karpenter.sh/disrupted", "karpenter.sh/disruption", "ToBeDeletedByClusterAutoscaler"}
)
"""Keys of the taints with which Karpenter and the cluster-autoscaler begin to remove a node."""

TO_BE_REMOVED: Final = BEING_REMOVED | {"DeletionCandidateOfClusterAutoscaler"}
"""The same, and that of a node that the cluster-autoscaler may remove soon."""

DRAINING: Final = frozenset({"DrainInProgress", "Drained", "GracefulNodeShutdownInProgress"})
"""Types of the conditions that say that a node gets rid of its pods; administrators set them.

`MaintenancePlanned` and `MaintenanceInProgress` are none: where maintenance concerns pods, the node is drained before.
Source: `k8s.io/api/core/v1/types.go` (NodeConditionType).
"""

NOT_READY: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Keys of the taints that the node controller gives to a node that is not Ready."""

_REGISTRATION: Final = timedelta(seconds=5)
"""Between a node's creation and the condition with which its kubelet registers it; none is Ready that early."""

PASSING: Final = tuple(
    Toleration(key=f"node.kubernetes.io/{name}", operator="Exists")
    for name in ("unschedulable", "not-ready", "unreachable", "memory-pressure", "disk-pressure", "pid-pressure")
)
"""Tolerations of the taints that come and go: who has them sees a node as it will be when all is well."""


class Node(Struct, frozen=True, gc=False, kw_only=True):
    """A node. `pods` is how many pods it may hold; `images` are (name, bytes), one row for each name of an image.

    `ready_since` is when its Ready condition last became true, None while it is not. `lost_since` is since when it has
    been cordoned or not Ready, None while it is neither or where that is not known. `cordoned_by` is the field manager
    that has cordoned it, "" where that is not known. `draining` is the type of a condition that says that it is
    drained, "" without. `zone_since` is when its zone label was set, or changed, after it was registered; None of a
    node that came with it, and where that is not known.
    """

    name: str
    uid: str = ""
    labels: Labels = NO_LABELS
    annotations: Labels = NO_LABELS
    unschedulable: bool = False
    cordoned_by: str = ""
    taints: tuple[Taint, ...] = ()
    allocatable: Resources = NOTHING
    pods: int = 110
    images: tuple[tuple[str, int], ...] = ()
    ready: bool = True
    ready_since: datetime | None = None
    lost_since: datetime | None = None
    draining: str = ""
    zone_since: datetime | None = None
    created: datetime
    deleted: datetime | None = None
    resource_version: str = ""
    """The simulator's; "" of what a server sent: nothing depends on it, and every heartbeat changes it."""

    @property
    def never_ready(self) -> bool:
        """Whether it has not been Ready since it was created; also where it is not known since when it is not."""
        return not self.ready and (self.lost_since is None or self.lost_since - self.created <= _REGISTRATION)

    @property
    def takes_pods(self) -> bool:
        """Whether it is Ready and not cordoned."""
        return self.ready and not self.unschedulable

    @property
    def being_removed(self) -> bool:
        """Whether a taint says that an autoscaler removes it."""
        return any(taint.key in BEING_REMOVED for taint in self.taints)
