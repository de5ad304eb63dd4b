"""Pods and pod templates."""

from datetime import datetime

from msgspec import structs

from rebalancer.decoding import constraints, resources, wire
from rebalancer.decoding.errors import parse_choice
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.metadata import decode_annotations, decode_labels, find_controller, get_creation_time
from rebalancer.model.deletion_costs import DELETION_COST, OWN_DELETION_COST, read_own_cost
from rebalancer.model.pods import HostPort, LocalStorage, LocalVolume, Pod, PodPhase, PodSpec
from rebalancer.model.workloads import PodTemplate

_OWN_ANNOTATIONS = frozenset({DELETION_COST, OWN_DELETION_COST})
_MIRROR = "kubernetes.io/config.mirror"
_INLINE_DISKS = ("gce_persistent_disk", "aws_elastic_block_store", "azure_disk", "iscsi", "rbd")


def decode_pod(source: wire.Pod, intern: Interner) -> Pod:
    """Convert a pod to the model's."""
    metadata, status = source.metadata, source.status
    requests, scored = resources.compute_requests(source.spec, status)
    ready, ready_since = _read_condition(status, "Ready")
    annotations = metadata.annotations
    own_cost = read_own_cost(annotations) if annotations and OWN_DELETION_COST in annotations else 0
    if annotations and own_cost:
        annotations = {key: text for key, text in annotations.items() if key not in _OWN_ANNOTATIONS}
    return Pod(
        namespace=metadata.namespace,
        name=metadata.name,
        # Hand-written files have no UIDs, and pods are identified by them.
        uid=metadata.uid or f"{metadata.namespace}/{metadata.name}",
        labels=intern(decode_labels(metadata.labels)),
        annotations=intern(decode_annotations(annotations)),
        spec=intern(decode_spec(source.spec)),
        node=source.spec.node_name or None,
        nominated_node=status.nominated_node_name or None,
        phase=parse_choice(PodPhase, status.phase or "Pending", "status.phase"),
        ready=ready,
        ready_since=ready_since if ready else None,
        created=get_creation_time(metadata),
        deleted=metadata.deletion_timestamp,
        own_deletion_cost=own_cost,
        owner=find_controller(metadata),
        claims=list_claims(source.spec, metadata.name),
        requests=intern(requests),
        scored=scored,
        mirror=_MIRROR in (metadata.annotations or {}),
        local_volumes=intern(_list_local_volumes(source.spec)),
        disruption_target=_read_condition(status, "DisruptionTarget")[0],
        resource_version=metadata.resource_version,
    )


def decode_template(source: wire.PodTemplate | None, claim_templates: tuple[str, ...] = ()) -> PodTemplate | None:
    """Convert an owner's pod template to the model's.

    The names of claims of ephemeral volumes contain the pod's name, which a template does not have: such claims count
    as claim templates.
    """
    if source is None:
        return None
    requests, scored = resources.compute_requests(source.spec)
    volumes = source.spec.volumes or ()
    ephemeral = tuple(volume.name for volume in volumes if volume.ephemeral is not None)
    return PodTemplate(
        labels=decode_labels(source.metadata.labels if source.metadata else None),
        annotations=decode_annotations(source.metadata.annotations if source.metadata else None),
        spec=structs.replace(decode_spec(source.spec), node_name=source.spec.node_name or None),
        requests=requests,
        scored=scored,
        claims=tuple(volume.persistent_volume_claim.claim_name for volume in volumes if volume.persistent_volume_claim),
        claim_templates=claim_templates + ephemeral,
    )


def decode_spec(source: wire.PodSpec) -> PodSpec:
    """Read the part of a pod's spec that affects scheduling."""
    requests, _ = resources.compute_requests(source)
    every = (*(source.init_containers or ()), *source.containers)
    return PodSpec(
        node_affinity=constraints.decode_node_affinity(source),
        pod_affinity=constraints.decode_pod_affinity(source),
        tolerations=constraints.decode_tolerations(source),
        spread=constraints.decode_spread(source),
        requests=requests,
        scored=resources.compute_scored_requests(source),
        host_ports=_decode_host_ports(source),
        images=tuple(container.image for container in every),
        containers=len(every),
        priority=source.priority or 0,
        priority_class=source.priority_class_name,
        preempts=source.preemption_policy != "Never",
        scheduler=source.scheduler_name or "default-scheduler",
        gated=bool(source.scheduling_gates),
        unpredictable=_list_unpredictable_fields(source),
        eviction_responders=bool(source.eviction_responders),
    )


def list_claims(source: wire.PodSpec, name: str) -> tuple[str, ...]:
    """List the pod's claims: those in its spec, and those that its ephemeral volumes create."""
    read = []
    for volume in source.volumes or ():
        if volume.persistent_volume_claim is not None:
            read.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            read.append(f"{name}-{volume.name}")
    return tuple(read)


def _list_local_volumes(source: wire.PodSpec) -> tuple[LocalVolume, ...]:
    """List the volumes whose data an eviction deletes or leaves behind, sorted by name."""
    local = []
    for volume in source.volumes or ():
        if volume.empty_dir is not None and volume.empty_dir.medium != "Memory":
            local.append(LocalVolume(volume.name, LocalStorage.EMPTY_DIR))
        elif volume.ephemeral is not None:
            local.append(LocalVolume(volume.name, LocalStorage.EPHEMERAL))
        elif volume.host_path is not None:
            local.append(LocalVolume(volume.name, LocalStorage.HOST_PATH))
    return tuple(sorted(local))


def _decode_host_ports(source: wire.PodSpec) -> tuple[HostPort, ...]:
    sidecars = (container for container in source.init_containers or () if container.restart_policy == "Always")
    ports = {
        HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)  # noqa: S104  # "any", not a bind
        for container in (*sidecars, *source.containers)
        for port in container.ports or ()
        if port.host_port > 0
    }
    return tuple(sorted(ports))


def _list_unpredictable_fields(source: wire.PodSpec) -> tuple[str, ...]:
    """List the fields whose effect on placement is not modelled."""
    names = [
        field
        for field, value in (
            ("schedulingGates", source.scheduling_gates),
            ("resourceClaims", source.resource_claims),
            ("workloadRef", source.workload_ref),
            ("schedulingGroup", source.scheduling_group),
        )
        if value
    ]
    for volume in source.volumes or ():
        names += [disk for disk in _INLINE_DISKS if getattr(volume, disk) is not None]
    return tuple(names)


def _read_condition(status: wire.PodStatus, kind: str) -> tuple[bool, datetime | None]:
    for condition in status.conditions or ():
        if condition.type == kind:
            return condition.status == "True", condition.last_transition_time
    return False, None
