"""What a cycle leaves behind for the metrics: plain rows in one immutable value.

The collector shows the value that it was last given, whole. So a scrape never sees half a cycle, and a workload that is
gone leaves no stale series.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rebalancer.model.reasons import FindingKind, Reason, State
from rebalancer.policy import Mode


@dataclass(frozen=True, kw_only=True)
class ConstraintSamples:
    """One constraint of one workload."""

    namespace: str
    workload_kind: str
    workload: str
    topology_key: str
    when_unsatisfiable: str
    skew: int
    max_skew: int
    state: State

    @property
    def subject(self) -> tuple[str, ...]:
        """The workload."""
        return self.namespace, self.workload_kind, self.workload

    @property
    def labels(self) -> tuple[str, ...]:
        """The values of its labels, in the order of their declaration."""
        return (*self.subject, self.topology_key, self.when_unsatisfiable)

    @property
    def headroom(self) -> int:
        """How much more skew it has room for; below 0 it is violated."""
        return self.max_skew - self.skew


@dataclass(frozen=True, kw_only=True)
class LimitSamples:
    """One limit of the policy on one set of pods.

    `key` are the values that tell the set, joined by `/`. `share` is the largest domain's, None where there is none;
    `worst` is the domain that breaks the limit, or would first.
    """

    group: str
    limit: str
    namespace: str
    key: str
    topology_key: str
    share: float | None
    headroom: int
    state: State
    severity: str
    worst: str | None

    @property
    def subject(self) -> tuple[str, ...]:
        """The set of pods."""
        return self.group, self.namespace, self.key

    @property
    def labels(self) -> tuple[str, ...]:
        """The values of its labels, in the order of their declaration."""
        return self.group, self.limit, self.namespace, self.key, self.topology_key


@dataclass(frozen=True, kw_only=True)
class ReplacementSamples:
    """Whether a pod of a workload that vanished could be replaced."""

    namespace: str
    workload_kind: str
    workload: str
    blocked: bool

    @property
    def subject(self) -> tuple[str, ...]:
        """The workload."""
        return self.labels

    @property
    def labels(self) -> tuple[str, ...]:
        """The values of its labels, in the order of their declaration."""
        return self.namespace, self.workload_kind, self.workload

    @property
    def headroom(self) -> int:
        """Nothing is between the two; below 0 it is blocked."""
        return -1 if self.blocked else 0

    @property
    def state(self) -> State:
        """What the bound on series goes by."""
        return State.VIOLATED if self.blocked else State.SATISFIED


@dataclass(frozen=True, kw_only=True)
class CycleSamples:
    """The last cycle and the process around it.

    What follows from a cycle is shown only while `leader` is true. Times are None where there is none yet.
    """

    leader: bool = False
    mode: Mode = Mode.OBSERVE
    paused: bool = False
    policy_valid: bool = True
    policy_read_at: datetime | None = None
    cycle_ended_at: datetime | None = None
    constraints: tuple[ConstraintSamples, ...] = ()
    limits: tuple[LimitSamples, ...] = ()
    replacements: tuple[ReplacementSamples, ...] = ()
    findings: Mapping[FindingKind, int] = field(default_factory=dict)
    planned_evictions: int = 0
    minimum_evictions: int = 0
    in_flight: int = 0
    refusals: Mapping[Reason, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WatchSamples:
    """One watch, as it is at the moment of the scrape. `age` is in seconds."""

    kind: str
    age: float
    objects: int
