"""Owners of pods."""

from typing import Final

from msgspec import structs

from rebalancer.decoding import bounds, wire
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.metadata import (
    decode_annotations,
    decode_labels,
    decode_selector,
    find_controller,
    find_owning_pod,
    get_creation_time,
)
from rebalancer.decoding.pods import decode_template
from rebalancer.model.labels import LabelSelector
from rebalancer.model.workloads import DEFAULT_PROGRESS_DEADLINE, Workload

_NO_DEADLINE: Final = 2**31 - 1


def decode_deployment(source: wire.Owner, intern: Interner) -> Workload:
    """Convert a Deployment to the model's; its pods carry the revision of its newest ReplicaSet, not of its own."""
    return _decode_owner(source, "Deployment", "", intern)


def decode_replica_set(source: wire.ReplicaSet, intern: Interner) -> Workload:
    """Convert a ReplicaSet to the model's."""
    made = _decode_owner(source, "ReplicaSet", (source.metadata.labels or {}).get("pod-template-hash", ""), intern)
    failure = _find_failure(source.status)
    return structs.replace(made, creation_failure=failure) if failure else made


def decode_stateful_set(source: wire.Owner, intern: Interner) -> Workload:
    """Convert a StatefulSet to the model's; its revision is the one it is updating to.

    A StatefulSet with strategy `OnDelete` has no rollout of its own: its status does not say that one is under way.
    Without a strategy or a podManagementPolicy, as in files, the API server's defaults hold.
    """
    made = _decode_owner(source, "StatefulSet", source.status.update_revision, intern)
    spec = source.spec
    strategy = spec.update_strategy or wire.UpdateStrategy()
    on_delete, rolling = strategy.type == "OnDelete", strategy.rolling_update
    return structs.replace(
        made,
        first_ordinal=spec.ordinals.start if spec.ordinals is not None else 0,
        on_delete=on_delete,
        updated=made.current if on_delete else made.updated,
        current_revision=intern(source.status.current_revision),
        partition=(rolling.partition or 0) if rolling is not None else 0,
        parallel=spec.pod_management_policy == "Parallel",
    )


def decode_replication_controller(source: wire.ReplicationController, intern: Interner) -> Workload:
    """Convert a ReplicationController to the model's; without a selector it selects its template's labels."""
    spec = source.spec
    chosen = spec.selector
    if not chosen and spec.template is not None and spec.template.metadata is not None:
        chosen = spec.template.metadata.labels
    metadata = source.metadata
    return Workload(
        group="",
        kind="ReplicationController",
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        labels=intern(decode_labels(metadata.labels)),
        annotations=intern(decode_annotations(metadata.annotations)),
        selector=LabelSelector.of(chosen) if chosen else None,
        template=decode_template(spec.template, intern),
        replicas=_default_replicas(spec.replicas),
        current=source.status.replicas,
        ready=source.status.ready_replicas,
        updated=source.status.replicas,
        observed=source.status.observed_generation >= metadata.generation,
        min_ready_seconds=spec.min_ready_seconds,
        owner=find_controller(metadata.owner_references),
        created=get_creation_time(metadata),
        deleted=metadata.deletion_timestamp,
        creation_failure=_find_failure(source.status),
        owning_pod=find_owning_pod(metadata.owner_references),
    )


def _find_failure(status: wire.CreatorStatus) -> str:
    """Return why the owner's last attempt to create a pod failed, "" if it did not; deletions fail with a reason too.

    Source: `pkg/controller/replicaset/replica_set_utils.go` (calculateStatus); it is gone with the next success.
    """
    for condition in status.conditions or ():
        if (condition.type, condition.status, condition.reason) == ("ReplicaFailure", "True", "FailedCreate"):
            return bounds.shorten(condition.message or condition.reason, bounds.LONGEST_TEXT)
    return ""


def _decode_owner(source: wire.Owner, kind: str, revision: str, intern: Interner) -> Workload:
    metadata, spec, status = source.metadata, source.spec, source.status
    claim_templates = tuple(claim_template.metadata.name for claim_template in spec.volume_claim_templates or ())
    return Workload(
        group="apps",
        kind=kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        labels=intern(decode_labels(metadata.labels)),
        annotations=intern(decode_annotations(metadata.annotations)),
        selector=decode_selector(spec.selector, "spec.selector"),
        template=decode_template(spec.template, intern, claim_templates),
        replicas=_default_replicas(spec.replicas),
        current=status.replicas,
        ready=status.ready_replicas,
        updated=status.replicas if kind == "ReplicaSet" else status.updated_replicas,
        revision=revision,
        observed=status.observed_generation >= metadata.generation,
        paused=spec.paused,
        min_ready_seconds=spec.min_ready_seconds,
        progress_deadline_seconds=read_deadline(spec.progress_deadline_seconds),
        owner=find_controller(metadata.owner_references),
        owning_pod=find_owning_pod(metadata.owner_references),
        created=get_creation_time(metadata),
        deleted=metadata.deletion_timestamp,
    )


def read_deadline(seconds: int | None) -> int:
    """Return a progress deadline; the default if there is none or the number means none (MaxInt32)."""
    return DEFAULT_PROGRESS_DEADLINE if seconds is None or seconds >= _NO_DEADLINE else seconds


def _default_replicas(replicas: int | None) -> int:
    return 1 if replicas is None else replicas
