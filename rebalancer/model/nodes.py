"""Nodes."""

from collections.abc import Mapping
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
"""The well-known labels of a node's place; the last two are the earlier names of zone and region."""

SYSTEM: Final = "kubernetes.io/os"
ARCHITECTURE: Final = "kubernetes.io/arch"
"""The labels with which a kubelet says what its node runs on."""

NODE_POOL: Final = "karpenter.sh/nodepool"
"""The label with the name of a node's NodePool."""

AUTOSCALER_TAINTS: Final[Mapping[str, str]] = {
    "karpenter.sh/disrupted": "an autoscaler is about to remove it",
    "karpenter.sh/disruption": "an autoscaler is about to remove it",
    "ToBeDeletedByClusterAutoscaler": "an autoscaler is about to remove it",
    "DeletionCandidateOfClusterAutoscaler": "an autoscaler is about to remove it",
}
"""Keys of the taints with which Karpenter and the cluster-autoscaler remove a node, or may soon, and what they say."""

_CLOUD_TAINTS: Final[Mapping[str, str]] = {
    "aws-node-termination-handler/spot-itn": "its spot instance is about to be taken back",
    "aws-node-termination-handler/asg-lifecycle-termination": "its instance is about to be terminated",
    "aws-node-termination-handler/scheduled-maintenance": "maintenance of its instance is scheduled",
    "aws-node-termination-handler/rebalance-recommendation": "its spot instance is likely to be taken back",
    "cloud.google.com/impending-node-termination": "its instance is about to be terminated",
    "remediator.aks.microsoft.com/unschedulable": "the cloud repairs or removes it",
    "remediator.kubernetes.azure.com/unschedulable": "the cloud repairs or removes it",
    "node.cloudprovider.kubernetes.io/shutdown": "its instance is shut down",
    "node.kubernetes.io/out-of-service": "it is out of service",
    "weave.works/kured-node-reboot": "it is about to be rebooted",
}
"""Taints of clouds and of programs that restart nodes.

Sources: aws-node-termination-handler (`pkg/node/node.go`); GKE, graceful termination of spot and GPU nodes; AKS, node
auto-repair and auto-drain (the key was renamed); Kubernetes, `k8s.io/api/core/v1/well_known_taints.go` and
`k8s.io/cloud-provider/api`; kured, the example of `--prefer-no-schedule-taint`.
"""

LEAVING_TAINTS: Final = {**AUTOSCALER_TAINTS, **_CLOUD_TAINTS}
"""Keys of the taints of nodes that are going away or under repair, and what each taint says of its node."""

BEING_REMOVED: Final = frozenset(AUTOSCALER_TAINTS.keys() - {"DeletionCandidateOfClusterAutoscaler"})
"""Taints with which an autoscaler begins to remove a node. A node that leaves for another reason is a loss."""

UNSERVICEABLE_TAINTS: Final[Mapping[str, str]] = {
    "node.cilium.io/agent-not-ready": "Cilium's agent is not ready there",
    "node.cloudprovider.kubernetes.io/uninitialized": "the cloud has not initialized it yet",
    "node.kubernetes.io/network-unavailable": "its network is not available",
    "karpenter.sh/unregistered": "Karpenter has not registered it yet",
}
"""Keys of the taints of nodes that do not serve pods yet, or not now.

Sources: Cilium, "Considerations on node pool taints"; Kubernetes as above; Karpenter, `pkg/apis/v1/taints.go`.
"""

UNSERVICEABLE_CONDITIONS: Final = frozenset(
    {"KernelDeadlock", "ReadonlyFilesystem", "CorruptDockerOverlay2", "KubeletUnhealthy", "ContainerRuntimeUnhealthy"}
)
"""Types of the conditions with which node-problem-detector says that a node has a lasting problem.

Source: `config/*.json` of kubernetes/node-problem-detector, rules of type "permanent", and its health checkers.
"""

DRAINING: Final = frozenset({"DrainInProgress", "Drained", "GracefulNodeShutdownInProgress"})
"""Types of the conditions of a node that gets rid of its pods; administrators set them.

`MaintenancePlanned` and `MaintenanceInProgress` are left out: where maintenance concerns pods, the node is drained
before. Source: `k8s.io/api/core/v1/types.go` (NodeConditionType).
"""

NOT_READY: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Keys of the taints that the node controller gives to a node that is not Ready."""

_REGISTRATION: Final = timedelta(seconds=5)
"""The time between a node's creation and the first condition of its kubelet; no node is Ready that early."""

PASSING: Final = tuple(
    Toleration(key=f"node.kubernetes.io/{name}", operator="Exists")
    for name in ("unschedulable", "not-ready", "unreachable", "memory-pressure", "disk-pressure", "pid-pressure")
)
"""Tolerations of the taints that come and go: a pod with them sees a node as it will be when all is well."""


class Node(Struct, frozen=True, gc=False, kw_only=True):
    """A node."""

    name: str
    uid: str = ""
    labels: Labels = NO_LABELS
    annotations: Labels = NO_LABELS
    unschedulable: bool = False
    cordoned_by: str = ""
    """The field manager that has cordoned it, "" if not known."""
    taints: tuple[Taint, ...] = ()
    allocatable: Resources = NOTHING
    pods: int = 110
    """How many pods it may hold."""
    images: tuple[tuple[str, int], ...] = ()
    """(name, bytes), one row for each name of an image."""
    ready: bool = True
    ready_since: datetime | None = None
    """When its Ready condition last became true, None while it is not."""
    lost_since: datetime | None = None
    """Since when it has been cordoned or not Ready, None while it is neither, or if not known."""
    draining: str = ""
    """The type of a condition that says that the node is drained, "" without."""
    problem: str = ""
    """The type of a condition that says that the node has a lasting problem, "" without one."""
    leaving_by_policy: str = ""
    """The key of a taint that marks leaving nodes by the policy, "" without."""
    handlers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Its runtime handlers, each with its features that are false; empty if the kubelet does not say."""
    without: tuple[str, ...] = ()
    """Its own features that are false."""
    zone_since: datetime | None = None
    """When its zone label was set, or changed, after it was registered.

    None if the node was registered with the label, or if not known.
    """
    created: datetime
    deleted: datetime | None = None
    resource_version: str = ""
    """Set by the simulator only; "" for nodes from a server: every heartbeat changes it, and nothing needs it."""

    @property
    def never_ready(self) -> bool:
        """Whether the node was never Ready, or the time when it stopped being Ready is unknown."""
        return not self.ready and (self.lost_since is None or self.lost_since - self.created <= _REGISTRATION)

    @property
    def takes_pods(self) -> bool:
        """Whether it is Ready and not cordoned."""
        return self.ready and not self.unschedulable

    @property
    def leaving(self) -> str:
        """The key of the first taint that says that it is leaving or being repaired, "" without."""
        if not self.taints:
            return ""
        return next((taint.key for taint in self.taints if taint.key in LEAVING_TAINTS), self.leaving_by_policy)

    @property
    def being_removed(self) -> bool:
        """Whether a taint says that an autoscaler removes it."""
        return any(taint.key in BEING_REMOVED for taint in self.taints)
