"""The values of a cycle for the metrics: plain rows in one immutable object.

The collector exports the last object as a whole. So a scrape never sees a partial cycle, and a deleted workload leaves
no stale series.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rebalancer.model.breaker import BreakerCause
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
        """The values of its labels, in the order of the metric's declaration."""
        return (*self.subject, self.topology_key, self.when_unsatisfiable)

    @property
    def headroom(self) -> int:
        """MaxSkew less the skew; below 0 the constraint is violated."""
        return self.max_skew - self.skew


@dataclass(frozen=True, kw_only=True)
class LimitSamples:
    """One limit of the policy on one set of pods.

    `key` are the values of the groupBy keys, joined by `/`. `share` is the largest domain's, None without a domain;
    `worst` is the domain that violates the limit most, or is the closest to it.
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
        """The values of its labels, in the order of the metric's declaration."""
        return self.group, self.limit, self.namespace, self.key, self.topology_key


@dataclass(frozen=True, kw_only=True)
class WorkloadSamples:
    """Whether something is wrong with a workload; what it is, the metric says."""

    namespace: str
    workload_kind: str
    workload: str
    wrong: bool

    @property
    def subject(self) -> tuple[str, ...]:
        """The workload."""
        return self.labels

    @property
    def labels(self) -> tuple[str, ...]:
        """The values of its labels, in the order of the metric's declaration."""
        return self.namespace, self.workload_kind, self.workload

    @property
    def headroom(self) -> int:
        """-1 if it is, else 0."""
        return -1 if self.wrong else 0

    @property
    def state(self) -> State:
        """The state by which series are limited."""
        return State.VIOLATED if self.wrong else State.SATISFIED


@dataclass(frozen=True, kw_only=True)
class DomainSamples:
    """A domain without nodes that a constraint of a workload would count.

    `headroom` is maxSkew less the skew with a node there; below 0 the constraint would be violated.
    """

    namespace: str
    workload_kind: str
    workload: str
    topology_key: str
    domain: str
    headroom: int

    @property
    def labels(self) -> tuple[str, ...]:
        """The values of its labels, in the order of the metric's declaration."""
        return self.namespace, self.workload_kind, self.workload, self.topology_key, self.domain


@dataclass(frozen=True, kw_only=True)
class PlanParts:
    """The evictions of a plan, by part."""

    now: int = 0
    waiting: int = 0
    later: int = 0
    blocked: int = 0


@dataclass(frozen=True, kw_only=True)
class CycleSamples:
    """The last cycle and the process around it.

    The values of a cycle are exported only while `leader` is true. Times are None before the first one.
    """

    leader: bool = False
    mode: Mode = Mode.OBSERVE
    paused: bool = False
    breaker_causes: frozenset[BreakerCause] = frozenset()
    memory_saved: bool = True
    policy_valid: bool = True
    policy_read_at: datetime | None = None
    team_policies: Mapping[str, bool] = field(default_factory=dict)
    cycle_ended_at: datetime | None = None
    constraints: tuple[ConstraintSamples, ...] = ()
    limits: tuple[LimitSamples, ...] = ()
    replacements: tuple[WorkloadSamples, ...] = ()
    domains_without_nodes: tuple[DomainSamples, ...] = ()
    scale_downs: tuple[WorkloadSamples, ...] = ()
    prevention_left: int = 0
    prevention_stopped: bool = False
    findings: Mapping[FindingKind, int] = field(default_factory=dict)
    plan_parts: PlanParts = field(default_factory=PlanParts)
    minimum_evictions: int = 0
    plan_pending: int = 0
    in_flight: int = 0
    slow_start_window: int = 0
    under_way: int = 0
    overdue: int = 0
    placeholders: int = 0
    refusals: Mapping[Reason, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WatchSamples:
    """One watch, as it is at the moment of the scrape. `age` is in seconds."""

    kind: str
    age: float
    objects: int
