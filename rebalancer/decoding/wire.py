"""The fields that are read, as Kubernetes writes them: camelCase, null for an empty list, unknown fields skipped.

This module has only shapes. They differ from the model's, except for a toleration: the name of each object is below its
metadata, and lists may be null. Wrong types are refused by msgspec with the path of the field, wrong values by the
modules that build the model.
"""

from datetime import datetime
from typing import Annotated, Generic, TypeVar

from msgspec import Meta, Raw, Struct, field

from rebalancer.model.affinity import Toleration

Moment = Annotated[datetime, Meta(tz=True)]
"""A point in time with a time zone; without one, it could not be compared with other times."""

Item = TypeVar("Item")

Quantity = str | int | float
IntOrString = int | str

_NULL = Raw(b"null")


class Wire(Struct, frozen=True, gc=False, rename="camel", kw_only=True, omit_defaults=True):
    """Base of all: immutable, outside the garbage collector, camelCase; defaults are not written."""


class Head(Wire, frozen=True):
    """The fields that identify an object's kind."""

    kind: str = ""
    api_version: str = ""


class ListMetadata(Wire, frozen=True):
    resource_version: str = ""
    annotations: dict[str, str] | None = None
    continue_: str = field(default="", name="continue")
    remaining_item_count: int | None = None


class ListOf(Wire, Generic[Item], frozen=True):
    """A list, or a page of it."""

    items: list[Item]
    metadata: ListMetadata = ListMetadata()
    kind: str = ""
    api_version: str = ""


class OwnerReference(Wire, frozen=True):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class MetadataWithoutOwners(Wire, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: Moment | None = None
    deletion_timestamp: Moment | None = None


class Metadata(MetadataWithoutOwners, frozen=True):
    generation: int = 1
    owner_references: list[OwnerReference] | None = None


class BareMetadata(Wire, frozen=True):
    """The metadata of objects whose labels, annotations and owners are not read."""

    name: str
    namespace: str = ""


class ManagedFields(Wire, frozen=True):
    """When an object or a subresource was last changed; not by whom, nor what."""

    time: Moment | None = None
    subresource: str = ""


class NamespaceMetadata(Metadata, frozen=True):
    managed_fields: list[ManagedFields] | None = None


class TemplateMetadata(Wire, frozen=True):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Identity(Wire, frozen=True):
    """Only the identity of an object, to report it when it cannot be read, and to recognize duplicates."""

    class Names(Wire, frozen=True):
        name: object = ""
        namespace: object = ""
        uid: object = ""
        resource_version: object = ""

    metadata: Names = Names()


class Expression(Wire, frozen=True):
    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(Wire, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Expression] | None = None


class NodeSelectorTerm(Wire, frozen=True):
    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeSelector(Wire, frozen=True):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredNodeTerm(Wire, frozen=True):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Wire, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredNodeTerm] | None = None


class PodAffinityTerm(Wire, frozen=True):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodTerm(Wire, frozen=True):
    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Wire, frozen=True):
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodTerm] | None = None


class Affinity(Wire, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Spread(Wire, frozen=True):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class Amounts(Wire, frozen=True):
    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class Port(Wire, frozen=True):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class RestartRule(Wire, frozen=True):
    action: str = ""


class Container(Wire, frozen=True):
    name: str = ""
    image: str = ""
    ports: list[Port] | None = None
    resources: Amounts | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] | None = None


class ClaimSource(Wire, frozen=True):
    claim_name: str


class Present(Wire, frozen=True):
    """An object whose content is not read, only its presence."""


class EmptyDir(Wire, frozen=True):
    medium: str = ""


class InlineCSI(Wire, frozen=True):
    driver: str = ""


class Volume(Wire, frozen=True):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None
    empty_dir: EmptyDir | None = None
    host_path: Present | None = None
    gce_persistent_disk: Present | None = None
    aws_elastic_block_store: Present | None = None
    azure_disk: Present | None = None
    iscsi: Present | None = None
    rbd: Present | None = None
    csi: InlineCSI | None = None

    @property
    def has_inline_disk(self) -> bool:
        """Whether its source is a disk that the pod names itself; spelled out, since it is read of every volume."""
        return (
            self.gce_persistent_disk is not None
            or self.aws_elastic_block_store is not None
            or self.azure_disk is not None
            or self.iscsi is not None
            or self.rbd is not None
        )


class OperatingSystem(Wire, frozen=True):
    name: str = ""


class SchedulingGroup(Wire, frozen=True):
    pod_group_name: str = ""


class GroupsPolicy(Wire, frozen=True):
    """The part of a pod's security context that a node must know."""

    supplemental_groups_policy: str = ""


class PodSpec(Wire, frozen=True):
    node_name: str = ""
    termination_grace_period_seconds: int | None = None
    scheduler_name: str = "default-scheduler"
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[Spread] | None = None
    containers: list[Container] = []
    init_containers: list[Container] | None = None
    overhead: dict[str, Quantity] | None = None
    resources: Amounts | None = None
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    volumes: list[Volume] | None = None
    scheduling_gates: list[Present] | None = None
    resource_claims: list[Present] | None = None
    workload_ref: Present | None = None
    scheduling_group: SchedulingGroup | None = None
    eviction_responders: list[Present] | None = None
    runtime_class_name: str = ""
    host_network: bool = False
    host_users: bool | None = None
    security_context: GroupsPolicy | None = None
    os: OperatingSystem | None = None


class Condition(Wire, frozen=True):
    type: str
    status: str
    reason: str | None = None
    last_transition_time: Moment | None = None


class Waiting(Wire, frozen=True):
    reason: str = ""


class ContainerState(Wire, frozen=True):
    """Of a container's state only why it waits is read."""

    waiting: Waiting | None = None


class ContainerStatus(Wire, frozen=True):
    name: str
    restart_count: int = 0
    state: ContainerState | None = None
    allocated_resources: dict[str, Quantity] | None = None
    resources: Amounts | None = None


class PodStatus(Wire, frozen=True):
    phase: str = "Pending"
    reason: str = ""
    start_time: Moment | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    allocated_resources: dict[str, Quantity] | None = None
    resources: Amounts | None = None
    nominated_node_name: str = ""


class PodMetadata(Metadata, frozen=True):
    generation: int = 0
    """0 for API servers that do not count the versions of a pod's spec."""


class Pod(Wire, frozen=True):
    metadata: PodMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class RawContainer(Wire, frozen=True):
    name: str = ""
    image: str = ""
    ports: Raw = _NULL
    resources: Raw = _NULL
    restart_policy: str | None = None
    restart_policy_rules: Raw = _NULL


class RawWaiting(Waiting, frozen=True):
    """Adds the message, which may have private names and so is not in reduced objects."""

    message: str | None = None


class RawContainerState(Wire, frozen=True):
    waiting: RawWaiting | None = None


class RawContainerStatus(Struct, gc=False, rename="camel", kw_only=True, omit_defaults=True):
    """A container status, in which `decode_pod` leaves only the parts that all pods of an owner share."""

    name: str
    restart_count: int = 0
    state: RawContainerState | None = None
    allocated_resources: Raw = _NULL
    resources: Raw = _NULL


class RawPodSpec(Struct, gc=False, rename="camel", kw_only=True, omit_defaults=True):
    """A pod's spec whose parts common to all pods of an owner are left undecoded; see `decode_pod`."""

    node_name: str = ""
    termination_grace_period_seconds: int | None = None
    scheduler_name: str = "default-scheduler"
    node_selector: Raw = _NULL
    affinity: Raw = _NULL
    tolerations: Raw = _NULL
    topology_spread_constraints: Raw = _NULL
    containers: list[RawContainer] = []
    init_containers: list[RawContainer] | None = None
    overhead: Raw = _NULL
    resources: Raw = _NULL
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    volumes: list[Volume] | None = None
    scheduling_gates: Raw = _NULL
    resource_claims: Raw = _NULL
    workload_ref: Raw = _NULL
    scheduling_group: Raw = _NULL
    eviction_responders: Raw = _NULL
    runtime_class_name: str = ""
    host_network: bool = False
    host_users: bool | None = None
    security_context: Raw = _NULL
    os: Raw = _NULL


class RawMetadata(MetadataWithoutOwners, frozen=True):
    owner_references: Raw = _NULL
    generation: int = 0


class RawPodStatus(Wire, frozen=True):
    phase: str = "Pending"
    reason: str = ""
    start_time: Moment | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[RawContainerStatus] | None = None
    init_container_statuses: list[RawContainerStatus] | None = None
    allocated_resources: Raw = _NULL
    resources: Raw = _NULL
    nominated_node_name: str = ""


class RawPod(Wire, frozen=True):
    metadata: RawMetadata
    spec: RawPodSpec = field(default_factory=RawPodSpec)
    status: RawPodStatus = RawPodStatus()


class Profile(Wire, frozen=True):
    """A seccomp or AppArmor profile."""

    type: str = ""


class SELinuxOptions(Wire, frozen=True):
    type: str = ""
    user: str = ""
    role: str = ""


class Capabilities(Wire, frozen=True):
    add: list[str] | None = None
    drop: list[str] | None = None


class WindowsOptions(Wire, frozen=True):
    host_process: bool | None = None


class Sysctl(Wire, frozen=True):
    name: str = ""


class SecurityContext(GroupsPolicy, frozen=True):
    """The security context of a container or a pod; each has some of the fields."""

    privileged: bool | None = None
    allow_privilege_escalation: bool | None = None
    capabilities: Capabilities | None = None
    proc_mount: str | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    seccomp_profile: Profile | None = None
    app_armor_profile: Profile | None = None
    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsOptions | None = None
    sysctls: list[Sysctl] | None = None


class Host(Wire, frozen=True):
    host: str = ""


class Handler(Wire, frozen=True):
    """A probe or a lifecycle handler: of it only which host it calls is read."""

    http_get: Host | None = None
    tcp_socket: Host | None = None


class Lifecycle(Wire, frozen=True):
    post_start: Handler | None = None
    pre_stop: Handler | None = None


class TemplateContainer(Container, frozen=True):
    security_context: SecurityContext | None = None
    liveness_probe: Handler | None = None
    readiness_probe: Handler | None = None
    startup_probe: Handler | None = None
    lifecycle: Lifecycle | None = None


class TemplateVolume(Volume, frozen=True):
    """A volume with the sources that Pod Security allows."""

    config_map: Present | None = None
    downward_api: Present | None = field(default=None, name="downwardAPI")
    image: Present | None = None
    projected: Present | None = None
    secret: Present | None = None


class TemplateSpec(PodSpec, frozen=True):
    """The spec of a pod template, with the fields that Pod Security checks."""

    containers: list[TemplateContainer] = []  # type: ignore[assignment]  # read only
    init_containers: list[TemplateContainer] | None = None  # type: ignore[assignment]
    volumes: list[TemplateVolume] | None = None  # type: ignore[assignment]
    service_account_name: str = ""
    security_context: SecurityContext | None = None
    host_pid: bool = field(default=False, name="hostPID")
    host_ipc: bool = field(default=False, name="hostIPC")


class PodTemplate(Wire, frozen=True):
    metadata: TemplateMetadata | None = None
    spec: TemplateSpec = TemplateSpec()


class Taint(Wire, frozen=True):
    key: str
    effect: str
    value: str = ""
    time_added: Moment | None = None


class NodeSpec(Wire, frozen=True):
    unschedulable: bool = False
    taints: list[Taint] | None = None


class Image(Wire, frozen=True):
    names: list[str] | None = None
    size_bytes: int = 0


class HandlerFeatures(Wire, frozen=True):
    user_namespaces: bool | None = None


class RuntimeHandler(Wire, frozen=True):
    name: str = ""
    features: HandlerFeatures | None = None


class NodeFeatures(Wire, frozen=True):
    supplemental_groups_policy: bool | None = None


class NodeStatus(Wire, frozen=True):
    allocatable: dict[str, Quantity] | None = None
    conditions: list[Condition] | None = None
    images: list[Image] | None = None
    runtime_handlers: list[RuntimeHandler] | None = None
    features: NodeFeatures | None = None


class OwnedNodeSpec(Wire, frozen=True):
    unschedulable: dict[str, Raw] | None = field(default=None, name="f:unschedulable")


class OwnedNodeMetadata(Wire, frozen=True):
    labels: dict[str, Raw] | None = field(default=None, name="f:labels")


class OwnedNodeFields(Wire, frozen=True):
    metadata: OwnedNodeMetadata = field(default=OwnedNodeMetadata(), name="f:metadata")
    spec: OwnedNodeSpec = field(default=OwnedNodeSpec(), name="f:spec")


class NodeFieldManager(Wire, frozen=True):
    """Which manager owns labels and `spec.unschedulable` of a node, and when it last changed them."""

    manager: str = ""
    time: Moment | None = None
    fields_v1: OwnedNodeFields = OwnedNodeFields()


class NodeMetadata(Metadata, frozen=True):
    managed_fields: list[NodeFieldManager] | None = None


class Node(Wire, frozen=True):
    metadata: NodeMetadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class UpdateStrategy(Wire, frozen=True):
    """How a StatefulSet updates its pods."""

    type: str = ""
    rolling_update: "RollingUpdate | None" = None


class RollingUpdate(Wire, frozen=True):
    """Which pods of a StatefulSet a rollout leaves alone.

    A Deployment's `rollingUpdate` is below `strategy`, not `updateStrategy`.
    """

    partition: int | None = None


class Ordinals(Wire, frozen=True):
    """Which numbers the pods of a StatefulSet have."""

    start: int = 0


class OwnerSpec(Wire, frozen=True):
    """Spec of a Deployment, ReplicaSet, StatefulSet."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplate | None = None
    paused: bool = False
    update_strategy: UpdateStrategy | None = None
    pod_management_policy: str = ""
    min_ready_seconds: int = 0
    progress_deadline_seconds: int | None = None
    ordinals: Ordinals | None = None
    volume_claim_templates: list["ClaimTemplate"] | None = None


class ClaimTemplate(Wire, frozen=True):
    metadata: Metadata


class OwnerStatus(Wire, frozen=True):
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    observed_generation: int = 0
    current_revision: str = ""
    update_revision: str = ""


class Owner(Wire, frozen=True):
    metadata: Metadata
    spec: OwnerSpec = OwnerSpec()
    status: OwnerStatus = OwnerStatus()


class CreatorCondition(Wire, frozen=True):
    """A condition whose message is read: why no pod can be created."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class CreatorStatus(OwnerStatus, frozen=True):
    """Status of a ReplicaSet or ReplicationController; of other owners no condition is read."""

    conditions: list[CreatorCondition] | None = None


class ReplicaSet(Owner, frozen=True):
    status: CreatorStatus = CreatorStatus()


class ForeignSpec(Wire, frozen=True):
    """Spec of an owner of another group's kind. A field that is missing, or has another shape, is None."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplate | None = None
    paused: bool = False
    pod_management_policy: str = ""
    progress_deadline_seconds: int | None = None


class ForeignStatus(Wire, frozen=True):
    replicas: int | None = None
    ready_replicas: int | None = None
    updated_replicas: int | None = None
    observed_generation: int | None = None


class ForeignOwner(Wire, frozen=True):
    metadata: Metadata
    spec: ForeignSpec = ForeignSpec()
    status: ForeignStatus = ForeignStatus()


class ControllerSpec(Wire, frozen=True):
    """Spec of a ReplicationController: its selector is a plain map."""

    replicas: int | None = None
    selector: dict[str, str] | None = None
    template: PodTemplate | None = None
    min_ready_seconds: int = 0


class ReplicationController(Wire, frozen=True):
    metadata: Metadata
    spec: ControllerSpec = ControllerSpec()
    status: CreatorStatus = CreatorStatus()


class BudgetSpec(Wire, frozen=True):
    selector: LabelSelector | None = None
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetCondition(Condition, frozen=True):
    message: str | None = None


class BudgetStatus(Wire, frozen=True):
    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, Moment] | None = None
    conditions: list[BudgetCondition] | None = None


class DisruptionBudget(Wire, frozen=True):
    metadata: Metadata
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class Namespace(Wire, frozen=True):
    metadata: NamespaceMetadata


class ServiceSpec(Wire, frozen=True):
    selector: dict[str, str] | None = None


class Service(Wire, frozen=True):
    metadata: Metadata
    spec: ServiceSpec = ServiceSpec()


class PriorityClass(Wire, frozen=True):
    metadata: Metadata
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class VolumeNodeAffinity(Wire, frozen=True):
    required: NodeSelector | None = None


class ObjectReference(Wire, frozen=True):
    namespace: str = ""
    name: str = ""


class CSISource(Wire, frozen=True):
    driver: str
    volume_handle: str = ""


class VolumeSpec(Wire, frozen=True):
    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str = ""
    claim_ref: ObjectReference | None = None
    capacity: dict[str, Quantity] | None = None
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    host_path: Present | None = None
    local: Present | None = None
    csi: CSISource | None = None
    aws_elastic_block_store: Present | None = None
    azure_disk: Present | None = None
    cinder: Present | None = None
    fc: Present | None = None
    gce_persistent_disk: Present | None = None
    iscsi: Present | None = None
    portworx_volume: Present | None = None
    rbd: Present | None = None
    vsphere_volume: Present | None = None

    @property
    def is_attached(self) -> bool:
        """Whether its driver, built in or not, may have it attached to a node before it is mounted there."""
        sources = (
            *(self.csi, self.aws_elastic_block_store, self.azure_disk, self.cinder, self.fc),
            *(self.gce_persistent_disk, self.iscsi, self.portworx_volume, self.rbd, self.vsphere_volume),
        )
        return any(source is not None for source in sources)


class VolumeStatus(Wire, frozen=True):
    phase: str = ""


class PersistentVolume(Wire, frozen=True):
    metadata: Metadata
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class ClaimSpec(Wire, frozen=True):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    resources: Amounts | None = None
    volume_mode: str | None = None
    selector: LabelSelector | None = None


class ClaimStatus(Wire, frozen=True):
    phase: str = ""


class PersistentVolumeClaim(Wire, frozen=True):
    metadata: Metadata
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus | None = None


class TopologyExpression(Wire, frozen=True):
    key: str
    values: list[str]


class TopologyTerm(Wire, frozen=True):
    match_label_expressions: list[TopologyExpression] | None = None


class StorageClass(Wire, frozen=True):
    metadata: Metadata
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologyTerm] | None = None


class Allocatable(Wire, frozen=True):
    count: int | None = None


class CSIDriverSpec(Wire, frozen=True):
    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Wire, frozen=True):
    metadata: BareMetadata
    spec: CSIDriverSpec = CSIDriverSpec()


class DisruptionMode(Wire, frozen=True):
    all: Present | None = None


class PodGroupSpec(Wire, frozen=True):
    disruption_mode: DisruptionMode | None = None


class PodGroup(Wire, frozen=True):
    metadata: BareMetadata
    spec: PodGroupSpec = PodGroupSpec()


class DeviceClassSpec(Wire, frozen=True):
    extended_resource_name: str = ""


class DeviceClass(Wire, frozen=True):
    metadata: BareMetadata
    spec: DeviceClassSpec = DeviceClassSpec()


class NodeDriver(Wire, frozen=True):
    name: str
    allocatable: Allocatable | None = None
    topology_keys: list[str] | None = None


class CSINodeSpec(Wire, frozen=True):
    drivers: list[NodeDriver] | None = None


class CSINode(Wire, frozen=True):
    metadata: Metadata
    spec: CSINodeSpec = CSINodeSpec()


class NodeClaimSpec(Wire, frozen=True):
    requirements: list[Expression] | None = None
    taints: list[Taint] | None = None


class NodeClaimTemplate(Wire, frozen=True):
    metadata: TemplateMetadata | None = None
    spec: NodeClaimSpec = NodeClaimSpec()


class NodePoolSpec(Wire, frozen=True):
    template: NodeClaimTemplate = NodeClaimTemplate()


class NodePool(Wire, frozen=True):
    metadata: Metadata
    spec: NodePoolSpec = NodePoolSpec()


class ScaleTarget(Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class AutoscalerSpec(Wire, frozen=True):
    scale_target_ref: ScaleTarget = ScaleTarget()
    min_replicas: int = 1
    max_replicas: int | None = None


class Autoscaler(Wire, frozen=True):
    metadata: Metadata
    spec: AutoscalerSpec = AutoscalerSpec()
