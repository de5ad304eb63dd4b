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
"""With which owners mark the pods of one version of their template."""

NO_SANDBOX = "PodReadyToStartContainers is False"
"""Of a pod that is bound: its node has made no sandbox and network for it. So it is for some seconds in every start."""


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
    """A port taken on the node; `ip` is 0.0.0.0 where the pod names none."""

    ip: str
    protocol: str
    port: int


class NodeFeature(StrEnum):
    """A feature of a node, or of its runtime, that a pod may need to start; named as in a node's status."""

    USER_NAMESPACES = "userNamespaces"
    SUPPLEMENTAL_GROUPS_POLICY = "supplementalGroupsPolicy"


class PodSpec(Struct, frozen=True, gc=False, kw_only=True, cache_hash=True):
    """The part of a pod's spec that affects scheduling. Equal specs are one object: it is the pod's scheduling class.

    `requests` are the effective ones of `model.requests` (init and sidecar containers, overhead, pod level); `scored`
    is (CPU, memory) as LeastAllocated counts them, with 100m and 200Mi for each container without requests: here for
    the pod that is being scheduled, in `Pod.scored` for the running pod (pod-level resources make a difference), in
    `scored_sidecars_as_init` for the running pod as versions before 1.32 count sidecars; None if there are none.
    `unpredictable` names the fields whose effect is not modelled (gates, resource claims, inline volumes…).
    `unread` says why none of its constraints, affinity and tolerations is here, "" where all are: they are more or
    larger than is read.
    `pod_group` is the name of the PodGroup that its `schedulingGroup` names, "" without.
    `os` does not affect it either: the kubelet of a node of another system rejects the pod; nor do `needs`, features
    that its node must have, and `host_network`, with which a pod needs no address of its own.
    `node_name` is the node that a template or a manifest names, not the node where the pod runs (`Pod.node`).
    """

    node_name: str | None = None
    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    requests: Resources = NOTHING
    scored: tuple[int, int] = (0, 0)
    scored_sidecars_as_init: tuple[int, int] | None = None
    host_ports: tuple[HostPort, ...] = ()
    images: tuple[str, ...] = ()
    containers: int = 1
    priority: int = 0
    priority_class: str = ""
    preempts: bool = True
    scheduler: str = "default-scheduler"
    gated: bool = False
    unpredictable: tuple[str, ...] = ()
    unread: str = ""
    pod_group: str = ""
    eviction_responders: bool = False
    runtime_class: str = ""
    os: str = ""
    needs: tuple[NodeFeature, ...] = ()
    host_network: bool = False


class LocalStorage(StrEnum):
    """A kind of volume whose data is on the pod's node; named as its field in a pod's spec and in the policy."""

    EMPTY_DIR = "emptyDir"
    """One with `medium: Memory` is not among them: it holds what a program would keep in memory."""
    EPHEMERAL = "ephemeral"
    """A generic ephemeral volume: its claim is deleted together with the pod."""
    HOST_PATH = "hostPath"


class LocalVolume(Struct, frozen=True, gc=False, order=True):
    """A volume of a pod whose data an eviction deletes or leaves behind."""

    name: str
    kind: LocalStorage


class Pod(Struct, frozen=True, gc=False, kw_only=True):
    """A pod as the API server returns it.

    `node` is None until it is bound. `claims` are the names of its PersistentVolumeClaims, with those that ephemeral
    volumes create; `drivers` are the CSI drivers of volumes that it has inline.
    `requests` are the spec's, or more during an in-place resize (`resized` are they and
    `scored` as they count from 1.37 on, None where that is the same). `local_volumes` do not affect
    scheduling, so they are no part of the spec. `deleted` is its deletionTimestamp: such a pod is terminating.
    `own_deletion_cost` is the cost that the rebalancer itself has written, 0 if none; it is not among `annotations`.
    `finished` means Succeeded or Failed. `start_failure` is why a container of it does not run, as the kubelet says it
    (`ImagePullBackOff`), or `NO_SANDBOX`; "" where nothing is wrong. `start_message` is what the kubelet says of that,
    `failed_image` the image of that container, "" without. `restarts` is how often the containers of a pod have been
    restarted that has never been Ready. `grace_seconds` is its terminationGracePeriodSeconds.
    `bound_at` is when it got its node, None where its status does not say so.
    `has_sandbox` is whether its node has made a sandbox and network for it, None where its kubelet does not say.
    `unstarted_since` is since when it has none, of a pod on a node; of one that its kubelet refused to run when that
    was, and `start_failure` is the reason then (`UnexpectedAdmissionError`); else None. `requested` is what its spec
    requests, container by container, None where that is not known. `generation` counts the versions of its spec: 1 as
    it was created, more once it was changed, by a resize say, 0 of an API server that does not count (before 1.34).
    `least` is of a pod that has still to be made: the smallest requests that it may come with, None where
    `spec.requests` is what it will have. `owning_pod` is the UID of the pod that is its only owner, "" without: the
    garbage collector deletes both together. `evicted_at` is when the Eviction API granted its eviction, as
    the condition DisruptionTarget says; else None. `starting_since` is since when a pod is on its node that has never
    been Ready, as far as its status shows; None of every other. `unready_since` is since when it is not Ready, None
    while it is, and where that is not known. `started_at` is when its kubelet took it on (`status.startTime`).
    `preempted`: the scheduler has chosen it to make room for a pod of higher priority.
    """

    namespace: str
    name: str
    uid: str
    labels: Labels = NO_LABELS
    annotations: Labels = NO_LABELS
    spec: PodSpec = PodSpec()
    node: str | None = None
    nominated_node: str | None = None
    phase: PodPhase = PodPhase.PENDING
    ready: bool = False
    ready_since: datetime | None = None
    created: datetime
    deleted: datetime | None = None
    own_deletion_cost: int = 0
    owner: OwnerReference | None = None
    claims: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    requests: Resources = NOTHING
    scored: tuple[int, int] = (0, 0)
    resized: tuple[Resources, tuple[int, int]] | None = None
    mirror: bool = False
    local_volumes: tuple[LocalVolume, ...] = ()
    evicted_at: datetime | None = None
    starting_since: datetime | None = None
    unready_since: datetime | None = None
    started_at: datetime | None = None
    preempted: bool = False
    start_failure: str = ""
    start_message: str = ""
    failed_image: str = ""
    restarts: int = 0
    bound_at: datetime | None = None
    has_sandbox: bool | None = None
    unstarted_since: datetime | None = None
    grace_seconds: int = 30
    requested: PodRequests | None = None
    generation: int = 0
    least: Resources | None = None
    owning_pod: str = ""
    resource_version: str = ""

    @property
    def finished(self) -> bool:
        """Whether it has ended: the scheduler's cache does not hold such a pod."""
        # Identity, not equality: this is called for every pod, many times a cycle.
        return self.phase is PodPhase.SUCCEEDED or self.phase is PodPhase.FAILED

    @property
    def started(self) -> bool:
        """Whether its node has made a sandbox for it, which it has or had as long as it ran."""
        if self.phase is PodPhase.RUNNING:
            return self.has_sandbox is not False
        if self.phase is PodPhase.FAILED:  # its kubelet says nothing of the sandbox of one that it rejected
            return self.has_sandbox is not None and self.unstarted_since is None
        return self.phase is PodPhase.SUCCEEDED or (self.phase is PodPhase.PENDING and self.has_sandbox is True)

    @property
    def revision(self) -> str:
        """The version of its owner's template, "" where it has no label that names one."""
        return next((self.labels[label] for label in REVISION_LABELS if label in self.labels), "")

    @property
    def terminating(self) -> bool:
        """Whether it is being deleted: spread does not count it, resources and affinity still do."""
        return self.deleted is not None

    @property
    def waiting(self) -> bool:
        """Whether it waits for a node."""
        return self.node is None and not self.finished and not self.terminating

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
