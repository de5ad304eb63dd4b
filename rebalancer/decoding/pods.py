"""Pods and pod templates."""

from datetime import datetime

from msgspec import structs

from rebalancer.decoding import constraints, resources, wire
from rebalancer.decoding.errors import one_of
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.metadata import annotations, controller_of, created, labels
from rebalancer.model.pods import HostPort, Pod, PodPhase, PodSpec
from rebalancer.model.workloads import PodTemplate

_MIRROR = "kubernetes.io/config.mirror"
_INLINE_DISKS = ("gce_persistent_disk", "aws_elastic_block_store", "azure_disk", "iscsi", "rbd")


def pod(found: wire.Pod, intern: Interner) -> Pod:
    """Turn a pod into the model's."""
    metadata, status = found.metadata, found.status
    requests, scored = resources.effective(found.spec, status)
    ready, ready_since = _condition(status, "Ready")
    return Pod(
        namespace=metadata.namespace,
        name=metadata.name,
        # Hand-written files name none, and pods are told apart by it.
        uid=metadata.uid or f"{metadata.namespace}/{metadata.name}",
        labels=intern(labels(metadata.labels)),
        annotations=intern(annotations(metadata.annotations)),
        spec=intern(spec(found.spec)),
        node=found.spec.node_name or None,
        nominated_node=status.nominated_node_name or None,
        phase=one_of(PodPhase, status.phase or "Pending", "status.phase"),
        ready=ready,
        ready_since=ready_since if ready else None,
        created=created(metadata),
        deleted=metadata.deletion_timestamp,
        owner=controller_of(metadata),
        claims=claims(found.spec, metadata.name),
        requests=intern(requests),
        scored=scored,
        mirror=_MIRROR in (metadata.annotations or {}),
        local_storage=any(each.empty_dir or each.host_path for each in found.spec.volumes or ()),
        disruption_target=_condition(status, "DisruptionTarget")[0],
        resource_version=metadata.resource_version,
    )


def template(found: wire.PodTemplate | None, claim_templates: tuple[str, ...] = ()) -> PodTemplate | None:
    """Turn an owner's pod template into the model's.

    Claims that ephemeral volumes would create carry the pod's name, which a template does not have: they count as
    claim templates.
    """
    if found is None:
        return None
    requests, scored = resources.effective(found.spec)
    volumes = found.spec.volumes or ()
    ephemeral = tuple(each.name for each in volumes if each.ephemeral is not None)
    return PodTemplate(
        labels=labels(found.metadata.labels if found.metadata else None),
        annotations=annotations(found.metadata.annotations if found.metadata else None),
        spec=structs.replace(spec(found.spec), node_name=found.spec.node_name or None),
        requests=requests,
        scored=scored,
        claims=tuple(each.persistent_volume_claim.claim_name for each in volumes if each.persistent_volume_claim),
        claim_templates=claim_templates + ephemeral,
    )


def spec(found: wire.PodSpec) -> PodSpec:
    """Read what a pod asks of its place."""
    requests, _ = resources.effective(found)
    every = (*(found.init_containers or ()), *found.containers)
    return PodSpec(
        node_affinity=constraints.node_affinity(found),
        pod_affinity=constraints.pod_affinity(found),
        tolerations=constraints.tolerations(found),
        spread=constraints.spread(found),
        requests=requests,
        scored=resources.scored_as_newcomer(found),
        host_ports=_host_ports(found),
        images=tuple(each.image for each in every),
        containers=len(every),
        priority=found.priority or 0,
        priority_class=found.priority_class_name,
        preempts=found.preemption_policy != "Never",
        scheduler=found.scheduler_name or "default-scheduler",
        gated=bool(found.scheduling_gates),
        unpredictable=_unpredictable(found),
        eviction_responders=bool(found.eviction_responders),
    )


def claims(found: wire.PodSpec, name: str) -> tuple[str, ...]:
    """Name the pod's claims: those it mentions, and those that its ephemeral volumes create."""
    read = []
    for volume in found.volumes or ():
        if volume.persistent_volume_claim is not None:
            read.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            read.append(f"{name}-{volume.name}")
    return tuple(read)


def _host_ports(found: wire.PodSpec) -> tuple[HostPort, ...]:
    sidecars = (each for each in found.init_containers or () if each.restart_policy == "Always")
    ports = {
        HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)  # noqa: S104  # "any", not a bind
        for container in (*sidecars, *found.containers)
        for port in container.ports or ()
        if port.host_port > 0
    }
    return tuple(sorted(ports))


def _unpredictable(found: wire.PodSpec) -> tuple[str, ...]:
    """Name the fields whose effect on placement is not modelled."""
    names = [
        field
        for field, value in (
            ("schedulingGates", found.scheduling_gates),
            ("resourceClaims", found.resource_claims),
            ("workloadRef", found.workload_ref),
            ("schedulingGroup", found.scheduling_group),
        )
        if value
    ]
    for volume in found.volumes or ():
        names += [disk for disk in _INLINE_DISKS if getattr(volume, disk) is not None]
    return tuple(names)


def _condition(status: wire.PodStatus, kind: str) -> tuple[bool, datetime | None]:
    for each in status.conditions or ():
        if each.type == kind:
            return each.status == "True", each.last_transition_time
    return False, None
