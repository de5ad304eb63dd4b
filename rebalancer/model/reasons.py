"""States and reasons: closed lists, since dashboards, scripts and people rely on them (docs/reference.md)."""

from enum import StrEnum


class State(StrEnum):
    """The state of a constraint or a limit."""

    SATISFIED = "Satisfied"
    VIOLATED = "Violated"
    INFEASIBLE = "Infeasible"
    """No placement of these pods in these domains satisfies it."""
    UNFIXABLE = "Unfixable"
    """A placement that satisfies it exists, but no eviction leads there now."""


class Reason(StrEnum):
    """Why a repair is not, or not yet, carried out."""

    # planning, Infeasible
    NO_ARRANGEMENT = "NoArrangement"
    TOO_FEW_DOMAINS = "TooFewDomains"
    # planning
    VOLUME_PINNED = "VolumePinned"
    AFFINITY_PINNED = "AffinityPinned"
    NO_CAPACITY = "NoCapacity"
    AWAITING_CAPACITY = "AwaitingCapacity"
    UNREACHABLE = "Unreachable"
    NOT_FORCED = "NotForced"
    NOT_PREDICTABLE = "NotPredictable"
    BLOCKED_BY_BUDGET = "BlockedByBudget"
    STEP_EXCEEDS_BUDGET = "StepExceedsBudget"
    SEVERAL_BUDGETS = "SeveralBudgets"
    GROUP_IN_FLIGHT = "GroupInFlight"
    EXCLUDED = "Excluded"
    NOT_EVICTABLE = "NotEvictable"
    LOCAL_STORAGE = "LocalStorage"
    UNKNOWN_OWNER = "UnknownOwner"
    OTHER_SCHEDULER = "OtherScheduler"
    PRIORITY_TOO_HIGH = "PriorityTooHigh"
    TOO_YOUNG = "TooYoung"
    TOO_FEW_REPLICAS = "TooFewReplicas"
    POD_GROUP_DISRUPTION = "PodGroupDisruption"
    ROLLOUT_IN_PROGRESS = "RolloutInProgress"
    TEMPLATE_REFUSED = "TemplateRefused"
    CANNOT_CREATE = "CannotCreate"
    NODE_LEAVING = "NodeLeaving"
    NODE_SETTLING = "NodeSettling"
    DOMAIN_UNSETTLED = "DomainUnsettled"
    ZONE_IN_MAINTENANCE = "ZoneInMaintenance"
    # assessment
    PLACEMENT_DEADLOCK = "PlacementDeadlock"
    # admission
    OBSERVE_ONLY = "ObserveOnly"
    PAUSED = "Paused"
    OUTSIDE_WINDOW = "OutsideWindow"
    AWAITING_APPROVAL = "AwaitingApproval"
    NOT_PERSISTENT = "NotPersistent"
    RATE_LIMITED = "RateLimited"
    SLOW_START = "SlowStart"
    BACK_OFF = "BackOff"
    REFUSED_BY_ADMISSION = "RefusedByAdmission"
    BREAKER_OPEN = "BreakerOpen"
    STALE_DATA = "StaleData"
    MEMORY_NOT_SAVED = "MemoryNotSaved"
    FORBIDDEN = "Forbidden"


class Cause(StrEnum):
    """Why a pod is evicted."""

    SKEW_VIOLATED = "SkewViolated"
    SHARE_LIMIT_VIOLATED = "ShareLimitViolated"
    PLACEMENT_DEADLOCK = "PlacementDeadlock"


class ViolationCause(StrEnum):
    """What led to a violation."""

    SCALE_DOWN = "ScaleDown"
    NODE_LOST = "NodeLost"
    DOMAIN_RETURNED = "DomainReturned"
    ROLLOUT = "Rollout"
    LABELS_CHANGED = "LabelsChanged"
    SOFT_CONSTRAINT = "SoftConstraint"
    UNKNOWN = "Unknown"


class FindingKind(StrEnum):
    """Problems that violate no constraint and no limit, the worst first."""

    REPLACEMENT_BLOCKED = "ReplacementBlocked"
    """If one pod of the workload were lost now, no node would be feasible for its replacement."""
    TEMPLATE_REFUSED = "TemplateRefused"
    """The API server would refuse the next pod."""
    SELECTOR_MISSES_OWN_PODS = "SelectorMissesOwnPods"
    SELECTOR_NULL = "SelectorNull"
    SELECTOR_EMPTY = "SelectorEmpty"
    TOPOLOGY_KEY_MISSING = "TopologyKeyMissing"
    CONSTRAINTS_CONTRADICT = "ConstraintsContradict"
    TOO_FEW_DOMAINS = "TooFewDomains"
    DOMAIN_WITHOUT_NODES = "DomainWithoutNodes"
    """A domain exists although no node carries it; with a node there, a constraint would be violated."""
    DOMAIN_UNSETTLED = "DomainUnsettled"
    """A domain loses nodes, or has until a moment ago: a drain, a zonal shift, a failure."""
    SCALE_DOWN_UNSAFE = "ScaleDownUnsafe"
    """A scale-down is likely to leave pods skewed, and need not."""
    DOMAIN_UNUSED = "DomainUnused"
    MIXED_CONSTRAINTS = "MixedConstraints"
    SEVERAL_BUDGETS = "SeveralBudgets"
    BUDGET_ALWAYS_ZERO = "BudgetAlwaysZero"
