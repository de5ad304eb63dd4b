"""Pods and pod templates."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct, structs

from rebalancer.decoding import bounds, constraints, resources, wire
from rebalancer.decoding.errors import parse_choice
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.metadata import UNDATED, decode_annotations, decode_labels, find_controller, find_owning_pod
from rebalancer.decoding.pod_security import find_violations
from rebalancer.model.affinity import PodAffinity
from rebalancer.model.containers import PodRequests
from rebalancer.model.deletion_costs import DELETION_COST, OWN_DELETION_COST, read_own_cost
from rebalancer.model.labels import NO_LABELS, Labels
from rebalancer.model.pods import (
    NO_SANDBOX,
    HostPort,
    LocalStorage,
    LocalVolume,
    NodeFeature,
    OwnerReference,
    Pod,
    PodPhase,
    PodSpec,
    Resources,
)
from rebalancer.model.requests import (
    resize_containers,
    says_more,
    sum_requests,
    sum_resized,
    sum_scored_requests,
    sum_scored_sidecars_as_init,
)
from rebalancer.model.workloads import PodTemplate

_OWN_ANNOTATIONS = frozenset({DELETION_COST, OWN_DELETION_COST})
_RESTART_ALL: Final = "RestartAllContainers"
"""An action on the exit of a container, which only nodes that declare its feature know (NodeDeclaredFeatures)."""
_MIRROR = "kubernetes.io/config.mirror"
_EVICTION: Final = "EvictionByEvictionAPI"
_PREEMPTION: Final = "PreemptionByScheduler"
"""The reason of a DisruptionTarget condition that the scheduler sets when it preempts a pod."""
_PHASES: Final = {phase.value: phase for phase in PodPhase}
_ENDED: Final = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})
_START_FAILURES: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerError",
        "CreateContainerConfigError",
        "RunContainerError",
        "CrashLoopBackOff",
    }
)
"""Why a container waits that will not run by itself; ContainerCreating and PodInitializing are no failure."""
_REJECTIONS: Final = frozenset(
    {
        "EmptyPodSharedPoolError",
        "InvalidNodeInfo",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "SMTAlignmentError",
        "TaintToleration",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "UnexpectedPredicateFailureType",
        "UnknownReason",
        "VolumeAttachmentLimitExceeded",
    }
)
"""Reasons with which a kubelet refuses to run what the scheduler has bound, since its node is not as the scheduler
believes; besides those, one for each resource that the node lacks (`OutOfcpu`). Not among them: what the pod asks of
any kubelet (`SysctlForbidden`, `AppArmor`, `PodFeatureUnsupported` …), what the node says of itself (`NodeShutdown`),
and `Evicted`, which pods that ran have too. Source: `admissionRejectionReasons` in `pkg/kubelet/kubelet.go`,
`pkg/kubelet/lifecycle/predicate.go` and `pkg/kubelet/cm` of Kubernetes."""
_LACKS_RESOURCE: Final = "OutOf"
_FIRST_STATUS: Final = timedelta(seconds=2)
"""Most time between a pod's start and its first condition; both are in whole seconds."""
_DEFAULT_GRACE: Final = 30
"""Seconds; the API server's default of terminationGracePeriodSeconds."""
_INLINE_DISKS = ("gce_persistent_disk", "aws_elastic_block_store", "azure_disk", "iscsi", "rbd")


class _Shared(Struct, frozen=True):
    """The common parts of an owner's pods, converted."""

    owner: OwnerReference | None
    owning_pod: str
    spec: PodSpec
    requests: Resources
    scored: tuple[int, int]
    resized: tuple[Resources, tuple[int, int]] | None
    requested: PodRequests


class _SharedSource(Struct, frozen=True, array_like=True):
    """The common parts as the API server sends them. Equal parts are recognized by the encoded form, an array."""

    owner_references: list[wire.OwnerReference] | None
    spec: wire.PodSpec
    containers: list[wire.ContainerStatus] | None
    init_containers: list[wire.ContainerStatus] | None
    resizes: list[wire.Condition]
    allocated_resources: dict[str, wire.Quantity] | None
    resources: wire.Amounts | None


_SHARED_SOURCE = msgspec.json.Decoder(_SharedSource)
_ENCODE = msgspec.json.Encoder().encode


def decode_pod(source: wire.RawPod, intern: Interner) -> Pod:
    """Convert a pod to the model's; `source` is of no use afterwards."""
    metadata, spec, status = source.metadata, source.spec, source.status
    node, grace = spec.node_name, spec.termination_grace_period_seconds
    claims, local, drivers, disks = _read_volumes(spec.volumes, metadata.name)
    conditions = _read_conditions(status.conditions or ())
    ready, created = conditions.ready, metadata.creation_timestamp or UNDATED
    # One object for equal moments; separate objects of 150,000 pods take another 14 MiB.
    bound_at = _share(conditions.bound_at, created, conditions.ready_changed)
    waits = {} if ready else _read_start(spec, status, conditions, bound_at or created)
    shared = _read_shared(source, conditions.resizes, intern, has_disks=disks)
    annotations, own_cost = intern.annotations(metadata.annotations or {}, _read_annotations)
    namespace = sys.intern(metadata.namespace)
    pod = Pod(
        namespace=namespace,
        name=metadata.name,
        # Hand-written files have no UIDs, and pods are identified by them.
        uid=metadata.uid or f"{namespace}/{metadata.name}",
        labels=intern.labels(metadata.labels),
        annotations=annotations,
        spec=shared.spec,
        node=sys.intern(node) or None,
        nominated_node=status.nominated_node_name or None,
        phase=_PHASES.get(status.phase) or parse_choice(PodPhase, status.phase or "Pending", "status.phase"),
        ready=ready,
        ready_since=conditions.ready_changed if ready else None,
        created=created,
        deleted=metadata.deletion_timestamp,
        own_deletion_cost=own_cost,
        owner=shared.owner,
        claims=claims,
        drivers=intern(drivers) if drivers else (),
        requests=shared.requests,
        scored=shared.scored,
        resized=shared.resized,
        requested=shared.requested,
        generation=metadata.generation,
        mirror=_MIRROR in (metadata.annotations or ()),
        local_volumes=intern(local) if local else (),
        evicted_at=conditions.evicted_at,
        preempted=conditions.preempted,
        bound_at=bound_at,
        started_at=_share(status.start_time, bound_at, created),
        has_sandbox=conditions.has_sandbox,
        grace_seconds=_read_grace(grace),
        owning_pod=shared.owning_pod,
        resource_version=metadata.resource_version,
    )
    return structs.replace(pod, **waits) if waits else pod


def _read_shared(
    source: wire.RawPod, resizes: Sequence[wire.Condition], intern: Interner, *, has_disks: bool
) -> _Shared:
    """Return the parts that a pod shares with other pods of its owner; its own parts are removed from `source`."""
    spec, status = source.spec, source.status
    # The pod's own fields, which would make every text different. The names of volumes are random.
    spec.node_name, spec.volumes = "", spec.volumes if has_disks else None
    for containers in (status.container_statuses, status.init_container_statuses):
        for container in containers or ():
            container.state, container.restart_count = None, 0
    text = _ENCODE(
        (
            source.metadata.owner_references,
            spec,
            status.container_statuses,
            status.init_container_statuses,
            resizes,
            status.allocated_resources,
            status.resources,
        )
    )
    # Most of a pod is its owner's template. Typed decoding and conversion of a spec take longer than all the rest, so
    # equal texts are converted once: a page of pods takes 3.8 times as long where each pod is converted.
    return intern.convert(text, partial(_convert_shared, intern))


def _share(moment: datetime | None, first: datetime | None, second: datetime | None) -> datetime | None:
    """Return the first of the two others that equals a moment, or else itself."""
    return first if first == moment else second if second == moment else moment


def _read_grace(seconds: int | None) -> int:
    return _DEFAULT_GRACE if seconds is None else seconds


class _Conditions(Struct, frozen=True, gc=False):
    """The facts in a pod's conditions."""

    ready: bool
    ready_changed: datetime | None
    evicted_at: datetime | None
    preempted: bool
    resizes: Sequence[wire.Condition]
    has_sandbox: bool | None
    """None if the kubelet does not report it."""
    sandbox_changed: datetime | None
    bound_at: datetime | None


class _StartFailure(NamedTuple):
    """Why a container of a pod does not run, by its kubelet, and its image; "" without a problem."""

    reason: str = ""
    message: str = ""
    image: str = ""


_NO_FAILURE: Final = _StartFailure()


def _read_start(
    spec: wire.RawPodSpec, status: wire.RawPodStatus, conditions: _Conditions, bound_at: datetime
) -> dict[str, Any]:
    """Return the fields that only unready pods have; `spec` still has the node.

    Most pods are Ready, and creating a Pod takes longer with more fields.
    """
    start = _find_start(status, conditions, bound_at) if spec.node_name else None
    failure = _read_start_failure(spec, status, conditions)
    return {
        "start_failure": failure.reason,
        "start_message": failure.message,
        "failed_image": failure.image,
        "restarts": 0 if start is None else sum(one.restart_count for one in _containers_of(status)),
        "unready_since": conditions.ready_changed,
        "starting_since": start,
        "unstarted_since": _find_unstarted(status, conditions, bound_at) if spec.node_name else None,
    }


def _containers_of(status: wire.RawPodStatus) -> Iterator[wire.RawContainerStatus]:
    return chain(status.init_container_statuses or (), status.container_statuses or ())


def _read_start_failure(spec: wire.RawPodSpec, status: wire.RawPodStatus, conditions: _Conditions) -> _StartFailure:
    if _is_rejected(status):
        return _StartFailure(sys.intern(status.reason))
    for container in _containers_of(status):
        waiting = container.state.waiting if container.state is not None else None
        if waiting is not None and waiting.reason in _START_FAILURES:
            every = (*(spec.init_containers or ()), *spec.containers)
            images = (one.image for one in every if one.name == container.name)
            message = bounds.shorten(waiting.message or "", bounds.LONGEST_TEXT)
            return _StartFailure(sys.intern(waiting.reason), message, sys.intern(next(images, "")))
    return _StartFailure(NO_SANDBOX) if conditions.has_sandbox is False else _NO_FAILURE


def _is_rejected(status: wire.RawPodStatus) -> bool:
    """Return whether the kubelet refused to run a pod that the scheduler had bound."""
    reason = status.reason
    return status.phase == "Failed" and (reason in _REJECTIONS or reason.startswith(_LACKS_RESOURCE))


def _find_unstarted(status: wire.RawPodStatus, conditions: _Conditions, bound_at: datetime) -> datetime | None:
    """Return since when a pod on a node has had no sandbox, or when its kubelet rejected it; None for other pods.

    The kubelet writes the start time of a pod that it rejects with the rejection.
    """
    if status.phase in _ENDED:
        return (status.start_time or bound_at) if _is_rejected(status) else None
    return (conditions.sandbox_changed or status.start_time or bound_at) if conditions.has_sandbox is False else None


def _find_start(status: wire.RawPodStatus, conditions: _Conditions, bound_at: datetime) -> datetime | None:
    """Return since when a pod on a node has been starting, if it has never been Ready; None if it was.

    Its kubelet writes the condition together with the start time, and changes its time once the pod becomes Ready.
    """
    if status.phase in _ENDED:
        return None
    start = status.start_time or bound_at
    changed = conditions.ready_changed
    return start if changed is None or changed - start <= _FIRST_STATUS else None


def _read_annotations(annotations: Mapping[str, str]) -> tuple[Labels, int]:
    """Return the annotations that are read, without Rebalancer's own deletion cost, and that cost."""
    own_cost = read_own_cost(annotations) if OWN_DELETION_COST in annotations else 0
    if own_cost:
        annotations = {key: text for key, text in annotations.items() if key not in _OWN_ANNOTATIONS}
    return decode_annotations(annotations), own_cost


def _read_conditions(conditions: Sequence[wire.Condition]) -> _Conditions:
    by_type = {condition.type: condition for condition in conditions}
    ready, target = by_type.get("Ready"), by_type.get("DisruptionTarget")
    resize, sandbox = by_type.get("PodResizePending"), by_type.get("PodReadyToStartContainers")
    scheduled = by_type.get("PodScheduled")
    reason = target.reason if target is not None and target.status == "True" else ""
    return _Conditions(
        ready is not None and ready.status == "True",
        ready.last_transition_time if ready is not None else None,
        target.last_transition_time if target is not None and reason == _EVICTION else None,
        reason == _PREEMPTION,
        () if resize is None else (resize,),
        None if sandbox is None else sandbox.status != "False",
        None if sandbox is None else sandbox.last_transition_time,
        scheduled.last_transition_time if scheduled is not None and scheduled.status == "True" else None,
    )


def _convert_shared(intern: Interner, text: bytes) -> _Shared:
    source = _SHARED_SOURCE.decode(text)
    status = wire.PodStatus(
        container_statuses=source.containers,
        init_container_statuses=source.init_containers,
        conditions=source.resizes,
        allocated_resources=source.allocated_resources,
        resources=source.resources,
    )
    requested = resources.read_requested(source.spec)
    said = resources.read_resized(requested, status)
    requests, scored = sum_requests(requested)
    spec = intern(_decode_spec(source.spec, requested, requests, intern, source.owner_references or ()))
    resized = requests, scored
    if says_more(said, requested):
        resized, running = sum_resized(requested, said), resize_containers(requested, said)
        if running != requested:
            requests, scored = sum_requests(running)
    return _Shared(
        owner=intern(find_controller(source.owner_references)),
        owning_pod=find_owning_pod(source.owner_references),
        spec=spec,
        requests=intern(requests),
        scored=scored,
        resized=intern(resized) if resized != (requests, scored) else None,
        requested=intern(requested),
    )


def decode_template(
    source: wire.PodTemplate | None, intern: Interner, claim_templates: tuple[str, ...] = ()
) -> PodTemplate | None:
    """Convert an owner's pod template to the model's; a ReplicaSet has the spec of its Deployment's.

    The names of claims of ephemeral volumes contain the pod's name, which a template does not have: such claims count
    as claim templates.
    """
    if source is None:
        return None
    # The encoded form is an object, but that of `_SharedSource` an array, so no text is converted in two ways.
    template = intern.convert(_ENCODE(source.spec), partial(_convert_template, source.spec, intern))
    return structs.replace(
        template,
        labels=decode_labels(source.metadata.labels if source.metadata else None),
        annotations=decode_annotations(source.metadata.annotations if source.metadata else None),
        claim_templates=claim_templates + template.claim_templates,
    )


def _convert_template(source: wire.TemplateSpec, intern: Interner, _: bytes) -> PodTemplate:
    """Convert the spec of a template."""
    requested = resources.read_requested(source)
    requests, scored = sum_requests(requested)
    spec = _decode_spec(source, requested, requests, intern)
    volumes = source.volumes or ()
    return PodTemplate(
        labels=NO_LABELS,
        annotations=NO_LABELS,
        spec=structs.replace(spec, node_name=source.node_name or None),
        requests=requests,
        scored=scored,
        requested=intern(requested),
        service_account=source.service_account_name or "default",
        security=intern(tuple(find_violations(source))),
        claims=tuple(volume.persistent_volume_claim.claim_name for volume in volumes if volume.persistent_volume_claim),
        claim_templates=tuple(volume.name for volume in volumes if volume.ephemeral is not None),
    )


def _decode_spec(
    source: wire.PodSpec,
    requested: PodRequests,
    requests: Resources,
    intern: Interner,
    owners: Iterable[wire.OwnerReference] = (),
) -> PodSpec:
    """Read the part of a pod's spec that affects scheduling, without constraints that exceed the limits of reading."""
    every = (*(source.init_containers or ()), *source.containers)
    excess = bounds.find_excess(source, owners)
    if excess:
        unread = bounds.summarize_unread(source)
        placement = PodSpec(pod_affinity=PodAffinity(unread=unread), unread=excess)
    else:
        placement = PodSpec(
            node_affinity=constraints.decode_node_affinity(source),
            pod_affinity=constraints.decode_pod_affinity(source),
            tolerations=intern(constraints.decode_tolerations(source.tolerations, "spec.tolerations")),
            spread=intern(constraints.decode_spread(source)),
        )
    return structs.replace(
        placement,
        requests=requests,
        scored=sum_scored_requests(requested),
        scored_sidecars_as_init=sum_scored_sidecars_as_init(requested),
        host_ports=_decode_host_ports(source),
        images=intern(tuple(bounds.shorten(container.image, bounds.LONGEST_TEXT) for container in every)),
        containers=len(every),
        priority=source.priority or 0,
        priority_class=source.priority_class_name,
        preempts=source.preemption_policy != "Never",
        scheduler=bounds.shorten(source.scheduler_name or "default-scheduler", bounds.LONGEST_NAME),
        gated=bool(source.scheduling_gates),
        unpredictable=_list_unpredictable_fields(source),
        pod_group=source.scheduling_group.pod_group_name if source.scheduling_group is not None else "",
        eviction_responders=bool(source.eviction_responders),
        runtime_class=source.runtime_class_name,
        os=source.os.name if source.os is not None else "",
        needs=tuple(_find_needs(source)),
        host_network=source.host_network,
    )


def _read_volumes(
    volumes: Sequence[wire.Volume] | None, name: str
) -> tuple[tuple[str, ...], tuple[LocalVolume, ...], tuple[str, ...], bool]:
    """Return a pod's claims, its local volumes sorted by name, inline CSI drivers, and whether it has inline disks."""
    claims: list[str] = []
    drivers: set[str] = set()
    local: list[LocalVolume] = []
    disks = False
    for volume in volumes or ():
        if volume.persistent_volume_claim is not None:
            claims.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            claims.append(f"{name}-{volume.name}")
            local.append(LocalVolume(volume.name, LocalStorage.EPHEMERAL))
        elif volume.empty_dir is not None:
            if volume.empty_dir.medium != "Memory":
                local.append(LocalVolume(volume.name, LocalStorage.EMPTY_DIR))
        elif volume.host_path is not None:
            local.append(LocalVolume(volume.name, LocalStorage.HOST_PATH))
        elif volume.csi is not None:
            drivers.add(volume.csi.driver)
        else:
            disks = disks or volume.has_inline_disk
    return tuple(claims), tuple(sorted(local)) if local else (), tuple(sorted(drivers)) if drivers else (), disks


def _find_needs(source: wire.PodSpec) -> Iterator[NodeFeature]:
    if source.host_users is False:
        yield NodeFeature.USER_NAMESPACES
    context = source.security_context
    if context is not None and context.supplemental_groups_policy == "Strict":
        yield NodeFeature.SUPPLEMENTAL_GROUPS_POLICY


def _decode_host_ports(source: wire.PodSpec) -> tuple[HostPort, ...]:
    """Return the ports that a pod takes on its node: with hostNetwork all, which the API server writes only in pods.

    Source: `pkg/apis/core/v1/defaults.go` (defaultHostNetworkPorts).
    """
    sidecars = (container for container in source.init_containers or () if container.restart_policy == "Always")
    ports = {
        HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", number)  # noqa: S104  # "any", not a bind
        for container in (*sidecars, *source.containers)
        for port in container.ports or ()
        if (number := port.host_port or (port.container_port if source.host_network else 0)) > 0
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
    for container in (*(source.init_containers or ()), *source.containers):
        if any(rule.action == _RESTART_ALL for rule in container.restart_policy_rules or ()):
            names.append(f"the node feature {_RESTART_ALL}OnContainerExits")
            break
    return tuple(names)
