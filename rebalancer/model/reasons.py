"""States and reasons: closed lists, since dashboards, scripts and people rely on them (docs/reference/reasons.md)."""

from enum import StrEnum
from typing import Final, Self


class State(StrEnum):
    """The state of a constraint or a limit."""

    SATISFIED = "Satisfied"
    VIOLATED = "Violated"
    INFEASIBLE = "Infeasible"
    """No placement of these pods in these domains satisfies it."""
    UNFIXABLE = "Unfixable"
    """A placement that satisfies it exists, but no eviction leads there now."""
    UNKNOWN = "Unknown"
    """For report, plan and explain only: no node has the key, or nodes were not read: nothing could be counted."""


class Reason(StrEnum):
    """Why a repair is not, or not yet, carried out.

    `meaning` is in docs/reference/reasons.md; `remedy` is what people can do about it, "" if that depends on the cause.
    """

    meaning: str
    remedy: str

    def __new__(cls, value: str, meaning: str = "", remedy: str = "") -> Self:
        """Make a member, which is its value."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.remedy = remedy
        return member

    # planning, Infeasible
    NO_ARRANGEMENT = (
        "NoArrangement",
        "No placement satisfies everything; the message names the smallest relaxation that helps.",
        "Change the number of replicas, or relax the constraint or limit.",
    )
    TOO_FEW_DOMAINS = (
        "TooFewDomains",
        "Fewer domains exist than `minDomains` requires or the limit needs.",
        "Add domains, or relax the constraint or limit.",
    )
    # planning
    VOLUME_PINNED = (
        "VolumePinned",
        "The pod's volumes cannot be attached in the domains that need more pods.",
        "Move the data to volumes that other domains can attach.",
    )
    AFFINITY_PINNED = (
        "AffinityPinned",
        "The pod's affinity keeps it where it is.",
        "Widen the node affinity of the pods, or bring back the nodes that it selects.",
    )
    NO_CAPACITY = (
        "NoCapacity",
        "The nodes that need more of these pods lack capacity.",
        "Add nodes that take these pods in the emptier domains; the message names what else was tried and helps.",
    )
    NODES_REJECT = (
        "NodesReject",
        (
            "The nodes that need more of these pods have the resources, and take none: the message counts them by the "
            "filter of kube-scheduler that rejects them, such as taints, host ports, node affinity."
        ),
    )
    AWAITING_CAPACITY = (
        "AwaitingCapacity",
        "Only capacity is missing; it was, or with `capacity.mode: Request` would be, requested.",
    )
    UNREACHABLE = (
        "Unreachable",
        "No sequence of evictions and placements reaches a placement that satisfies everything.",
    )
    NOT_FORCED = (
        "NotForced",
        "No safe eviction: the scheduler could place the replacement where it does not help.",
        (
            "Use a stricter spread constraint, so that the scheduler must place replacements where they help; "
            "rebalancer suggest computes one."
        ),
    )
    NOT_PREDICTABLE = "NotPredictable", "The group uses a feature that is not modelled; the message names it."
    TOO_LARGE = (
        "TooLarge",
        (
            "The pod has more constraints or affinity terms than `eligibility.maxTerms`, or they or the names of its "
            "owner are larger than is read. It is counted by its labels."
        ),
        "Give the pods fewer constraints and terms; `eligibility.maxTerms` is at most 64.",
    )
    NAMESPACE_TOO_COSTLY = (
        "NamespaceTooCostly",
        (
            "What the namespace costs in a cycle is more than its share: the constraints of the workload are not "
            "evaluated, or its repair is not planned; those of others are."
        ),
        "Use fewer constraints, with selectors that name a label and its value and count few other workloads.",
    )
    BLOCKED_BY_BUDGET = (
        "BlockedByBudget",
        "A PodDisruptionBudget, `budgets.maxUnavailable` or `.perWorkload` is used up, perhaps by pods not Ready.",
    )
    STEP_EXCEEDS_BUDGET = (
        "StepExceedsBudget",
        "The smallest safe step needs more concurrent evictions than the budgets ever allow.",
        (
            "Raise maxUnavailable or lower minAvailable of the PodDisruptionBudget, or raise budgets.maxUnavailable "
            "and budgets.perWorkload of the policy."
        ),
    )
    SEVERAL_BUDGETS = (
        "SeveralBudgets",
        (
            'Several PodDisruptionBudgets select the pod. The API server refuses to evict it ("This pod has more than '
            'one PodDisruptionBudget"), so that nothing is requested. Waiting does not help.'
        ),
        "Keep one PodDisruptionBudget for each pod and delete the others.",
    )
    GROUP_IN_FLIGHT = (
        "GroupInFlight",
        (
            "Pending pods, or an eviction that the last leader may have requested, will change the counts; the "
            "controller plans again when they are placed, or two minutes after the request."
        ),
    )
    EVICTED_BY_OTHERS = (
        "EvictedByOthers",
        (
            "Somebody else evicts pods of the workload: its moves wait until its pods are Ready, at most ten minutes "
            "from the first of such evictions on."
        ),
    )
    EXCLUDED = "Excluded", "An annotation, `eligibility.namespaces` or `eligibility.selector` excludes it."
    NOT_EVICTABLE = (
        "NotEvictable",
        (
            "A bare, mirror (static) or DaemonSet pod, or one without a node: an eviction would not move it. Or a pod "
            "that owns other objects, which would be deleted with it."
        ),
    )
    LOCAL_STORAGE = "LocalStorage", "An eviction would lose data on its node; `eligibility.localStorage` refuses that."
    UNKNOWN_OWNER = "UnknownOwner", "The owner is unknown, or its kind is not in `eligibility.owners`."
    OTHER_SCHEDULER = "OtherScheduler", "Another scheduler than `scheduler.name` places it."
    PRIORITY_TOO_HIGH = "PriorityTooHigh", "Its priority is not below `eligibility.priorityBelow`."
    TOO_YOUNG = "TooYoung", "It is younger than `eligibility.minAge`."
    ARRIVING = "Arriving", "It replaces an evicted pod, and is not Ready yet."
    STARTING = "Starting", "It has never been Ready, and its owner's progress deadline is not over."
    TOO_FEW_REPLICAS = "TooFewReplicas", "The workload has fewer replicas than `eligibility.minReplicas`."
    POD_GROUP_DISRUPTION = "PodGroupDisruption", "Its PodGroup may be disrupted only as a whole, or is not known."
    ROLLOUT_IN_PROGRESS = (
        "RolloutInProgress",
        "The owner is being rolled out (under OnDelete: not yet), scaled, paused or deleted; there is no time limit.",
    )
    TEMPLATE_REFUSED = (
        "TemplateRefused",
        "The API server would refuse the replacement.",
        "Fix the pod template: the API server refuses its pods.",
    )
    CANNOT_CREATE = (
        "CannotCreate",
        (
            "No replacement would be created: the API server would refuse it, the namespace is being deleted, a "
            "replacement is missing there, the owner cannot create pods, or a StatefulSet waits for a pod of a lower "
            "ordinal."
        ),
    )
    NODE_LEAVING = (
        "NodeLeaving",
        (
            "The node, or another node that may take a replacement, is being removed, drained or repaired, or is "
            "cordoned; or the pods tolerate its taint for a limited time."
        ),
    )
    NODE_SETTLING = (
        "NodeSettling",
        (
            "A node that may take a replacement is not Ready, says that it does not serve pods, or has changed within "
            "`nodes.settle`; or the violation did not exist, or was smaller, before a node changed."
        ),
    )
    NOTHING_STARTS_THERE = (
        "NothingStartsThere",
        "A node that may take a replacement does not start, or rejects, the pods that were bound to it lately.",
        "Repair the node, or cordon it until it starts pods again; kubectl describe of such a pod says why.",
    )
    TEMPLATE_DOES_NOT_START = (
        "TemplateDoesNotStart",
        "The newest pod of its template does not start: it crashes, or its image, a Secret or ConfigMap is missing.",
        "Fix what the newest pod lacks, or its template; the repair continues when it starts or is deleted.",
    )
    DOMAIN_UNSETTLED = "DomainUnsettled", "A domain that may take a replacement loses nodes, or has until a moment ago."
    ZONE_IN_MAINTENANCE = (
        "ZoneInMaintenance",
        "Every node of a domain is cordoned; the repair waits for its return.",
        "Uncordon the nodes of the domain when its maintenance is finished.",
    )
    SURGING = (
        "Surging",
        "Pods are added to the workload first (`repair.method`); the pod goes in a scale-down once these are Ready.",
    )
    SURGE_REFUSED = (
        "SurgeRefused",
        "`repair.method` adds pods first there, and none can be added to the workload; the message says why.",
        "Fix what the message names, or leave the namespace out of repair.namespaces: its pods are evicted then.",
    )
    # assessment
    PLACEMENT_DEADLOCK = (
        "PlacementDeadlock",
        "No node is feasible for a pending pod, since its own rules exclude each other.",
    )
    # admission
    OBSERVE_ONLY = "ObserveOnly", "The mode is Observe."
    PAUSED = "Paused", "Somebody has paused the controller; the message says who, until when and why."
    OUTSIDE_WINDOW = (
        "OutsideWindow",
        "None of the policy's `windows` is open; the message says when the next one opens.",
    )
    AWAITING_APPROVAL = (
        "AwaitingApproval",
        "The mode is Approve, and nobody has approved the eviction; the message names the plan.",
    )
    NOT_PERSISTENT = "NotPersistent", "The violation has not lasted for `spread.for`."
    RATE_LIMITED = "RateLimited", "`budgets.perCycle`, `.perNode`, `.perNamespace` or `.perMinute` is used up."
    SLOW_START = (
        "SlowStart",
        (
            "The replacements of the last evictions have not arrived yet: as many are under way as "
            "`budgets.slowStart` allows now, or one of the same workload or namespace is overdue."
        ),
    )
    AWAITING_CANARY = (
        "AwaitingCanary",
        "The first moves of the workload, as many as `budgets.canary` says, are not verified yet.",
    )
    AWAITING_GUARDS = (
        "AwaitingGuards",
        (
            "A query of `guards` has not had a good answer for its `for` since the last step; the message has the "
            "guard and what came back."
        ),
    )
    BACK_OFF = (
        "BackOff",
        (
            "An earlier move of the group failed (the next attempt follows after 5 minutes, then 10, and after three "
            "failures in a row not before the violation is repaired by other means). Or a replacement in the namespace "
            "became Ready elsewhere than predicted (10 minutes), or the API server did not grant the last requests for "
            "the group (at most an hour)."
        ),
    )
    REFUSED_BY_ADMISSION = (
        "RefusedByAdmission",
        (
            "An admission webhook, policy or plugin refused the eviction, or would; the message has its name, words "
            "and the time of the next request."
        ),
    )
    BREAKER_OPEN = (
        "BreakerOpen",
        (
            "The cluster exceeds a bound of `breaker`, or did within `breaker.clearAfter`, or it does not replace "
            "evicted pods."
        ),
    )
    STALE_DATA = "StaleData", "A watch is not synced, misses changes, or has been silent for too long."
    MEMORY_NOT_SAVED = "MemoryNotSaved", "The moves in flight could not be stored for the next process."
    FORBIDDEN = "Forbidden", "The account has no right to evict in the namespace, or to read the workload before that."


class Cause(StrEnum):
    """Why a pod is evicted."""

    SKEW_VIOLATED = "SkewViolated"
    SHARE_LIMIT_VIOLATED = "ShareLimitViolated"
    PLACEMENT_DEADLOCK = "PlacementDeadlock"
    ANTI_AFFINITY_VIOLATED = "AntiAffinityViolated"


class ViolationCause(StrEnum):
    """What led to a violation."""

    SCALE_DOWN = "ScaleDown"
    NODE_LOST = "NodeLost"
    ZONE_LOST = "ZoneLost"
    DOMAIN_RETURNED = "DomainReturned"
    ROLLOUT = "Rollout"
    LABELS_CHANGED = "LabelsChanged"
    SOFT_CONSTRAINT = "SoftConstraint"
    UNKNOWN = "Unknown"


NOT_FOUND: Final = frozenset({ViolationCause.UNKNOWN, ViolationCause.SOFT_CONSTRAINT})
"""Reported if no event is known to be the cause; evaluated again in each cycle, without later losses."""


class FindingKind(StrEnum):
    """Problems that violate no constraint and no limit, the worst first."""

    REPLACEMENT_BLOCKED = "ReplacementBlocked"
    """If one pod of the workload were lost now, no node would be feasible for its replacement."""
    TEMPLATE_REFUSED = "TemplateRefused"
    """The API server would refuse the next pod."""
    NOTHING_STARTS_THERE = "NothingStartsThere"
    """A node does not start, or rejects, recently bound pods."""
    TOO_LARGE = "TooLarge"
    """Pods of a namespace have more constraints, terms or text than is read, or than `eligibility.maxTerms`."""
    NAMESPACE_TOO_COSTLY = "NamespaceTooCostly"
    """The constraints of a namespace take more of a cycle than its share; those of some workloads are not evaluated."""
    SYSTEM_NOT_SELECTED = "SystemNotSelected"
    """The scheduler may place pods on nodes of another operating system than their `spec.os`."""
    NODE_CANNOT_RUN = "NodeCannotRun"
    """The scheduler may place pods on nodes that lack what they need: a CSI driver, a runtime handler, a feature."""
    SELECTOR_MISSES_OWN_PODS = "SelectorMissesOwnPods"
    SELECTOR_NULL = "SelectorNull"
    SELECTOR_EMPTY = "SelectorEmpty"
    TOPOLOGY_KEY_MISSING = "TopologyKeyMissing"
    CONSTRAINTS_CONTRADICT = "ConstraintsContradict"
    TOO_FEW_DOMAINS = "TooFewDomains"
    SIZES_WITHOUT_PLACEMENT = "SizesWithoutPlacement"
    """For some sizes to which a workload may be scaled there is no placement, or none that pods reach one by one."""
    DOMAIN_WITHOUT_NODES = "DomainWithoutNodes"
    """A domain exists although no node carries it; with a node there, a constraint would be violated."""
    DOMAIN_UNSETTLED = "DomainUnsettled"
    """A domain loses nodes, or has until a moment ago: a drain, a zonal shift, a failure."""
    EVICTED_BY_OTHERS = "EvictedByOthers"
    """Somebody else evicts pods of the workload: a drain, a descheduler, a second rebalancer."""
    SCALE_DOWN_UNSAFE = "ScaleDownUnsafe"
    """A scale-down is likely to leave pods skewed, and need not."""
    DOMAIN_UNUSED = "DomainUnused"
    SHARED_VOLUME_NOT_ATTACHED = "SharedVolumeNotAttached"
    """Pods share a ReadWriteOnce volume of a driver that attaches nothing."""
    MIXED_CONSTRAINTS = "MixedConstraints"
    ARCHITECTURE_NOT_SELECTED = "ArchitectureNotSelected"
    """Pods may be placed on nodes of several architectures, and do not run on each of these yet."""
    SEVERAL_BUDGETS = "SeveralBudgets"
    BUDGET_ALWAYS_ZERO = "BudgetAlwaysZero"
    BUDGET_NOT_COMPUTED = "BudgetNotComputed"
