"""Events for people who run `kubectl describe`: their reasons, the object that each regards, the text."""

from enum import StrEnum

from msgspec import Struct

NOTE_LIMIT = 1024
"""The API server refuses a longer note."""


class EventReason(StrEnum):
    """Reasons of events; scripts rely on these names."""

    SKEW_VIOLATED = "SkewViolated"
    SKEW_RECOVERED = "SkewRecovered"
    SHARE_LIMIT_VIOLATED = "ShareLimitViolated"
    SHARE_LIMIT_RECOVERED = "ShareLimitRecovered"
    SHARE_LIMIT_INFEASIBLE = "ShareLimitInfeasible"
    ANTI_AFFINITY_VIOLATED = "AntiAffinityViolated"
    ANTI_AFFINITY_RECOVERED = "AntiAffinityRecovered"
    NO_LONGER_REQUIRED = "NoLongerRequired"
    PLACEMENT_DEADLOCK = "PlacementDeadlock"
    DOMAIN_UNSETTLED = "DomainUnsettled"
    DOMAIN_SETTLED = "DomainSettled"
    EVICTED = "Evicted"
    EVICTED_BY_OTHERS = "EvictedByOthers"
    EVICTION_BLOCKED = "EvictionBlocked"
    EVICTION_FAILED = "EvictionFailed"
    MOVE_VERIFIED = "MoveVerified"
    MOVE_INEFFECTIVE = "MoveIneffective"
    PLAN_PROPOSED = "PlanProposed"
    PLAN_APPROVED = "PlanApproved"
    PLAN_EXPIRED = "PlanExpired"
    APPROVAL_ENDED = "ApprovalEnded"
    APPROVAL_INVALID = "ApprovalInvalid"
    CAPACITY_REQUESTED = "CapacityRequested"
    CAPACITY_READY = "CapacityReady"
    CAPACITY_FAILED = "CapacityFailed"
    REBALANCE_PAUSED = "RebalancePaused"
    POLICY_INVALID = "PolicyInvalid"
    POLICY_RELOADED = "PolicyReloaded"
    GUARD_NOT_GOOD = "GuardNotGood"
    GUARD_GOOD = "GuardGood"
    RIGHT_MISSING = "RightMissing"
    RIGHT_GRANTED = "RightGranted"
    PREVENTION_STOPPED = "PreventionStopped"
    PREVENTION_RESUMED = "PreventionResumed"
    RESILIENCE_LOST = "ResilienceLost"
    RESILIENCE_REGAINED = "ResilienceRegained"
    SURGE_BEGAN = "SurgeBegan"
    SURGE_ENDED = "SurgeEnded"


_ACTIONS = {
    EventReason.SKEW_VIOLATED: "Assess",
    EventReason.SKEW_RECOVERED: "Assess",
    EventReason.SHARE_LIMIT_VIOLATED: "Assess",
    EventReason.SHARE_LIMIT_RECOVERED: "Assess",
    EventReason.SHARE_LIMIT_INFEASIBLE: "Assess",
    EventReason.ANTI_AFFINITY_VIOLATED: "Assess",
    EventReason.ANTI_AFFINITY_RECOVERED: "Assess",
    EventReason.NO_LONGER_REQUIRED: "Assess",
    EventReason.PLACEMENT_DEADLOCK: "Assess",
    EventReason.DOMAIN_UNSETTLED: "Watch",
    EventReason.DOMAIN_SETTLED: "Watch",
    EventReason.EVICTED: "Evict",
    EventReason.EVICTED_BY_OTHERS: "Watch",
    EventReason.EVICTION_BLOCKED: "Evict",
    EventReason.EVICTION_FAILED: "Evict",
    EventReason.MOVE_VERIFIED: "Verify",
    EventReason.MOVE_INEFFECTIVE: "Verify",
    EventReason.PLAN_PROPOSED: "Propose",
    EventReason.PLAN_APPROVED: "Approve",
    EventReason.PLAN_EXPIRED: "Expire",
    EventReason.APPROVAL_ENDED: "Approve",
    EventReason.APPROVAL_INVALID: "Approve",
    EventReason.CAPACITY_REQUESTED: "RequestCapacity",
    EventReason.CAPACITY_READY: "RequestCapacity",
    EventReason.CAPACITY_FAILED: "RequestCapacity",
    EventReason.REBALANCE_PAUSED: "Pause",
    EventReason.POLICY_INVALID: "LoadPolicy",
    EventReason.POLICY_RELOADED: "LoadPolicy",
    EventReason.GUARD_NOT_GOOD: "Guard",
    EventReason.GUARD_GOOD: "Guard",
    EventReason.RIGHT_MISSING: "Evict",
    EventReason.RIGHT_GRANTED: "Evict",
    EventReason.PREVENTION_STOPPED: "Prevent",
    EventReason.PREVENTION_RESUMED: "Prevent",
    EventReason.RESILIENCE_LOST: "Assess",
    EventReason.RESILIENCE_REGAINED: "Assess",
    EventReason.SURGE_BEGAN: "Surge",
    EventReason.SURGE_ENDED: "Surge",
}
_WARNINGS = frozenset(
    {
        EventReason.APPROVAL_INVALID,
        EventReason.SKEW_VIOLATED,
        EventReason.SHARE_LIMIT_VIOLATED,
        EventReason.SHARE_LIMIT_INFEASIBLE,
        EventReason.ANTI_AFFINITY_VIOLATED,
        EventReason.PLACEMENT_DEADLOCK,
        EventReason.DOMAIN_UNSETTLED,
        EventReason.EVICTION_FAILED,
        EventReason.MOVE_INEFFECTIVE,
        EventReason.CAPACITY_FAILED,
        EventReason.POLICY_INVALID,
        EventReason.GUARD_NOT_GOOD,
        EventReason.RIGHT_MISSING,
        EventReason.PREVENTION_STOPPED,
        EventReason.RESILIENCE_LOST,
    }
)


class Regarding(Struct, frozen=True, kw_only=True):
    """The object that an event is about; `uid` and `api_version` are "" if they are not known.

    The API versions of Kubernetes' own kinds need not be given.
    """

    kind: str
    namespace: str
    name: str
    uid: str = ""
    api_version: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} ({self.kind})"


class Event(Struct, frozen=True, kw_only=True):
    """One event. `action` and `type` follow from the reason; a failure sets another type."""

    reason: EventReason
    note: str
    regarding: Regarding
    is_failure: bool = False

    @property
    def action(self) -> str:
        """What was done when it happened."""
        return _ACTIONS[self.reason]

    @property
    def type(self) -> str:
        """Normal or Warning."""
        return "Warning" if self.is_failure or self.reason in _WARNINGS else "Normal"
