"""Owners of pods: ReplicaSets, StatefulSets, ReplicationControllers, owners of ReplicaSets, and foreign owners.

A foreign owner is of a kind that Kubernetes itself does not have, such as a CloneSet of apps.kruise.io.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct, structs

from rebalancer.model.containers import PodRequests
from rebalancer.model.creation import SecurityViolation
from rebalancer.model.labels import NO_LABELS, Labels, LabelSelector
from rebalancer.model.moves import Reference
from rebalancer.model.pods import NOTHING, OwnerReference, PodSpec, Resources

BUILT_IN: Final[Mapping[str, str]] = {
    "Deployment": "apps",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
    "ReplicationController": "",
}
"""The owners of Kubernetes' own controllers that replace evicted pods, and their groups."""


def name_kind(kind: str, group: str) -> str:
    """Return the name of a kind, with its group if Kubernetes itself has a kind of that name."""
    return kind if BUILT_IN.get(kind, group) == group else f"{kind}.{group}"


def name_owner(kind: str, group: str, namespace: str, name: str) -> str:
    """Return what identifies an owner that could not be read."""
    return f"{kind}.{group} {namespace}/{name}"


class PodTemplate(Struct, frozen=True, gc=False, kw_only=True):
    """The template of an owner's next pod, before the API server adds its defaults.

    `claims` are the names of volumes of the template that name existing claims. `claim_templates` are a StatefulSet's:
    each pod gets its own claim (`<template>-<pod>`). `security` is what Pod Security forbids of it.
    """

    labels: Labels = NO_LABELS
    annotations: Labels = NO_LABELS
    spec: PodSpec = PodSpec()
    requests: Resources = NOTHING
    scored: tuple[int, int] = (0, 0)
    requested: PodRequests | None = None
    service_account: str = "default"
    security: tuple[SecurityViolation, ...] = ()
    claims: tuple[str, ...] = ()
    claim_templates: tuple[str, ...] = ()


DEFAULT_PROGRESS_DEADLINE: Final = 600
"""Seconds: the default of a Deployment's `progressDeadlineSeconds`."""


class Workload(Struct, frozen=True, gc=False, kw_only=True):
    """An owner that creates pods, a Deployment, or another owner above ReplicaSets."""

    group: str
    kind: str
    """The kind as `name_kind` returns it."""
    namespace: str
    name: str
    uid: str
    labels: Labels = NO_LABELS
    annotations: Labels = NO_LABELS
    selector: LabelSelector | None = None
    template: PodTemplate | None = None
    replicas: int = 1
    """The desired number; `current`, `ready` and `updated` are the numbers of its status."""
    current: int = 0
    ready: int = 0
    updated: int = 0
    revision: str = ""
    """The label value that marks pods of the current template, "" if there is none.

    The labels are `pod-template-hash` and `controller-revision-hash`.
    """
    observed: bool = True
    """Whether its controller has seen the newest generation."""
    paused: bool = False
    min_ready_seconds: int = 0
    progress_deadline_seconds: int = DEFAULT_PROGRESS_DEADLINE
    """How long its pods may take to become Ready; kinds without that field have the default."""
    first_ordinal: int = 0
    """The ordinal of a StatefulSet's first pod."""
    on_delete: bool = False
    """Whether its pods get the current template only after somebody deletes them."""
    current_revision: str = ""
    """With `partition`, which pods keep an older template (`held_back`)."""
    partition: int = 0
    parallel: bool = False
    """Its podManagementPolicy is not OrderedReady."""
    ordered: bool = False
    """The podManagementPolicy of a foreign owner is OrderedReady."""
    owner: OwnerReference | None = None
    owning_pod: str = ""
    """The UID of the pod that is its only owner, "" without: the garbage collector deletes both together."""
    created: datetime
    deleted: datetime | None = None
    creation_failure: str = ""
    """Why a ReplicaSet or ReplicationController could not create its last pod, "" without.

    This is the message of its condition ReplicaFailure.
    """
    resource_version: str = ""
    """Set by the simulator only; "" for objects from a server, because every write changes it and nothing needs it."""

    @property
    def is_foreign(self) -> bool:
        """Whether another controller than Kubernetes' own creates its pods."""
        return self.kind not in BUILT_IN

    @property
    def keeps_pods(self) -> bool:
        """Whether each of its pods comes back under its name and with its claims, as a copy of itself.

        A StatefulSet does so by its template. A foreign owner without a template has a definition of each pod, like a
        StrimziPodSet.
        """
        return self.is_foreign and self.template is None

    @property
    def ordinals(self) -> range:
        """The numbers of the pods that a StatefulSet wants."""
        return range(self.first_ordinal, self.first_ordinal + self.replicas)

    @property
    def held_back(self) -> range:
        """The ordinals whose pods a StatefulSet's partition keeps, and creates, at an older revision.

        Source: `pkg/controller/statefulset/stateful_set_utils.go` (newVersionedStatefulSetPod): the partition counts
        from the first ordinal. Without a `currentRevision` the controller takes the newest revision for it.
        """
        if self.on_delete or self.current_revision in {"", self.revision}:
            return range(0)
        return self.ordinals[: self.partition]

    def revision_at(self, ordinal: int) -> str:
        """Return the revision at which a StatefulSet creates its pod of this ordinal."""
        return self.current_revision if ordinal in self.held_back else self.revision

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} ({self.kind})"


def qualify_kinds(workloads: Sequence[Workload]) -> Sequence[Workload]:
    """Name foreign kinds with their group if owners of two groups share kind, namespace and name."""
    foreign = [owner for owner in workloads if owner.is_foreign]
    counts = Counter(map(reference_of, foreign))
    if len(counts) == len(foreign):
        return workloads
    return tuple(
        structs.replace(owner, kind=f"{owner.kind}.{owner.group}") if counts[reference_of(owner)] > 1 else owner
        for owner in workloads
    )


def pod_ordinal(name: str) -> int:
    """Return the number at the end of the name of a StatefulSet's pod, -1 if there is none."""
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def is_beyond(ordinal: int, owner: Workload) -> bool:
    """Return whether a StatefulSet deletes its pod of this ordinal; a pod without an ordinal is not its own."""
    return ordinal >= 0 and ordinal not in owner.ordinals


def reference_of(workload: Workload) -> Reference:
    """Name a workload."""
    return Reference(workload.namespace, workload.kind, workload.name)
