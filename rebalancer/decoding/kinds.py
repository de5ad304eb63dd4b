"""The kinds that are read: name, API path, decoder, and field of the snapshot."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import msgspec

from rebalancer.decoding import cluster, creation, creation_wire, pods, wire, workloads
from rebalancer.decoding.foreign_owners import OwnerReader, Scale, decode_foreign_owner
from rebalancer.decoding.interning import Interner
from rebalancer.model.workloads import name_kind


class Decoder(Protocol):
    """Decodes an object; for most kinds, msgspec's decoder."""

    def decode(self, data: bytes | msgspec.Raw, /) -> Any:
        """Return an object in its shape; raise msgspec.ValidationError if the shape differs."""


@dataclass(frozen=True, kw_only=True)
class ResourceKind:
    """A kind of object."""

    name: str
    group: str
    version: str
    plural: str
    """The resource's name, also in RBAC rules and metrics."""
    namespaced: bool
    field: str
    """The field of the snapshot."""
    decoder: Decoder
    """Decodes the whole shape."""
    sources: Decoder
    """Decodes the argument of `convert`."""
    parts: Decoder | None
    """Decodes a list of arguments of `convert`; None where objects can only be decoded one by one."""
    convert: Callable[[Any, Interner], Any]

    @property
    def path(self) -> str:
        """The API path of the list of all objects."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/{self.plural}"

    def path_in(self, namespace: str) -> str:
        """Return the API path of the list of objects in a namespace."""
        return f"{self.path.removesuffix(self.plural)}namespaces/{namespace}/{self.plural}"

    @property
    def owner_name(self) -> str:
        """The kind of its objects as workloads."""
        return name_kind(self.name, self.group)

    @property
    def qualified_name(self) -> str:
        """The name with the group, for two kinds of the same name with objects of the same name."""
        return f"{self.name}.{self.group}"

    @property
    def api_version(self) -> str:
        """The `apiVersion` of such objects."""
        return f"{self.group}/{self.version}" if self.group else self.version


def make_kind(
    shape: type[wire.Wire],
    convert: Callable[[Any, Interner], Any],
    path: str,
    field: str,
    *,
    name: str = "",
    namespaced: bool = True,
    source: type[wire.Wire] | None = None,
) -> ResourceKind:
    """Make a kind; `path` is group, version and plural, `name` its name if it differs from the shape's.

    `source` is the argument of `convert`, if that is not the whole shape.
    """
    source = source or shape
    group_version, _, plural = path.rpartition("/")
    group, _, version = group_version.rpartition("/")
    return ResourceKind(
        name=name or shape.__name__,
        group=group,
        version=version,
        plural=plural,
        namespaced=namespaced,
        field=field,
        decoder=msgspec.json.Decoder(shape),
        sources=msgspec.json.Decoder(source),
        parts=msgspec.json.Decoder(list[source]),  # type: ignore[valid-type]  # a type that is a value
        convert=convert,
    )


def make_owner_kind(name: str, group: str, version: str, plural: str, *, scale: Scale | None = None) -> ResourceKind:
    """Make the kind of a foreign owner; without a `scale` its replicas are at the usual path."""
    reader = OwnerReader(scale or Scale())
    return ResourceKind(
        name=name,
        group=group,
        version=version,
        plural=plural,
        namespaced=True,
        field="workloads",
        decoder=reader,
        sources=reader,
        parts=None,
        convert=partial(decode_foreign_owner, kind=name, group=group),
    )


PODS = make_kind(wire.Pod, pods.decode_pod, "v1/pods", "pods", source=wire.RawPod)
NODES = make_kind(wire.Node, cluster.decode_node, "v1/nodes", "nodes", namespaced=False)
BUDGETS = make_kind(
    wire.DisruptionBudget,
    cluster.decode_budget,
    "policy/v1/poddisruptionbudgets",
    "budgets",
    name="PodDisruptionBudget",
)
KINDS: tuple[ResourceKind, ...] = (
    PODS,
    NODES,
    BUDGETS,
    make_kind(wire.Owner, workloads.decode_deployment, "apps/v1/deployments", "workloads", name="Deployment"),
    make_kind(wire.ReplicaSet, workloads.decode_replica_set, "apps/v1/replicasets", "workloads"),
    make_kind(wire.Owner, workloads.decode_stateful_set, "apps/v1/statefulsets", "workloads", name="StatefulSet"),
    make_kind(
        wire.ReplicationController, workloads.decode_replication_controller, "v1/replicationcontrollers", "workloads"
    ),
    make_kind(wire.Namespace, cluster.decode_namespace, "v1/namespaces", "namespaces", namespaced=False),
    make_kind(wire.Service, cluster.decode_service, "v1/services", "services"),
    make_kind(wire.PersistentVolume, cluster.decode_volume, "v1/persistentvolumes", "volumes", namespaced=False),
    make_kind(wire.PersistentVolumeClaim, cluster.decode_claim, "v1/persistentvolumeclaims", "claims"),
    make_kind(
        wire.StorageClass,
        cluster.decode_storage_class,
        "storage.k8s.io/v1/storageclasses",
        "storage_classes",
        namespaced=False,
    ),
    make_kind(wire.CSINode, cluster.decode_csi_node, "storage.k8s.io/v1/csinodes", "csi_nodes", namespaced=False),
    make_kind(
        wire.PriorityClass,
        cluster.decode_priority_class,
        "scheduling.k8s.io/v1/priorityclasses",
        "priority_classes",
        namespaced=False,
    ),
)
KIND_NAMED = {kind.name: kind for kind in KINDS}
NODE_POOLS = make_kind(
    wire.NodePool, cluster.decode_node_pool, "karpenter.sh/v1/nodepools", "node_pools", namespaced=False
)
AUTOSCALERS = make_kind(
    wire.Autoscaler,
    cluster.decode_autoscaler,
    "autoscaling/v2/horizontalpodautoscalers",
    "autoscalers",
    name="HorizontalPodAutoscaler",
)
ENDPOINT_SLICES = make_kind(
    creation_wire.EndpointSlice,
    creation.decode_endpoint_slice,
    "discovery.k8s.io/v1/endpointslices",
    "endpoint_slices",
)
WEBHOOKS = (
    make_kind(
        creation_wire.WebhookConfiguration,
        creation.decode_validating,
        "admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "webhooks",
        name="ValidatingWebhookConfiguration",
        namespaced=False,
    ),
    make_kind(
        creation_wire.WebhookConfiguration,
        creation.decode_mutating,
        "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        "webhooks",
        name="MutatingWebhookConfiguration",
        namespaced=False,
    ),
)
OPTIONAL_KINDS = (
    NODE_POOLS,
    AUTOSCALERS,
    make_kind(
        wire.CSIDriver, cluster.decode_csi_driver, "storage.k8s.io/v1/csidrivers", "csi_drivers", namespaced=False
    ),
    make_kind(wire.PodGroup, cluster.decode_pod_group, "scheduling.k8s.io/v1beta1/podgroups", "pod_groups"),
    make_kind(
        wire.DeviceClass,
        cluster.decode_device_class,
        "resource.k8s.io/v1/deviceclasses",
        "device_classes",
        namespaced=False,
    ),
    make_kind(creation_wire.ResourceQuota, creation.decode_quota, "v1/resourcequotas", "quotas"),
    make_kind(
        creation_wire.ClusterResourceQuota,
        creation.decode_cluster_quota,
        "quota.openshift.io/v1/clusterresourcequotas",
        "cluster_quotas",
        namespaced=False,
    ),
    make_kind(creation_wire.LimitRange, creation.decode_limit_range, "v1/limitranges", "limit_ranges"),
    make_kind(
        creation_wire.RuntimeClass,
        creation.decode_runtime_class,
        "node.k8s.io/v1/runtimeclasses",
        "runtime_classes",
        namespaced=False,
    ),
    make_kind(creation_wire.ServiceAccount, creation.decode_service_account, "v1/serviceaccounts", "service_accounts"),
    *WEBHOOKS,
    make_kind(
        creation_wire.ValidatingAdmissionPolicy,
        creation.decode_validating_policy,
        "admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "validating_policies",
        namespaced=False,
    ),
    make_kind(
        creation_wire.ValidatingAdmissionPolicyBinding,
        creation.decode_validating_binding,
        "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        "validating_bindings",
        namespaced=False,
    ),
    make_kind(
        creation_wire.MutatingAdmissionPolicy,
        creation.decode_mutating_policy,
        "admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
        "mutating_policies",
        namespaced=False,
    ),
    make_kind(
        creation_wire.MutatingAdmissionPolicyBinding,
        creation.decode_mutating_binding,
        "admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
        "mutating_bindings",
        namespaced=False,
    ),
    ENDPOINT_SLICES,
    make_kind(
        creation_wire.VerticalPodAutoscaler,
        creation.decode_vertical_autoscaler,
        "autoscaling.k8s.io/v1/verticalpodautoscalers",
        "vertical_autoscalers",
    ),
)
"""Kinds that are read if they are served and may be listed; the snapshot's `known` names the kinds read."""
