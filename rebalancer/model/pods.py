"""Pods: the fields that the scheduler, the disruption controller and the rebalancer use."""

from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

from rebalancer.model.affinity import NodeAffinity, PodAffinity, Toleration
from rebalancer.model.containers import PodRequests
from rebalancer.model.labels import NO_LABELS, Labels
from rebalancer.model.spread import SpreadConstraint

REVISION_LABELS: Final = ("pod-template-hash", "controller-revision-hash")
"""Labels with which owners mark the pods of one version of their template."""

NO_SANDBOX = "PodReadyToStartContainers is False"
"""The failure of a bound pod whose node has made no sandbox and network for it, normal for some seconds."""


class PodPhase(StrEnum):
    """`status.phase`."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class OwnerReference(Struct, frozen=True, gc=False, kw_only=True):
    """The owner with `controller: true`. `group` is "" for the core group, else for example "apps"."""

    group: str
    kind: str
    name: str
    uid: str


class Resources(Struct, frozen=True, gc=False, kw_only=True):
    """Amounts by resource: CPU in thousandths of a core, memory and ephemeral storage in bytes, others in units."""

    cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    extended: tuple[tuple[str, int], ...] = ()
    """Sorted (name, amount) of every other resource; zero amounts are left out."""


NOTHING = Resources()


class HostPort(Struct, frozen=True, gc=False, order=True):
    """A port taken on the node; `ip` is 0.0.0.0 if the pod names none."""

    ip: str
    protocol: str
    port: int


class NodeFeature(StrEnum):
    """A feature of a node, or of its runtime, that a pod may need to start; named as in a node's status."""

    USER_NAMESPACES = "userNamespaces"
    SUPPLEMENTAL_GROUPS_POLICY = "supplementalGroupsPolicy"


class PodSpec(Struct, frozen=True, gc=False, kw_only=True, cache_hash=True):
    """The part of a pod's spec that affects scheduling. Equal specs are one object, the pod's scheduling class."""

    node_name: str | None = None
    """The node that a template or a manifest names, not the node where the pod runs (`Pod.node`)."""
    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    requests: Resources = NOTHING
    """The effective requests of `model.requests` (init and sidecar containers, overhead, pod level)."""
    scored: tuple[int, int] = (0, 0)
    """(CPU, memory) as LeastAllocated counts them for the pod that is being scheduled.

    Each container without requests counts 100m and 200Mi. `Pod.scored` is for the running pod: pod-level resources make
    a difference.
    """
    scored_sidecars_as_init: tuple[int, int] | None = None
    """(CPU, memory) of the running pod as versions before 1.32 count sidecars; None if there are none."""
    host_ports: tuple[HostPort, ...] = ()
    images: tuple[str, ...] = ()
    containers: int = 1
    priority: int = 0
    priority_class: str = ""
    preempts: bool = True
    scheduler: str = "default-scheduler"
    gated: bool = False
    unpredictable: tuple[str, ...] = ()
    """The fields whose effect is not modelled (gates, resource claims, inline volumes…)."""
    unread: str = ""
    """Why its constraints, affinity and tolerations are all left out, "" if they are read.

    They are left out if they are more or larger than is read.
    """
    pod_group: str = ""
    """The name of the PodGroup that its `schedulingGroup` names, "" without one."""
    eviction_responders: bool = False
    runtime_class: str = ""
    os: str = ""
    """Does not affect scheduling: the kubelet of a node of another system rejects the pod."""
    needs: tuple[NodeFeature, ...] = ()
    """Features that its node must have; they do not affect scheduling."""
    host_network: bool = False
    """A pod on its node's network needs no address of its own; this does not affect scheduling."""


class LocalStorage(StrEnum):
    """A kind of volume whose data is on the pod's node; named as its field in a pod's spec and in the policy."""

    EMPTY_DIR = "emptyDir"
    """A volume with `medium: Memory` is not included: it holds what a program would keep in memory."""
    EPHEMERAL = "ephemeral"
    """A generic ephemeral volume: its claim is deleted together with the pod."""
    HOST_PATH = "hostPath"


class LocalVolume(Struct, frozen=True, gc=False, order=True):
    """A volume of a pod whose data an eviction deletes or leaves behind."""

    name: str
    kind: LocalStorage


class Pod(Struct, frozen=True, gc=False, kw_only=True):
    """A pod as the API server returns it. `finished` means Succeeded or Failed."""

    namespace: str
    name: str
    uid: str
    labels: Labels = NO_LABELS
    annotations: Labels = NO_LABELS
    spec: PodSpec = PodSpec()
    node: str | None = None
    """None until it is bound."""
    nominated_node: str | None = None
    phase: PodPhase = PodPhase.PENDING
    ready: bool = False
    ready_since: datetime | None = None
    created: datetime
    deleted: datetime | None = None
    """Its deletionTimestamp: such a pod is terminating."""
    own_deletion_cost: int = 0
    """The cost that the rebalancer itself has written, 0 if none; it is not among `annotations`."""
    owner: OwnerReference | None = None
    claims: tuple[str, ...] = ()
    """The names of its PersistentVolumeClaims, with those that ephemeral volumes create."""
    drivers: tuple[str, ...] = ()
    """The CSI drivers of its inline volumes."""
    requests: Resources = NOTHING
    """The spec's requests, or more during an in-place resize."""
    scored: tuple[int, int] = (0, 0)
    resized: tuple[Resources, tuple[int, int]] | None = None
    """`requests` and `scored` as they count from 1.37 on, None if they do not differ."""
    mirror: bool = False
    local_volumes: tuple[LocalVolume, ...] = ()
    """Local volumes do not affect scheduling, so they are not part of `spec`."""
    evicted_at: datetime | None = None
    """When the Eviction API granted its eviction, by the condition DisruptionTarget; else None."""
    starting_since: datetime | None = None
    """Since when a pod that has never been Ready is on its node, as far as its status shows.

    None for every other pod.
    """
    unready_since: datetime | None = None
    """Since when the pod is not Ready, None while it is Ready or if not known."""
    started_at: datetime | None = None
    """When its kubelet took it on (`status.startTime`)."""
    preempted: bool = False
    """The scheduler has chosen the pod for deletion, to make room for a pod of higher priority."""
    start_failure: str = ""
    """Why a container of it does not run, as the kubelet says (`ImagePullBackOff`), or `NO_SANDBOX`.

    "" if nothing is wrong. For a pod that its kubelet refused to run, the reason (`UnexpectedAdmissionError`).
    """
    start_message: str = ""
    """What the kubelet says of the failure."""
    failed_image: str = ""
    """The image of the container that does not run, "" without."""
    restarts: int = 0
    """How often the containers of a pod that has never been Ready have been restarted."""
    bound_at: datetime | None = None
    """When it was bound to its node, None if its status does not say."""
    has_sandbox: bool | None = None
    """Whether its node has made a sandbox and network for it, None if its kubelet does not say."""
    unstarted_since: datetime | None = None
    """Since when a pod on a node has no sandbox; else None.

    For a pod that its kubelet refused to run: when that was.
    """
    grace_seconds: int = 30
    """Its terminationGracePeriodSeconds."""
    requested: PodRequests | None = None
    """What its spec requests, container by container, None if not known."""
    generation: int = 0
    """Counts the versions of its spec: 1 as created, more once it was changed, for example by a resize.

    0 if the API server does not count (before 1.34).
    """
    least: Resources | None = None
    """For a future pod: the smallest requests that it may come with.

    None if `spec.requests` is certain.
    """
    owning_pod: str = ""
    """The UID of the pod that is its only owner, "" without: the garbage collector deletes both together."""
    resource_version: str = ""

    @property
    def finished(self) -> bool:
        """Whether it has ended: the scheduler's cache does not hold such a pod."""
        # Identity, not equality: this is called for every pod, many times a cycle.
        return self.phase is PodPhase.SUCCEEDED or self.phase is PodPhase.FAILED

    @property
    def started(self) -> bool:
        """Whether its node has made a sandbox for it, now or earlier."""
        if self.phase is PodPhase.RUNNING:
            return self.has_sandbox is not False
        if self.phase is PodPhase.FAILED:  # the kubelet reports no sandbox of a pod that it rejected
            return self.has_sandbox is not None and self.unstarted_since is None
        return self.phase is PodPhase.SUCCEEDED or (self.phase is PodPhase.PENDING and self.has_sandbox is True)

    @property
    def revision(self) -> str:
        """The version of its owner's template, "" without a label that names it."""
        return next((self.labels[label] for label in REVISION_LABELS if label in self.labels), "")

    @property
    def terminating(self) -> bool:
        """Whether it is being deleted: spread does not count it, resources and affinity still do."""
        return self.deleted is not None

    @property
    def waiting(self) -> bool:
        """Whether the pod waits for a node."""
        return self.node is None and not self.finished and not self.terminating

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
