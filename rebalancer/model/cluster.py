"""The small objects of a cluster besides pods, nodes, workloads and volumes, and the version of its API server.

Some of them say what may happen to pods: a PodDisruptionBudget how many may be evicted, a HorizontalPodAutoscaler how
far a workload may be scaled down automatically, a NodePool of Karpenter which nodes an autoscaler would create.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Self

from msgspec import Struct

from rebalancer.model.affinity import Taint
from rebalancer.model.labels import NO_LABELS, Labels, LabelSelector, SelectorRequirement


class Autoscaler(Struct, frozen=True, gc=False, kw_only=True):
    """A HorizontalPodAutoscaler: the workload that it scales, and the fewest and the most replicas."""

    namespace: str
    name: str
    target_kind: str
    target_name: str
    min_replicas: int = 1
    max_replicas: int | None = None


class NodePool(Struct, frozen=True, gc=False, kw_only=True):
    """A NodePool: labels and taints of its future nodes, and requirements on their other labels.

    `deleted` is set while the NodePool is being deleted: it no longer creates nodes.
    """

    name: str
    labels: Labels = NO_LABELS
    requirements: tuple[SelectorRequirement, ...] = ()
    taints: tuple[Taint, ...] = ()
    deleted: bool = False


class DisruptionBudget(Struct, frozen=True, gc=False, kw_only=True):
    """A PodDisruptionBudget (policy/v1) with the status its controller last wrote."""

    namespace: str
    name: str
    uid: str = ""
    selector: LabelSelector | None = None
    """None matches no pod, an empty selector every pod of the namespace."""
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    always_allow: bool = False
    """Unready pods may be evicted even if the budget allows none."""
    generation: int = 1
    observed_generation: int = 0
    allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected: int = 0
    disrupted: tuple[tuple[str, datetime], ...] = ()
    """(pod name, when) of evictions that the API server has granted, while the pods are not yet seen terminating."""
    synced: bool = True
    """False if its controller could not compute the status."""
    failure: str = ""
    """The controller's message if `synced` is false."""
    resource_version: str = ""
    """Set by the simulator only; "" for objects from a server, because every write changes it and nothing needs it."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def desired_of(self, expected: int) -> int:
        """Return how many of the expected pods must stay healthy.

        Percentages round up, including percentages of unavailable pods. Source:
        `pkg/controller/disruption/disruption.go` (getExpectedPodCount), GetScaledValueFromIntOrPercent.
        """
        if self.max_unavailable is not None:
            return max(0, expected - _resolve_amount(self.max_unavailable, expected))
        return _resolve_amount(self.min_available or 0, expected)

    @property
    def remedy(self) -> str:
        """How to make a budget computable again: only the scale of the pods' controllers can be missing.

        A number of healthy pods needs no scale; a percentage and maxUnavailable refer to the controllers' scales.
        """
        if self.max_unavailable is None and isinstance(self.min_available, int):
            return "Correct what it names"
        return (
            "Narrow its selector to pods whose controllers have the scale subresource, which a Job, for one, has not, "
            "or set minAvailable to a number of pods"
        )


def _resolve_amount(amount: int | str, expected: int) -> int:
    """Resolve a number or a percentage."""
    if isinstance(amount, int):
        return amount
    return -(-int(amount.removesuffix("%")) * expected // 100)


class Namespace(Struct, frozen=True, gc=False, kw_only=True):
    """A namespace with its labels, which affinity terms may select. `terminating`: it has a deletionTimestamp.

    `changed` is when it was last changed, apart from its status, None if not known.
    """

    name: str
    labels: Labels = NO_LABELS
    annotations: Labels = NO_LABELS
    terminating: bool = False
    changed: datetime | None = None


class Service(Struct, frozen=True, gc=False, kw_only=True):
    """A service. `selector` None: it selects no pods itself."""

    namespace: str
    name: str
    selector: Labels | None = None


class PriorityClass(Struct, frozen=True, gc=False, kw_only=True):
    """A priority class."""

    name: str
    value: int
    default: bool = False
    preempts: bool = True


class SchedulingGroup(Struct, frozen=True, gc=False, kw_only=True):
    """A PodGroup, which `spec.schedulingGroup` of its pods names. `whole`: only all its pods together may be disrupted.

    Source: `k8s.io/api/scheduling/v1beta1/types.go` (DisruptionMode); a PodGroup without the field lets each pod go.
    """

    namespace: str
    name: str
    whole: bool = False


class DeviceClass(Struct, frozen=True, gc=False, kw_only=True):
    """A class of devices that claims request; `extended_resource` is the resource that it stands for, "" without."""

    name: str
    extended_resource: str = ""


class Version(Struct, frozen=True, gc=False, order=True):
    """The API server's version; the scheduler is assumed to have the same."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `1.37`, `v1.37.2`, `1.33+`; raise ValueError for anything else."""
        parts = text.removeprefix("v").split(".")
        try:
            return cls(int(parts[0]), int(parts[1].rstrip("+")))
        except (ValueError, IndexError):
            raise ValueError(f"{text!r} is not a Kubernetes version; expected one such as 1.37") from None

    def __str__(self) -> str:
        """Show it as `1.37`."""
        return f"{self.major}.{self.minor}"


OLDEST = Version(1, 30)
"""The oldest version whose scheduler is modelled."""
NEWEST = Version(1, 37)
"""The version to assume if none is given."""


def describe_unmodelled(version: Version) -> str:
    """Say that the scheduler of an API server's version is not modelled, and what to do; "" if it is."""
    if OLDEST <= version <= NEWEST:
        return ""
    known, remedy = (
        (f"newest release whose scheduler is modelled is {NEWEST}", "Look for a newer release of Rebalancer")
        if version > NEWEST
        else (f"oldest release whose scheduler is modelled is {OLDEST}", "Upgrade the cluster")
    )
    return f"the API server is Kubernetes {version}, the {known}: pods may be placed otherwise than predicted. {remedy}"


class FieldManager(Struct, frozen=True):
    """A program that has written keys of a ConfigMap, as Kubernetes records it, and when it last did."""

    name: str
    at: datetime | None
    keys: frozenset[str]


class ConfigMap(Struct, frozen=True, kw_only=True):
    """A ConfigMap: its keys with text, the names of its keys with binary data, and who has written them.

    `declared` is what the last command has declared about its author (`history.declared`), "" if nothing.
    """

    namespace: str
    name: str
    uid: str
    data: Mapping[str, str]
    binary: frozenset[str] = frozenset()
    declared: str = ""
    managers: tuple[FieldManager, ...] = ()
