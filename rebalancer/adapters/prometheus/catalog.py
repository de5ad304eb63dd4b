"""Every metric, declared once as data: the code makes its instruments from it, and the reference page its table.

Dashboards and alerts rely on names, labels and values. No label has pod names: every label set is bounded by workloads,
kinds or closed lists.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rebalancer.capacity.requests import Result
from rebalancer.model.breaker import BreakerCause
from rebalancer.model.reasons import FindingKind, Reason, State
from rebalancer.policy import Mode
from rebalancer.ports import EvictionResult, PatchResult


class Type(StrEnum):
    """The type of a metric, as in the exposition format."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Stability(StrEnum):
    """The stability of a metric: a stable metric changes only with an entry in the changelog."""

    STABLE = "stable"
    ALPHA = "alpha"


class MoveOutcome(StrEnum):
    """The outcome of a move."""

    VERIFIED = "verified"
    INEFFECTIVE = "ineffective"
    PENDING = "pending"
    LOST = "lost"
    OVERTAKEN = "overtaken"


class Phase(StrEnum):
    """The phases of a cycle."""

    SNAPSHOT = "snapshot"
    ASSESS = "assess"
    PLAN = "plan"
    ADMIT = "admit"
    ACT = "act"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric. `values` lists all values of the last label where they are a closed list.

    Series of a closed list exist from the start, with value 0, so that rates and alerts see the first increase.
    `leader_only`: standbys do not export it, so that a sum over all replicas counts the cluster once.
    """

    name: str
    help: str
    type: Type = Type.GAUGE
    labels: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    leader_only: bool = False
    stability: Stability = Stability.STABLE


_CONSTRAINT: Final = ("namespace", "workload_kind", "workload", "topology_key", "when_unsatisfiable")
_LIMIT: Final = ("group", "limit", "namespace", "key", "topology_key")

CONSTRAINT_SKEW: Final = Metric(
    name="rebalancer_constraint_skew",
    help="Pods in the fullest domain less pods in the emptiest, as kube-scheduler counts them.",
    labels=_CONSTRAINT,
    leader_only=True,
)
CONSTRAINT_MAX_SKEW: Final = Metric(
    name="rebalancer_constraint_max_skew",
    help="The skew that the constraint allows.",
    labels=_CONSTRAINT,
    leader_only=True,
)
CONSTRAINT_STATE: Final = Metric(
    name="rebalancer_constraint_state",
    help="1 for the state that the constraint is in, 0 for the others.",
    labels=(*_CONSTRAINT, "state"),
    values=tuple(State),
    leader_only=True,
)
LIMIT_SHARE: Final = Metric(
    name="rebalancer_limit_share_ratio",
    help="Share of the pods in the fullest domain; key has the values of the group's groupBy keys, joined by /.",
    labels=_LIMIT,
    leader_only=True,
)
LIMIT_HEADROOM: Final = Metric(
    name="rebalancer_limit_headroom",
    help="Pods by which the worst domain is within the limit; below 0 the limit is violated.",
    labels=_LIMIT,
    leader_only=True,
)
LIMIT_STATE: Final = Metric(
    name="rebalancer_limit_state",
    help="1 for the state that the limit is in, 0 for the others.",
    labels=(*_LIMIT, "severity", "state"),
    values=tuple(State),
    leader_only=True,
)
LIMIT_WORST_DOMAIN: Final = Metric(
    name="rebalancer_limit_worst_domain",
    help="1 for the domain that violates the limit most; only the worst 1,000 series.",
    labels=(*_LIMIT, "domain"),
    leader_only=True,
)
PLANNED_EVICTIONS: Final = Metric(
    name="rebalancer_planned_evictions",
    help="Evictions of the last plan for all that can be repaired: now, waiting and later.",
    leader_only=True,
)
MINIMUM_EVICTIONS: Final = Metric(
    name="rebalancer_minimum_evictions",
    help="Proven minimum of rebalancer_planned_evictions.",
    leader_only=True,
)
PLAN_EVICTIONS: Final = Metric(
    name="rebalancer_plan_evictions",
    help="Evictions of the last plan by part: now, waiting (held by a budget or the order), later (not decided yet), "
    "blocked (for violations that cannot be repaired now).",
    labels=("part",),
    values=("now", "waiting", "later", "blocked"),
    leader_only=True,
)
PLAN_PENDING: Final = Metric(
    name="rebalancer_plan_pending",
    help="Evictions of the proposed plan that wait for approval, in mode Approve.",
    leader_only=True,
)
IN_FLIGHT: Final = Metric(
    name="rebalancer_in_flight",
    help="Evicted pods whose replacements are not yet Ready.",
    leader_only=True,
)
REFUSALS: Final = Metric(
    name="rebalancer_refusals",
    help="Repairs and evictions that the last cycle did not carry out, by reason.",
    labels=("reason",),
    values=tuple(Reason),
    leader_only=True,
)
REPLACEMENT_BLOCKED: Final = Metric(
    name="rebalancer_replacement_blocked",
    help="1 if a lost pod of the workload could not be replaced now: no node is feasible for the new pod.",
    labels=("namespace", "workload_kind", "workload"),
    leader_only=True,
)
DOMAIN_WITHOUT_NODES: Final = Metric(
    name="rebalancer_domain_without_nodes",
    help="Of a domain without nodes: 1 if a constraint of the workload would be violated with a node there, "
    "else 0; at most 1,000 series.",
    labels=("namespace", "workload_kind", "workload", "topology_key", "domain"),
    leader_only=True,
)
CAPACITY_PLACEHOLDERS: Final = Metric(
    name="rebalancer_capacity_placeholders",
    help="Placeholder pods that hold capacity, or wait for it.",
    leader_only=True,
)
CAPACITY_REQUESTS: Final = Metric(
    name="rebalancer_capacity_requests_total",
    help="Requests for capacity that became ready or failed, by result.",
    type=Type.COUNTER,
    labels=("result",),
    values=tuple(Result),
)
FINDINGS: Final = Metric(
    name="rebalancer_findings",
    help="Problems that violate no constraint and no limit, by kind.",
    labels=("kind",),
    values=tuple(FindingKind),
    leader_only=True,
)
LAST_CYCLE: Final = Metric(
    name="rebalancer_last_cycle_timestamp_seconds",
    help="When the last cycle ended.",
    leader_only=True,
)
LEADER: Final = Metric(name="rebalancer_leader", help="1 if this process is the leader, else 0.")
MODE: Final = Metric(
    name="rebalancer_mode",
    help="1 for the mode in force, 0 for the others.",
    labels=("mode",),
    values=tuple(Mode),
)
PAUSED: Final = Metric(
    name="rebalancer_paused",
    help="1 while somebody has paused the controller, else 0.",
    leader_only=True,
)
BREAKER_OPEN: Final = Metric(
    name="rebalancer_breaker_open",
    help="Whether the breaker is open for the cause, so that nothing is evicted (1) or not (0).",
    labels=("cause",),
    values=tuple(BreakerCause),
    leader_only=True,
)
MEMORY_SAVED: Final = Metric(
    name="rebalancer_memory_saved",
    help="1 if the last attempt to save the memory succeeded; while it is 0, nothing is evicted.",
    leader_only=True,
)
SLOW_START_WINDOW: Final = Metric(
    name="rebalancer_slow_start_window",
    help="How many moves may be under way at once in the cluster now (budgets.slowStart); 0 while slow start is off.",
    leader_only=True,
)
MOVES_UNDER_WAY: Final = Metric(
    name="rebalancer_moves_under_way",
    help="Moves whose replacement has not arrived yet and is not overdue: not Ready, nor bound for 15 seconds.",
    leader_only=True,
)
REPLACEMENTS_OVERDUE: Final = Metric(
    name="rebalancer_replacements_overdue",
    help="Moves whose replacement was not created, is not bound or does not run.",
    leader_only=True,
)
POLICY_RELOAD_SUCCESSFUL: Final = Metric(
    name="rebalancer_policy_last_reload_successful",
    help="1 if the newest policy is in force, 0 if it is invalid and an older one stays in force.",
)
POLICY_RELOADED: Final = Metric(
    name="rebalancer_policy_last_reload_timestamp_seconds",
    help="When the policy in force was read.",
)
TEAM_POLICY_VALID: Final = Metric(
    name="rebalancer_team_policy_valid",
    help="1 if the team policy of the namespace is in force as written, else 0; at most 500 namespaces.",
    labels=("namespace",),
    leader_only=True,
)
WATCH_AGE: Final = Metric(
    name="rebalancer_watch_age_seconds",
    help="Seconds since the API server last sent something on the watch of a kind.",
    labels=("kind",),
)
CACHE_OBJECTS: Final = Metric(
    name="rebalancer_cache_objects",
    help="Objects of a kind in the cache.",
    labels=("kind",),
)
BUILD_INFO: Final = Metric(
    name="rebalancer_build_info",
    help="Always 1; the labels are the versions of the running process.",
    labels=("version", "revision", "python_version"),
)
EVICTIONS: Final = Metric(
    name="rebalancer_evictions_total",
    help="Eviction requests, by result.",
    type=Type.COUNTER,
    labels=("result",),
    values=tuple(EvictionResult),
)
MOVES: Final = Metric(
    name="rebalancer_moves_total",
    help="Moves that ended, by the outcome of the replacement.",
    type=Type.COUNTER,
    labels=("outcome",),
    values=tuple(MoveOutcome),
)
PREVENTION_PATCHES: Final = Metric(
    name="rebalancer_prevention_patches_total",
    help="Patches of pods' deletion costs, by result.",
    type=Type.COUNTER,
    labels=("result",),
    values=tuple(PatchResult),
)
PREVENTION_LEFT: Final = Metric(
    name="rebalancer_prevention_left",
    help="Deletion costs of the controller's own that are still to be removed.",
    leader_only=True,
)
PREVENTION_STOPPED: Final = Metric(
    name="rebalancer_prevention_stopped",
    help="1 while deletion costs should be written or removed and something stands in the way; the status says what.",
    leader_only=True,
)
SCALE_DOWN_UNSAFE: Final = Metric(
    name="rebalancer_scale_down_unsafe",
    help="1 if a scale-down of the workload is likely to leave its pods skewed, and need not.",
    labels=("namespace", "workload_kind", "workload"),
    leader_only=True,
)
API_REQUESTS: Final = Metric(
    name="rebalancer_api_requests_total",
    help="Requests to the API server; code 0 without a response, verb list also for watches.",
    type=Type.COUNTER,
    labels=("verb", "resource", "code"),
)
CYCLE_DURATION: Final = Metric(
    name="rebalancer_cycle_duration_seconds",
    help="Duration of the phases of a cycle; act is the duration of one eviction request.",
    type=Type.HISTOGRAM,
    labels=("phase",),
    values=tuple(Phase),
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)

METRICS: Final[tuple[Metric, ...]] = (
    CONSTRAINT_SKEW,
    CONSTRAINT_MAX_SKEW,
    CONSTRAINT_STATE,
    LIMIT_SHARE,
    LIMIT_HEADROOM,
    LIMIT_STATE,
    LIMIT_WORST_DOMAIN,
    REPLACEMENT_BLOCKED,
    DOMAIN_WITHOUT_NODES,
    CAPACITY_PLACEHOLDERS,
    CAPACITY_REQUESTS,
    FINDINGS,
    PLANNED_EVICTIONS,
    MINIMUM_EVICTIONS,
    PLAN_EVICTIONS,
    PLAN_PENDING,
    IN_FLIGHT,
    SCALE_DOWN_UNSAFE,
    PREVENTION_PATCHES,
    PREVENTION_LEFT,
    PREVENTION_STOPPED,
    EVICTIONS,
    MOVES,
    REFUSALS,
    LEADER,
    MODE,
    PAUSED,
    BREAKER_OPEN,
    MEMORY_SAVED,
    SLOW_START_WINDOW,
    MOVES_UNDER_WAY,
    REPLACEMENTS_OVERDUE,
    POLICY_RELOAD_SUCCESSFUL,
    POLICY_RELOADED,
    TEAM_POLICY_VALID,
    CYCLE_DURATION,
    LAST_CYCLE,
    WATCH_AGE,
    CACHE_OBJECTS,
    API_REQUESTS,
    BUILD_INFO,
)
