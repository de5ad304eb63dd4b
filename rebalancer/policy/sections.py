"""The parts of a policy: the scheduler, what is repaired, which pods may be evicted, and how many at once.

Defaults are chosen so that an empty section is safe on a production cluster. The docstrings of fields become the
descriptions of the JSON Schema.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from rebalancer.model.affinity import TermKind
from rebalancer.model.pods import LocalStorage
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.policy.amounts import LARGEST, Amount, AmountField
from rebalancer.policy.base import Section
from rebalancer.policy.durations import DAY, Duration, at_most
from rebalancer.policy.names import Glob, NamespaceFilter, Owner, OwnerField, PlainText, PriorityBound
from rebalancer.policy.selectors import LabelKey, Selector


class Scheduler(Section):
    """The scheduler, by the name in the pods' `schedulerName`, and its configuration."""

    name: PlainText = "default-scheduler"
    """Only pods with this `schedulerName` are evicted."""
    config_file: PlainText | None = None
    """A KubeSchedulerConfiguration: default constraints, weights, profiles, samples. null: Kubernetes' defaults."""


class Spread(Section):
    """Which kinds of constraints are repaired, and how long a violation must last."""

    act_on: tuple[WhenUnsatisfiable, ...] = (WhenUnsatisfiable.DO_NOT_SCHEDULE,)
    """Constraints with these `whenUnsatisfiable` values are repaired; []: none. All are reported."""
    for_: Annotated[Duration, at_most(DAY)] = Field(default=timedelta(minutes=2), alias="for")
    """How long a violation must last before pods are evicted to repair it."""


class AntiAffinity(Section):
    """Which terms of podAntiAffinity are repaired, and how long a violation must last."""

    act_on: tuple[TermKind, ...] = ()
    """Terms of these kinds are repaired; []: none. All are reported."""
    for_: Annotated[Duration, at_most(DAY)] = Field(default=timedelta(minutes=2), alias="for")
    """How long a violation must last before pods are evicted to repair it."""


class EligibleNamespaces(NamespaceFilter):
    """The namespaces whose pods may be evicted: all that match `include`, except those that match `exclude`."""

    exclude: tuple[Glob, ...] = ("kube-system",)
    """Globs of namespaces that are not selected, even if they match `include`."""


class Permission(StrEnum):
    """Whether something is allowed."""

    REFUSE = "Refuse"
    ALLOW = "Allow"


class LocalStoragePermissions(Section):
    """Whether pods with data on their node may be evicted, by the kind of the volume.

    A pod is evicted nevertheless if its annotation `cluster-autoscaler.kubernetes.io/safe-to-evict` is "true", or if
    its annotation `cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes` lists all such volumes.
    """

    empty_dir: Permission = Permission.REFUSE
    """Pods with an emptyDir, whose data an eviction deletes; an emptyDir with `medium: Memory` does not count."""
    ephemeral: Permission = Permission.REFUSE
    """Pods with a generic ephemeral volume, whose claim an eviction deletes."""
    host_path: Permission = Permission.REFUSE
    """Pods with a hostPath, or with a claim for a hostPath or local volume without a node: the data stays behind."""

    @property
    def refused(self) -> frozenset[LocalStorage]:
        """The kinds of volumes that prevent the eviction of a pod."""
        permissions = {
            LocalStorage.EMPTY_DIR: self.empty_dir,
            LocalStorage.EPHEMERAL: self.ephemeral,
            LocalStorage.HOST_PATH: self.host_path,
        }
        return frozenset(kind for kind, permission in permissions.items() if permission is Permission.REFUSE)


class Eligibility(Section):
    """Which pods may be evicted. The others still count, as they do for the scheduler."""

    namespaces: EligibleNamespaces = EligibleNamespaces()
    """Namespaces whose pods may be evicted."""
    selector: Selector | None = None
    """Pods that may be evicted; null or {}: all."""
    owners: tuple[OwnerField, ...] = (
        Owner("ReplicaSet", "apps"),
        Owner("StatefulSet", "apps"),
        Owner("ReplicationController", ""),
    )
    """Kinds of owners whose pods may be evicted; foreign ones as Kind.group, such as CloneSet.apps.kruise.io."""
    min_replicas: Annotated[int, Field(strict=True, ge=1, le=LARGEST)] = 2
    """Pods of workloads with fewer replicas are not evicted."""
    min_age: Duration = timedelta(minutes=5)
    """Younger pods are not evicted."""
    priority_below: PriorityBound = "system-cluster-critical"
    """Only pods of a lower priority are evicted: a number, or the name of a PriorityClass, which means its value."""
    local_storage: LocalStoragePermissions = LocalStoragePermissions()
    """Whether pods with data on their node may be evicted."""
    preemption: Permission = Permission.REFUSE
    """Whether a pod may be evicted if its replacement would preempt pods of lower priority, which deletes them."""

    max_terms: Annotated[int, Field(strict=True, ge=1, le=64)] = 16
    """Pods with more topology spread constraints, or more terms of one kind of pod affinity, are not evicted."""

    @property
    def foreign_owners(self) -> tuple[tuple[str, str], ...]:
        """Kind and group of each listed owner that Kubernetes itself does not have."""
        return tuple((owner.kind, owner.group) for owner in self.owners if owner.is_foreign)


class Budgets(Section):
    """How many pods may be unavailable, and how many evictions are sent, at a time. PodDisruptionBudgets apply as well.

    The smallest budget decides. A percentage rounds down, but not below 1 if there are at least two pods.
    """

    max_unavailable: AmountField = Amount(value=1)
    """Pods of a workload that may be unavailable, whatever the cause; a percentage is of its replicas."""
    per_workload: AmountField = Amount(value=10, percent=True)
    """How many evictions of one workload may be in flight at once; a percentage is of its replicas."""
    per_cycle: AmountField = Amount(value=50)
    """How many evictions are sent within any `interval` (at most a minute); a percentage is of all pods."""
    per_node: AmountField = Amount(value=2)
    """How many evictions are sent from one node within such a time; a percentage is of the pods on the node."""
    per_namespace: AmountField = Amount(value=20)
    """How many evictions are sent in one namespace within such a time; a percentage is of its pods."""
    per_minute: AmountField = Amount(value=60)
    """How many evictions are sent within any minute; a percentage is of all pods."""
    parallel: Annotated[int, Field(strict=True, ge=1, le=64)] = 4
    """How many eviction requests are under way at once, each for another group of workloads."""
    slow_start: Annotated[bool, Field(strict=True)] = True
    """Whether moves under way are at most 2 in the cluster and 1 in a namespace, and one more for each that arrived."""
    canary: Annotated[int, Field(strict=True, ge=0, le=10)] = 0
    """How many pods of a workload are moved first; the others wait until these moves are verified. 0: none."""


class Nodes(Section):
    """When a node counts as a target of replacements."""

    settle: Annotated[Duration, at_most(DAY)] = timedelta(minutes=5)
    """How long a node that became Ready, was uncordoned or relabelled is no target, and its new label no reason."""
    leaving_taints: tuple[LabelKey, ...] = ()
    """Keys of further taints that mark nodes as leaving or in maintenance: no targets, whatever a pod tolerates."""
