"""The snapshot: everything known about a cluster at one moment, and the indexes over it."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Final, Generic, Self, TypeVar

from rebalancer.model.budget_selection import BudgetSelection
from rebalancer.model.cluster import (
    NEWEST,
    Autoscaler,
    ConfigMap,
    DeviceClass,
    DisruptionBudget,
    Namespace,
    NodePool,
    PriorityClass,
    SchedulingGroup,
    Service,
    Version,
)
from rebalancer.model.creation import (
    BoundPolicy,
    ClusterQuota,
    EndpointSlice,
    EvictionBinding,
    EvictionPolicy,
    LimitRange,
    MutatingBinding,
    MutatingPolicy,
    PodWebhook,
    ResourceQuota,
    RuntimeClass,
    ServiceAccount,
    VerticalAutoscaler,
    WebhookConfiguration,
)
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod
from rebalancer.model.runs import Run, find_runs, join_pods
from rebalancer.model.storage import CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from rebalancer.model.tops import find_tops
from rebalancer.model.workloads import Workload

T = TypeVar("T")

TIMELESS: Final = datetime(1971, 1, 1, tzinfo=UTC)
"""The time of a snapshot that contains no time, so that objects without a time are old enough for every rule."""


OPTIONAL: Final = frozenset(
    {
        "NodePool",
        "HorizontalPodAutoscaler",
        "CSIDriver",
        "PodGroup",
        "DeviceClass",
        "ResourceQuota",
        "ClusterResourceQuota",
        "LimitRange",
        "RuntimeClass",
        "ServiceAccount",
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "EndpointSlice",
        "VerticalPodAutoscaler",
    }
)
"""Kinds that need not be known, because no assessment of where pods are depends on them."""


def get_known_time(moment: datetime) -> datetime | None:
    """Return when a snapshot was taken, None if it contains no time."""
    return moment if moment != TIMELESS else None


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An object that could not be read: the snapshot lacks it, and whatever it may affect is evaluated cautiously.

    `namespace` is "" for objects without one, `name` "" if even that could not be read.
    """

    kind: str
    namespace: str
    name: str
    message: str

    def __str__(self) -> str:
        """Describe the fault in one line."""
        where = "/".join(part for part in (self.namespace, self.name) if part) or "(unnamed)"
        return f"{self.kind} {where}: {self.message}"


class _Index(Generic[T]):
    """A property of a snapshot that is computed at its first use; the result is in the snapshot's `indexes`.

    `functools.cached_property` would hide results from other snapshots of the same objects.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, snapshot: "Snapshot", _: type) -> T:
        known = snapshot.indexes
        if self._name not in known:
            known[self._name] = self._compute(snapshot)
        index: T = known[self._name]
        return index


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A cluster at one moment. Immutable; every index is derived from the fields and built at its first use.

    `unknown` names the kinds that were not read at all: absent is not empty. `scope` names the namespaces whose
    workloads were read, None for all. Pods of other namespaces use capacity but are not assessed. The order of objects
    has no meaning, except that `nodes` are in the API server's order, by which the scheduler goes.
    """

    taken_at: datetime
    version: Version = NEWEST
    pods: Sequence[Pod] = ()
    nodes: Sequence[Node] = ()
    workloads: Sequence[Workload] = ()
    budgets: Sequence[DisruptionBudget] = ()
    namespaces: Sequence[Namespace] = ()
    services: Sequence[Service] = ()
    volumes: Sequence[PersistentVolume] = ()
    claims: Sequence[PersistentVolumeClaim] = ()
    storage_classes: Sequence[StorageClass] = ()
    csi_nodes: Sequence[CSINode] = ()
    priority_classes: Sequence[PriorityClass] = ()
    node_pools: Sequence[NodePool] = ()
    autoscalers: Sequence[Autoscaler] = ()
    csi_drivers: Sequence[CSIDriver] = ()
    device_classes: Sequence[DeviceClass] = ()
    pod_groups: Sequence[SchedulingGroup] = ()
    quotas: Sequence[ResourceQuota] = ()
    cluster_quotas: Sequence[ClusterQuota] = ()
    limit_ranges: Sequence[LimitRange] = ()
    runtime_classes: Sequence[RuntimeClass] = ()
    service_accounts: Sequence[ServiceAccount] = ()
    webhooks: Sequence[WebhookConfiguration] = ()
    validating_policies: Sequence[EvictionPolicy] = ()
    validating_bindings: Sequence[EvictionBinding] = ()
    mutating_policies: Sequence[MutatingPolicy] = ()
    mutating_bindings: Sequence[MutatingBinding] = ()
    endpoint_slices: Sequence[EndpointSlice] = ()
    vertical_autoscalers: Sequence[VerticalAutoscaler] = ()
    known: frozenset[str] = frozenset()
    """The optional kinds that were read. Objects of other kinds may exist even if they are not here."""
    team_maps: Sequence[ConfigMap] | None = None
    """The ConfigMaps of team policies, None if they were not read; then the policy in force already includes them."""
    unknown: frozenset[str] = frozenset()
    unread_owners: Mapping[str, str] = field(default_factory=dict)
    """Why foreign owners could not be read: all of a `Kind.group`, or a single owner (`name_owner`)."""
    scope: frozenset[str] | None = None
    faults: tuple[Fault, ...] = field(default=())
    indexes: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The indexes that were built already, by name; none of them depends on the time."""

    def at(self, moment: datetime) -> Self:
        """Return the same objects at another time, with the indexes that were built already."""
        later = replace(self, taken_at=moment)
        later.indexes.update(self.indexes)
        return later

    def holds_same(self, other: Self) -> bool:
        """Return whether two snapshots consist of identical objects, regardless of their times."""
        small = ("version", "unknown", "unread_owners", "known", "scope", "faults")
        if any(getattr(self, name) != getattr(other, name) for name in small):
            return False
        names = {known.name for known in fields(self) if known.compare} - {"taken_at", *small}
        return all(getattr(self, name) is getattr(other, name) for name in names)

    def covers(self, namespace: str) -> bool:
        """Return whether the workloads of a namespace were read."""
        return self.scope is None or namespace in self.scope

    @_Index
    def covered_pods(self) -> Sequence[Pod]:
        """Pods of the namespaces whose workloads were read."""
        return self.pods if self.scope is None else [pod for pod in self.pods if pod.namespace in self.scope]

    @_Index
    def node(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}

    @_Index
    def pod(self) -> Mapping[str, Pod]:
        """Pods by UID."""
        return {pod.uid: pod for pod in self.pods}

    @_Index
    def pods_on(self) -> Mapping[str, Sequence[Pod]]:
        """Pods by the node they are bound to, if that node exists; without finished pods, which use no resources."""
        by_node: dict[str, list[Pod]] = {node.name: [] for node in self.nodes}
        for pod in self.pods:
            if pod.node is not None and pod.node in by_node and not pod.finished:
                by_node[pod.node].append(pod)
        return by_node

    @_Index
    def pods_in(self) -> Mapping[str, Sequence[Pod]]:
        """Pods by namespace."""
        by_namespace: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in self.pods:
            by_namespace[pod.namespace].append(pod)
        return by_namespace

    @_Index
    def runs(self) -> Sequence[Run]:
        """Return the pods in their order, with consecutive equal pods joined."""
        return find_runs(self.pods)

    @_Index
    def runs_of(self) -> Mapping[str, Sequence[Run]]:
        """Return runs of pods by the UID of their controller."""
        by_owner: defaultdict[str, list[Run]] = defaultdict(list)
        for run in self.runs:
            owner = run.pods[0].owner
            if owner is not None:
                by_owner[owner.uid].append(run)
        return dict(by_owner)

    @_Index
    def pods_of(self) -> Mapping[str, Sequence[Pod]]:
        """Pods by the UID of their controller."""
        return {uid: join_pods(runs) for uid, runs in self.runs_of.items()}

    @_Index
    def unplaced(self) -> Sequence[Pod]:
        """Pods that wait for a node, in the snapshot's order."""
        return [pod for run in self.runs if len(run.nodes) < len(run.pods) for pod in run.pods if pod.waiting]

    @_Index
    def unstarted(self) -> Sequence[Pod]:
        """Pods for which their node has made no sandbox, and pods that their kubelet refused to run."""
        return [pod for pod in self.pods if pod.unstarted_since is not None]

    @_Index
    def queued(self) -> Sequence[Pod]:
        """Return the unplaced pods that the scheduler visits; pods with gates are in no queue."""
        return [pod for pod in self.unplaced if not pod.spec.gated]

    @_Index
    def workload(self) -> Mapping[str, Workload]:
        """Workloads by UID."""
        return {workload.uid: workload for workload in self.workloads}

    @_Index
    def workloads_in(self) -> Mapping[str, Sequence[Workload]]:
        """Workloads by namespace."""
        by_namespace: defaultdict[str, list[Workload]] = defaultdict(list)
        for workload in self.workloads:
            by_namespace[workload.namespace].append(workload)
        return by_namespace

    @_Index
    def owned_by(self) -> Mapping[str, Sequence[Workload]]:
        """Workloads by the UID of their controller: the ReplicaSets of a Deployment."""
        by_owner: defaultdict[str, list[Workload]] = defaultdict(list)
        for workload in self.workloads:
            if workload.owner is not None:
                by_owner[workload.owner.uid].append(workload)
        return by_owner

    @_Index
    def owned_by_pod(self) -> Mapping[str, Sequence[Workload | Pod]]:
        """Objects that the garbage collector deletes together with a pod, by its UID; mostly there are none."""
        by_pod: defaultdict[str, list[Workload | Pod]] = defaultdict(list)
        for workload in self.workloads:
            if workload.owning_pod:
                by_pod[workload.owning_pod].append(workload)
        for run in self.runs:
            owner = run.pods[0].owner
            if owner is None or owner.kind == "Pod":  # others have an owner that is not a pod
                for pod in run.pods:
                    if pod.owning_pod:
                        by_pod[pod.owning_pod].append(pod)
        return dict(by_pod)

    @_Index
    def autoscalers_of(self) -> Mapping[tuple[str, str, str], Sequence[Autoscaler]]:
        """HorizontalPodAutoscalers by namespace, kind and name of the workload that they scale."""
        by_target: defaultdict[tuple[str, str, str], list[Autoscaler]] = defaultdict(list)
        for autoscaler in self.autoscalers:
            by_target[autoscaler.namespace, autoscaler.target_kind, autoscaler.target_name].append(autoscaler)
        return dict(by_target)

    @_Index
    def budgets_in(self) -> Mapping[str, Sequence[DisruptionBudget]]:
        """Disruption budgets by namespace."""
        by_namespace: defaultdict[str, list[DisruptionBudget]] = defaultdict(list)
        for budget in self.budgets:
            by_namespace[budget.namespace].append(budget)
        return by_namespace

    @_Index
    def budget_selection(self) -> BudgetSelection:
        """Which budgets select which pods."""
        return BudgetSelection(self.pods_in, self.budgets_in)

    @_Index
    def namespace(self) -> Mapping[str, Namespace]:
        """Namespaces by name."""
        return {namespace.name: namespace for namespace in self.namespaces}

    @_Index
    def services_in(self) -> Mapping[str, Sequence[Service]]:
        """Services by namespace."""
        by_namespace: defaultdict[str, list[Service]] = defaultdict(list)
        for service in self.services:
            by_namespace[service.namespace].append(service)
        return by_namespace

    @_Index
    def quotas_in(self) -> Mapping[str, Sequence[ResourceQuota]]:
        """ResourceQuotas by namespace."""
        by_namespace: defaultdict[str, list[ResourceQuota]] = defaultdict(list)
        for quota in self.quotas:
            by_namespace[quota.namespace].append(quota)
        return by_namespace

    @_Index
    def service_account_names(self) -> Mapping[str, Collection[str]]:
        """Names of service accounts by namespace."""
        names: defaultdict[str, set[str]] = defaultdict(set)
        for account in self.service_accounts:
            names[account.namespace].add(account.name)
        return dict(names)

    @_Index
    def demanding_webhooks(self) -> Sequence[PodWebhook]:
        """Webhooks of a Service without whose answer no pod is created, or evicted; none with match conditions."""
        hooks = [hook for configuration in self.webhooks for hook in configuration.webhooks]
        return [hook for hook in hooks if hook.must_answer and hook.service is not None and not hook.is_conditional]

    @_Index
    def denying_policies(self) -> Sequence[tuple[EvictionPolicy, EvictionBinding]]:
        """Policies that deny evictions, with each of their bindings."""
        policies = {policy.name: policy for policy in self.validating_policies if policy.evictions is not None}
        return [
            (policies[binding.policy], binding)
            for binding in self.validating_bindings
            if binding.evictions is not None and binding.policy in policies
        ]

    @_Index
    def bound_policies(self) -> Sequence[BoundPolicy]:
        """Mutating policies that may change new pods, with each of their bindings; unbound policies have no effect."""
        policies = {policy.name: policy for policy in self.mutating_policies if policy.pods is not None}
        return [
            BoundPolicy(policies[binding.policy], binding)
            for binding in self.mutating_bindings
            if binding.pods is not None and binding.policy in policies
        ]

    @_Index
    def ready_endpoints(self) -> Mapping[tuple[str, str], int]:
        """Ready endpoints by (namespace, name) of their Service, for Services that have a slice."""
        ready: Counter[tuple[str, str]] = Counter()
        for endpoints in self.endpoint_slices:
            ready[endpoints.namespace, endpoints.service] += endpoints.ready
        return dict(ready)

    @_Index
    def limit_ranges_in(self) -> Mapping[str, Sequence[LimitRange]]:
        """LimitRanges by namespace."""
        by_namespace: defaultdict[str, list[LimitRange]] = defaultdict(list)
        for limits in self.limit_ranges:
            by_namespace[limits.namespace].append(limits)
        return by_namespace

    @_Index
    def runtime_class(self) -> Mapping[str, RuntimeClass]:
        """Runtime classes by name."""
        return {known.name: known for known in self.runtime_classes}

    @_Index
    def vertical_autoscalers_of(self) -> Mapping[tuple[str, str, str], Sequence[VerticalAutoscaler]]:
        """Vertical autoscalers by namespace, kind and name of the workload that they target."""
        by_target: defaultdict[tuple[str, str, str], list[VerticalAutoscaler]] = defaultdict(list)
        for scaler in self.vertical_autoscalers:
            by_target[scaler.namespace, scaler.target_kind, scaler.target_name].append(scaler)
        return by_target

    @_Index
    def claim(self) -> Mapping[tuple[str, str], PersistentVolumeClaim]:
        """Claims by (namespace, name)."""
        return {(claim.namespace, claim.name): claim for claim in self.claims}

    @_Index
    def users_of(self) -> Mapping[tuple[str, str], Sequence[Pod]]:
        """Return the pods on nodes that use a claim, by its (namespace, name); without finished pods."""
        users: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
        for pod in self.pods:
            for claim in pod.claims if pod.node is not None and not pod.finished else ():
                users[pod.namespace, claim].append(pod)
        return dict(users)

    @_Index
    def volume(self) -> Mapping[str, PersistentVolume]:
        """Volumes by name."""
        return {volume.name: volume for volume in self.volumes}

    @_Index
    def storage_class(self) -> Mapping[str, StorageClass]:
        """Storage classes by name."""
        return {storage_class.name: storage_class for storage_class in self.storage_classes}

    @_Index
    def csi_driver(self) -> Mapping[str, CSIDriver]:
        """CSI drivers by name."""
        return {driver.name: driver for driver in self.csi_drivers}

    @_Index
    def resources_of_devices(self) -> frozenset[str]:
        """Names of the extended resources that a class of devices provides."""
        return frozenset(one.extended_resource for one in self.device_classes if one.extended_resource)

    @_Index
    def attaching_nothing(self) -> Collection[str]:
        """Names of the CSI drivers that attach nothing; without a CSIDriver, Kubernetes attaches the volumes."""
        return {driver.name for driver in self.csi_drivers if not driver.attach_required}

    @_Index
    def pod_group(self) -> Mapping[tuple[str, str], SchedulingGroup]:
        """PodGroups by (namespace, name)."""
        return {(group.namespace, group.name): group for group in self.pod_groups}

    @_Index
    def csi_node(self) -> Mapping[str, CSINode]:
        """CSI facts by node name."""
        return {csi_node.name: csi_node for csi_node in self.csi_nodes}

    @_Index
    def tops(self) -> Mapping[str, Workload]:
        """Workloads above ReplicaSets, by the ReplicaSets' UIDs."""
        return find_tops(self.workloads, self.workload)

    def owner_of(self, pod: Pod) -> Workload | None:
        """Return the pod's controller, or None if it has none or the controller is not known."""
        return self.workload.get(pod.owner.uid) if pod.owner is not None else None

    def top_of(self, owner: Workload) -> Workload:
        """Return the workload that an owner's pods belong to: what is above a ReplicaSet, or the owner itself."""
        return self.tops.get(owner.uid, owner)

    def top_owner_of(self, pod: Pod) -> Workload | None:
        """Return the workload that a pod belongs to, None if its controller is not known."""
        owner = self.owner_of(pod)
        return self.tops.get(owner.uid, owner) if owner is not None else None

    def creates_no_pods(self, owner: Workload) -> bool:
        """Return whether the pods of a workload are made by owners below it."""
        return owner.kind == "Deployment" or (owner.is_foreign and bool(self.owned_by.get(owner.uid)))
