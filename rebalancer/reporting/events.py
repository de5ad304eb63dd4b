"""Events for people who run `kubectl describe`: one on the pod, one on its workload, on change only."""

from collections.abc import Iterable, Mapping

from rebalancer.assessment.assess import Assessment, EvaluatedGroup
from rebalancer.assessment.causes import Causes, constraint_token
from rebalancer.model.events import NOTE_LIMIT, Event, EventReason, Regarding
from rebalancer.model.moves import Move, MoveState, Reference
from rebalancer.model.reasons import ViolationCause


def of_workload(reason: EventReason, note: str, workload: Reference, uid: str = "") -> Event:
    """Make an event about a workload."""
    regarding = Regarding(kind=workload.kind, namespace=workload.namespace, name=workload.name, uid=uid)
    return Event(reason=reason, note=note[:NOTE_LIMIT], regarding=regarding)


def of_move(reason: EventReason, note: str, move: Move) -> tuple[Event, Event]:
    """Make the two events about a move: on the pod that went, and on its workload."""
    pod = Regarding(kind="Pod", namespace=move.namespace, name=move.pod, uid=move.uid)
    about_pod = Event(reason=reason, note=note[:NOTE_LIMIT], regarding=pod)
    return about_pod, of_workload(reason, f"Pod {move.pod}: {note}", move.workload)


def of_assessments(before: Iterable[str], assessment: Assessment, causes: Causes) -> list[Event]:
    """Make the events for groups that became violated or recovered; `before` names those violated till now."""
    known = set(before)
    made = []
    for group in assessment.groups:
        name = group.group.name
        if group.violated and name not in known:
            made += _of_group(EventReason.SKEW_VIOLATED, group, causes)
        elif not group.violated and name in known:
            made += _of_group(EventReason.SKEW_RECOVERED, group, causes)
    return made


def _of_group(reason: EventReason, group: EvaluatedGroup, causes: Causes) -> list[Event]:
    note = "; ".join(
        f"{judged.constraint.key}: skew {judged.counts.skew}, maxSkew {judged.constraint.max_skew} "
        f"({counted(judged.counts.by_domain)}){cause_text(causes.get(constraint_token(group, judged)))}"
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
