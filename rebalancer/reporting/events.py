"""Events for people who run `kubectl describe`: one on the pod, one on its workload, on change only."""

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


def of_workload(reason: EventReason, note: str, workload: Reference, uid: str = "") -> Event:
    """Make an event about a workload."""
    regarding = Regarding(kind=workload.kind, namespace=workload.namespace, name=workload.name, uid=uid)
    return Event(reason=reason, note=note[:NOTE_LIMIT], regarding=regarding)


def of_move(reason: EventReason, note: str, move: Move) -> tuple[Event, Event]:
    """Make the two events about a move: on the pod that went, and on its workload."""
    pod = Regarding(kind="Pod", namespace=move.namespace, name=move.pod, uid=move.uid)
    about_pod = Event(reason=reason, note=note[:NOTE_LIMIT], regarding=pod)
    return about_pod, of_workload(reason, f"Pod {move.pod}: {note}", move.workload)


def of_assessments(before: Iterable[str], assessment: Assessment) -> list[Event]:
    """Make the events for groups that became violated or recovered; `before` names those violated till now."""
    known = set(before)
    made = []
    for group in assessment.groups:
        name = group.group.name
        if group.violated and name not in known:
            made += _of_group(EventReason.SKEW_VIOLATED, group, assessment)
        elif not group.violated and name in known:
            made += _of_group(EventReason.SKEW_RECOVERED, group, assessment)
    return made


def _of_group(reason: EventReason, group: EvaluatedGroup, assessment: Assessment) -> list[Event]:
    note = "; ".join(
        f"{judged.constraint.key}: skew {judged.counts.skew}, maxSkew {judged.constraint.max_skew} "
        f"({counted(judged.counts.by_domain)}){cause_text(assessment.causes.get(constraint_token(group, judged)))}"
        for judged in group.hard
        if judged.counts.violated or reason is EventReason.SKEW_RECOVERED
    )
    return [of_workload(reason, note, workload) for workload in group.group.workloads]


def cause_text(cause: ViolationCause | None) -> str:
    """Say what led to a violation, "" where that is not known."""
    return f", cause {cause}" if cause not in {None, ViolationCause.UNKNOWN} else ""


def counted(counts: Mapping[str, int], limit: int = 8) -> str:
    """Show counts by domain in a few words, the fullest first."""
    listed = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    shown = " ".join(f"{value or '(empty)'}:{count}" for value, count in listed[:limit])
    return shown + (f" and {len(listed) - limit} more" if len(listed) > limit else "")


def of_ended(move: Move) -> tuple[Event, ...]:
    """Make the events for a move that has just ended, if that is worth one."""
    match move.state:
        case MoveState.VERIFIED:
            return of_move(EventReason.MOVE_VERIFIED, "its replacement is Ready where it was foreseen", move)
        case MoveState.INEFFECTIVE:
            return of_move(
                EventReason.MOVE_INEFFECTIVE, "its replacement is Ready, but not where it was foreseen", move
            )
        case MoveState.LOST:
            return of_move(EventReason.MOVE_INEFFECTIVE, "its replacement did not become Ready in time", move)
        case _:
            return ()
