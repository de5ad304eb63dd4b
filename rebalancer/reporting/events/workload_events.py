"""Kubernetes events about constraints and moves, one on the workload and for a move one on the pod, on change only."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from rebalancer.assessment.assess import Assessment, EvaluatedGroup
from rebalancer.assessment.causes.attribution import constraint_token
from rebalancer.model.moves import Move, MoveState, Reference
from rebalancer.model.reasons import ViolationCause

NOTE_LIMIT = 1024
"""The API server refuses a longer note."""


class EventReason(StrEnum):
    """Reasons of events; names that others rely on."""

    SKEW_VIOLATED = "SkewViolated"
    SKEW_RECOVERED = "SkewRecovered"
    SHARE_LIMIT_VIOLATED = "ShareLimitViolated"
    SHARE_LIMIT_RECOVERED = "ShareLimitRecovered"
    SHARE_LIMIT_INFEASIBLE = "ShareLimitInfeasible"
    PLACEMENT_DEADLOCK = "PlacementDeadlock"
    EVICTED = "Evicted"
    EVICTION_BLOCKED = "EvictionBlocked"
    EVICTION_FAILED = "EvictionFailed"
    MOVE_VERIFIED = "MoveVerified"
    MOVE_INEFFECTIVE = "MoveIneffective"
    REBALANCE_PAUSED = "RebalancePaused"
    POLICY_INVALID = "PolicyInvalid"
    POLICY_RELOADED = "PolicyReloaded"


_ACTIONS = {
    EventReason.SKEW_VIOLATED: "Assess",
    EventReason.SKEW_RECOVERED: "Assess",
    EventReason.SHARE_LIMIT_VIOLATED: "Assess",
    EventReason.SHARE_LIMIT_RECOVERED: "Assess",
    EventReason.SHARE_LIMIT_INFEASIBLE: "Assess",
    EventReason.PLACEMENT_DEADLOCK: "Assess",
    EventReason.EVICTED: "Evict",
    EventReason.EVICTION_BLOCKED: "Evict",
    EventReason.EVICTION_FAILED: "Evict",
    EventReason.MOVE_VERIFIED: "Verify",
    EventReason.MOVE_INEFFECTIVE: "Verify",
    EventReason.REBALANCE_PAUSED: "Pause",
    EventReason.POLICY_INVALID: "LoadPolicy",
    EventReason.POLICY_RELOADED: "LoadPolicy",
}
_WARNINGS = frozenset(
    {
        EventReason.SKEW_VIOLATED,
        EventReason.SHARE_LIMIT_VIOLATED,
        EventReason.SHARE_LIMIT_INFEASIBLE,
        EventReason.PLACEMENT_DEADLOCK,
        EventReason.EVICTION_FAILED,
        EventReason.MOVE_INEFFECTIVE,
        EventReason.POLICY_INVALID,
    }
)


class Regarding(Struct, frozen=True, kw_only=True):
    """The object that an event is about. `uid` is "" where it is not known."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


class Event(Struct, frozen=True, kw_only=True):
    """One event. `action` and `type` follow from the reason."""

    reason: EventReason
    note: str
    regarding: Regarding

    @property
    def action(self) -> str:
        """What was done when it happened."""
        return _ACTIONS[self.reason]

    @property
    def type(self) -> str:
        """Normal or Warning."""
        return "Warning" if self.reason in _WARNINGS else "Normal"


def workload_event(reason: EventReason, note: str, workload: Reference, uid: str = "") -> Event:
    """Create an event about a workload."""
    regarding = Regarding(kind=workload.kind, namespace=workload.namespace, name=workload.name, uid=uid)
    return Event(reason=reason, note=note[:NOTE_LIMIT], regarding=regarding)


def move_events(reason: EventReason, note: str, move: Move) -> tuple[Event, Event]:
    """Create the two events about a move: on the evicted pod, and on its workload."""
    pod = Regarding(kind="Pod", namespace=move.namespace, name=move.pod, uid=move.uid)
    about_pod = Event(reason=reason, note=note[:NOTE_LIMIT], regarding=pod)
    return about_pod, workload_event(reason, f"Pod {move.pod}: {note}", move.workload)


def skew_events(before: Iterable[str], assessment: Assessment) -> list[Event]:
    """Create the events for groups that became violated or recovered; `before` names those violated until now."""
    violated_before = set(before)
    events = []
    for group in assessment.groups:
        name = group.group.name
        if group.violated and name not in violated_before:
            events += _group_events(EventReason.SKEW_VIOLATED, group, assessment)
        elif not group.violated and name in violated_before:
            events += _group_events(EventReason.SKEW_RECOVERED, group, assessment)
    return events


def _group_events(reason: EventReason, group: EvaluatedGroup, assessment: Assessment) -> list[Event]:
    causes = assessment.causes
    note = "; ".join(
        f"{evaluated.constraint.key}: skew {evaluated.counts.skew}, maxSkew {evaluated.constraint.max_skew} "
        f"({counts_text(evaluated.counts.by_domain)}){cause_text(causes.get(constraint_token(group, evaluated)))}"
        for evaluated in group.hard
        if evaluated.counts.violated or reason is EventReason.SKEW_RECOVERED
    )
    return [workload_event(reason, note, workload) for workload in group.group.workloads]


def cause_text(cause: ViolationCause | None) -> str:
    """Name the cause of a violation, "" where it is unknown."""
    return f", cause {cause}" if cause not in {None, ViolationCause.UNKNOWN} else ""


def counts_text(counts: Mapping[str, int], limit: int = 8) -> str:
    """Show the counts of the fullest domains."""
    fullest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = " ".join(f"{value or '(empty)'}:{count}" for value, count in fullest[:limit])
    return shown + (f" and {len(fullest) - limit} more" if len(fullest) > limit else "")


def ended_move_events(move: Move) -> tuple[Event, ...]:
    """Create the events for a move that has just ended; none for an end without a verdict."""
    match move.state:
        case MoveState.VERIFIED:
            return move_events(EventReason.MOVE_VERIFIED, "the replacement is Ready where predicted", move)
        case MoveState.INEFFECTIVE:
            return move_events(EventReason.MOVE_INEFFECTIVE, "the replacement is Ready, but not where predicted", move)
        case MoveState.LOST:
            return move_events(EventReason.MOVE_INEFFECTIVE, "the replacement did not become Ready in time", move)
        case _:
            return ()
