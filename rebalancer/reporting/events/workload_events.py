"""Kubernetes events about constraints and moves, one on the workload and for a move one on the pod, on change only."""

from collections.abc import Iterable, Mapping

from rebalancer.admission.causes import not_created
from rebalancer.assessment.assess import Assessment, EvaluatedGroup
from rebalancer.assessment.causes import Causes, constraint_token
from rebalancer.model.events import NOTE_LIMIT, Event, EventReason, Regarding
from rebalancer.model.moves import Move, MoveState, Reference, make_token
from rebalancer.model.reasons import ViolationCause
from rebalancer.reporting.refusals import refusal_text


def workload_event(reason: EventReason, note: str, workload: Reference, uid: str = "") -> Event:
    """Create an event about a workload."""
    regarding = Regarding(kind=workload.kind, namespace=workload.namespace, name=workload.name, uid=uid)
    return Event(reason=reason, note=note[:NOTE_LIMIT], regarding=regarding)


def move_events(reason: EventReason, note: str, move: Move) -> tuple[Event, Event]:
    """Create the two events about a move: on the evicted pod, and on its workload."""
    pod = Regarding(kind="Pod", namespace=move.namespace, name=move.pod, uid=move.uid)
    about_pod = Event(reason=reason, note=note[:NOTE_LIMIT], regarding=pod)
    return about_pod, workload_event(reason, f"Pod {move.pod}: {note}", move.workload)


def uncreated_events(before: Iterable[Move], after: Iterable[Move]) -> list[Event]:
    """Create the events for replacements that have become overdue, or for which a reason has become known."""
    known = {move.uid: move.uncreated for move in before}
    return [
        workload_event(EventReason.EVICTION_BLOCKED, refusal_text(not_created(move)), move.workload)
        for move in after
        if move.uncreated is not None and move.uncreated != known.get(move.uid) and not known.get(move.uid)
    ]


def skew_events(before: Iterable[str], assessment: Assessment, causes: Causes) -> list[Event]:
    """Create the events for groups that became violated or recovered; `before` has the tokens of those before."""
    violated_before = set(before)
    events = []
    for group in assessment.groups:
        token = make_token(group.spread.name)
        if group.violated and token not in violated_before:
            events += _group_events(EventReason.SKEW_VIOLATED, group, causes)
        elif not group.violated and token in violated_before:
            events += _group_events(EventReason.SKEW_RECOVERED, group, causes)
    return events


def _group_events(reason: EventReason, group: EvaluatedGroup, causes: Causes) -> list[Event]:
    note = "; ".join(
        f"{evaluated.constraint.key}: skew {evaluated.counts.skew}, maxSkew {evaluated.constraint.max_skew} "
        f"({counts_text(evaluated.counts.by_domain)}){cause_text(causes.get(constraint_token(group, evaluated)))}"
        for evaluated in group.hard
        if evaluated.counts.violated or reason is EventReason.SKEW_RECOVERED
    )
    return [workload_event(reason, note, workload) for workload in group.spread.workloads]


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
