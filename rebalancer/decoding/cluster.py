"""Objects other than pods and workloads: nodes, budgets, namespaces, services, priority classes, volumes, autoscalers.

Autoscalers are HorizontalPodAutoscalers and the NodePools of Karpenter.
"""

import sys
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Final

from rebalancer.decoding import bounds, constraints, resources, wire
from rebalancer.decoding.errors import parse_choice
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.metadata import (
    decode_annotations,
    decode_labels,
    decode_namespace_annotations,
    decode_requirement,
    decode_selector,
    find_last_change,
    find_target_kind,
    get_creation_time,
)
from rebalancer.model.affinity import NodeSelectorTerm, Taint, TaintEffect
from rebalancer.model.cluster import (
    Autoscaler,
    DeviceClass,
    DisruptionBudget,
    Namespace,
    NodePool,
    PriorityClass,
    SchedulingGroup,
    Service,
)
from rebalancer.model.labels import Operator, SelectorRequirement
from rebalancer.model.nodes import BETA_ZONE, DRAINING, UNSERVICEABLE_CONDITIONS, ZONE, Node
from rebalancer.model.pods import NodeFeature
from rebalancer.model.requests import make_resources
from rebalancer.model.storage import CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from rebalancer.scheduling.node_unschedulable import CORDONED

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"

_NEVER_UPDATED: Final = "NodeStatusNeverUpdated"
_KUBELET: Final = "kubelet"
"""The field manager that registers nodes."""
_ZONE_FIELDS: Final = {f"f:{label}" for label in (ZONE, BETA_ZONE)}
_OPERATORS: Final = frozenset(map(str, Operator))
"""Known operators. Newer releases of Karpenter have further operators on numbers, but no domain depends on them."""


def decode_budget(source: wire.DisruptionBudget, _: Interner) -> DisruptionBudget:
    """Convert a PodDisruptionBudget to the model's."""
    spec, status = source.spec, source.status
    failures = [
        condition.message or ""
        for condition in status.conditions or ()
        if condition.type == "DisruptionAllowed" and condition.reason == "SyncFailed"
    ]
    return DisruptionBudget(
        namespace=source.metadata.namespace,
        name=source.metadata.name,
        uid=source.metadata.uid,
        selector=decode_selector(spec.selector, "spec.selector"),
        min_available=spec.min_available,
        max_unavailable=spec.max_unavailable,
        always_allow=spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        generation=source.metadata.generation,
        observed_generation=status.observed_generation,
        allowed=status.disruptions_allowed,
        current_healthy=status.current_healthy,
        desired_healthy=status.desired_healthy,
        expected=status.expected_pods,
        disrupted=tuple(sorted((status.disrupted_pods or {}).items())),
        synced=not failures,
        failure=bounds.shorten(failures[0], bounds.LONGEST_TEXT) if failures else "",
    )


def decode_namespace(source: wire.Namespace, _: Interner) -> Namespace:
    """Convert a namespace to the model's."""
    return Namespace(
        name=source.metadata.name,
        labels=decode_labels(source.metadata.labels),
        annotations=decode_namespace_annotations(source.metadata.annotations),
        terminating=source.metadata.deletion_timestamp is not None,
        changed=find_last_change(source.metadata.managed_fields),
    )


def decode_service(source: wire.Service, _: Interner) -> Service:
    """Convert a service to the model's; an absent selector stays None."""
    chosen = source.spec.selector
    return Service(
        namespace=source.metadata.namespace,
        name=source.metadata.name,
        selector=None if chosen is None else decode_labels(chosen),
    )


def decode_priority_class(source: wire.PriorityClass, _: Interner) -> PriorityClass:
    """Convert a priority class to the model's."""
    return PriorityClass(
        name=source.metadata.name,
        value=source.value,
        default=source.global_default,
        preempts=source.preemption_policy != "Never",
    )


def decode_volume(source: wire.PersistentVolume, _: Interner) -> PersistentVolume:
    """Convert a volume to the model's."""
    spec = source.spec
    required = spec.node_affinity.required if spec.node_affinity else None
    return PersistentVolume(
        name=source.metadata.name,
        labels=decode_labels(source.metadata.labels),
        node_affinity=constraints.decode_node_terms(required, "spec.nodeAffinity.required"),
        storage_class=spec.storage_class_name,
        driver=spec.csi.driver if spec.csi else "",
        handle=spec.csi.volume_handle if spec.csi else "",
        attached=spec.is_attached,
        on_node=spec.host_path is not None or spec.local is not None,
        claim=(spec.claim_ref.namespace, spec.claim_ref.name) if spec.claim_ref else None,
        capacity=resources.decode_amounts(spec.capacity, "spec.capacity").get("storage", 0),
        access_modes=tuple(spec.access_modes or ()),
        phase=source.status.phase,
        volume_mode=spec.volume_mode or "Filesystem",
        deleted=source.metadata.deletion_timestamp is not None,
    )


def decode_claim(source: wire.PersistentVolumeClaim, _: Interner) -> PersistentVolumeClaim:
    """Convert a claim to the model's; the old annotation for the storage class still has precedence."""
    metadata, spec = source.metadata, source.spec
    notes = metadata.annotations or {}
    requests = spec.resources.requests if spec.resources else None
    owner = next((reference for reference in metadata.owner_references or () if reference.controller), None)
    return PersistentVolumeClaim(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        volume=spec.volume_name,
        bound=bool(spec.volume_name) and _BIND_COMPLETED in notes,
        storage_class=notes.get(_BETA_CLASS, spec.storage_class_name or ""),
        selected_node=notes.get(_SELECTED_NODE, ""),
        access_modes=tuple(spec.access_modes or ()),
        request=resources.decode_amounts(requests, "spec.resources.requests").get("storage", 0),
        volume_mode=spec.volume_mode or "Filesystem",
        selector=decode_selector(spec.selector, "spec.selector"),
        deleted=metadata.deletion_timestamp is not None,
        lost=source.status is not None and source.status.phase == "Lost",
        owner_uid=owner.uid if owner else "",
    )


def decode_storage_class(source: wire.StorageClass, _: Interner) -> StorageClass:
    """Convert a storage class to the model's; each allowed topology is a term over node labels."""
    terms = tuple(
        NodeSelectorTerm(
            tuple(
                SelectorRequirement(expression.key, Operator.IN, tuple(sorted(set(expression.values))))
                for expression in term.match_label_expressions or ()
            )
        )
        for term in source.allowed_topologies or ()
    )
    return StorageClass(
        name=source.metadata.name,
        provisioner=source.provisioner,
        delayed=source.volume_binding_mode == "WaitForFirstConsumer",
        allowed_topologies=terms,
        default=(source.metadata.annotations or {}).get(_DEFAULT_CLASS) == "true",
    )


def decode_csi_node(source: wire.CSINode, _: Interner) -> CSINode:
    """Convert a CSINode to the model's."""
    drivers = tuple(
        (driver.name, driver.allocatable.count if driver.allocatable else None, tuple(driver.topology_keys or ()))
        for driver in source.spec.drivers or ()
    )
    return CSINode(name=source.metadata.name, drivers=drivers)


def decode_device_class(source: wire.DeviceClass, _: Interner) -> DeviceClass:
    """Convert a DeviceClass to the model's."""
    return DeviceClass(name=source.metadata.name, extended_resource=source.spec.extended_resource_name)


def decode_csi_driver(source: wire.CSIDriver, _: Interner) -> CSIDriver:
    """Convert a CSIDriver to the model's; by default a driver attaches its volumes."""
    return CSIDriver(
        name=source.metadata.name,
        attach_required=source.spec.attach_required is not False,
        publishes_capacity=source.spec.storage_capacity is True,
        keeps_pods_from_nodes_without=source.spec.prevent_pod_scheduling_if_missing is True,
    )


def decode_pod_group(source: wire.PodGroup, _: Interner) -> SchedulingGroup:
    """Convert a PodGroup to the model's."""
    mode = source.spec.disruption_mode
    whole = mode is not None and mode.all is not None
    return SchedulingGroup(namespace=source.metadata.namespace, name=source.metadata.name, whole=whole)


def decode_node(source: wire.Node, intern: Interner) -> Node:
    """Convert a node to the model's."""
    metadata, status = source.metadata, source.status
    allocatable = resources.decode_amounts(status.allocatable, "status.allocatable")
    pods = allocatable.pop("pods", 0)
    condition = next((condition for condition in status.conditions or () if condition.type == "Ready"), None)
    ready = condition is not None and condition.status == "True"
    return Node(
        name=sys.intern(metadata.name),  # the same object as the pods' `node`, so that look-ups by name compare no text
        uid=metadata.uid,
        labels=decode_labels(metadata.labels),
        annotations=decode_annotations(metadata.annotations),
        unschedulable=source.spec.unschedulable,
        cordoned_by=_find_cordoner(source) if source.spec.unschedulable else "",
        taints=intern(decode_taints(source.spec.taints, "spec.taints")),
        allocatable=intern(make_resources(allocatable)),
        pods=pods,
        images=intern(tuple((name, image.size_bytes) for image in status.images or () for name in image.names or ())),
        ready=ready,
        ready_since=condition.last_transition_time if condition is not None and ready else None,
        lost_since=_find_loss(source, None if ready else condition),
        draining=_find_first(DRAINING, status.conditions or ()),
        problem=_find_first(UNSERVICEABLE_CONDITIONS, status.conditions or ()),
        handlers=intern(tuple(_read_handlers(status))),
        without=_find_features_without(status),
        zone_since=_find_zone_change(source),
        created=get_creation_time(metadata),
        deleted=metadata.deletion_timestamp,
    )


def _find_loss(source: wire.Node, unready: wire.Condition | None) -> datetime | None:
    """Return since when a node has been cordoned or not Ready, by taint and condition; if both, the earlier time.

    If a node's kubelet has never reported, the condition is the node controller's, and its time does not count.
    """
    times = [unready.last_transition_time] if unready is not None and unready.reason != _NEVER_UPDATED else []
    if source.spec.unschedulable:
        times += [taint.time_added for taint in source.spec.taints or () if taint.key == CORDONED.key]
    return min((moment for moment in times if moment is not None), default=None)


def _find_first(types: Collection[str], conditions: Sequence[wire.Condition]) -> str:
    """Return the first of these types, by name, whose condition is true, "" if none is."""
    return min((one.type for one in conditions if one.type in types and one.status == "True"), default="")


def _read_handlers(status: wire.NodeStatus) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the runtime handlers of a node, each with its features that are false."""
    for handler in status.runtime_handlers or ():
        without = handler.features is not None and handler.features.user_namespaces is False
        yield handler.name, (NodeFeature.USER_NAMESPACES,) if without else ()


def _find_features_without(status: wire.NodeStatus) -> tuple[str, ...]:
    without = status.features is not None and status.features.supplemental_groups_policy is False
    return (NodeFeature.SUPPLEMENTAL_GROUPS_POLICY,) if without else ()


def _find_cordoner(source: wire.Node) -> str:
    """Return the field manager that owns `spec.unschedulable`, "" if none is named."""
    managers = source.metadata.managed_fields or ()
    return next((one.manager for one in managers if one.fields_v1.spec.unschedulable is not None), "")


def _find_zone_change(source: wire.Node) -> datetime | None:
    """Return since when a node has its zone label, None if it registered with the label or the time is unknown.

    A kubelet registers its node with the labels that it owns. Nodes without such a registration are simulated.
    """
    managers = source.metadata.managed_fields or ()
    owner = next((one for one in managers if _ZONE_FIELDS & (one.fields_v1.metadata.labels or {}).keys()), None)
    if owner is None or owner.time is None or owner.manager == _KUBELET:
        return None
    registered = any(one.manager == _KUBELET for one in managers)
    return owner.time if registered or owner.time > get_creation_time(source.metadata) else None


def decode_taints(source: Sequence[wire.Taint] | None, field: str) -> tuple[Taint, ...]:
    """Convert taints to the model's."""
    return tuple(
        Taint(taint.key, parse_choice(TaintEffect, taint.effect, f"{field}[{position}].effect"), taint.value)
        for position, taint in enumerate(source or ())
    )


def decode_node_pool(source: wire.NodePool, _: Interner) -> NodePool:
    """Convert a NodePool to the model's; `startupTaints` are gone before a pod is placed."""
    template = source.spec.template
    spec = template.spec
    return NodePool(
        name=source.metadata.name,
        labels=decode_labels(template.metadata.labels if template.metadata else None),
        requirements=tuple(
            decode_requirement(expression, f"spec.template.spec.requirements[{position}]")
            for position, expression in enumerate(spec.requirements or ())
            if expression.operator in _OPERATORS
        ),
        taints=decode_taints(spec.taints, "spec.template.spec.taints"),
        deleted=source.metadata.deletion_timestamp is not None,
    )


def decode_autoscaler(source: wire.Autoscaler, _: Interner) -> Autoscaler:
    """Convert a HorizontalPodAutoscaler to the model's."""
    target = source.spec.scale_target_ref
    return Autoscaler(
        namespace=source.metadata.namespace,
        name=source.metadata.name,
        target_kind=find_target_kind(target),
        target_name=target.name,
        min_replicas=source.spec.min_replicas,
        max_replicas=source.spec.max_replicas,
    )
