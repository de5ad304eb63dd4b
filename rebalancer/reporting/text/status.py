"""The status as text: what the controller does in one line, its plan, its moves, and why nothing more happens."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from rebalancer.model.reasons import Reason
from rebalancer.model.words import plural
from rebalancer.reporting.acting import slow_start_text
from rebalancer.reporting.documents.status import MoveEntry, StatusDocument
from rebalancer.reporting.phrases import ago, proof_text
from rebalancer.reporting.text.layout import PLAIN, Style, TextLayout, sections

_MOVES: Final = ("POD", "WORKLOAD", "NODE", "STATE", "SINCE")
_REASONS: Final = ("REASON", "NUMBER")
_MOST_REFUSED: Final = 20
_MOST_MOVES: Final = 10
"""So many of the last moves are shown, the newest first."""


def status_text(status: StatusDocument, acting: str, now: datetime, layout: TextLayout = PLAIN) -> str:
    """Show a status; `acting` says in one line what the controller does."""
    head = [layout.heading(line) for line in layout.wrap(f"Controller: {acting}")]
    parts = [
        [*head, *(line for text in _facts(status, now) for line in layout.wrap(text))],
        _titled("IN FLIGHT", _MOVES, [_move(move, now) for move in status.in_flight], layout),
        _titled("LAST MOVES", _MOVES, [_move(move, now) for move in _newest(status.last_moves)], layout),
        _titled(
            "NOT EVICTED, BY REASON",
            _REASONS,
            [(reason, str(number)) for reason, number in sorted(status.refusals.items())],
            layout,
        ),
        [layout.paint(line, Style.BAD) for text in _problems(status) for line in layout.wrap(text)],
    ]
    return "".join(f"{line}\n" for line in sections(parts))


def _facts(status: StatusDocument, now: datetime) -> Iterator[str]:
    ran = "no cycle yet"
    if status.last_cycle is not None:
        ran = f"last cycle {status.last_cycle:%Y-%m-%d %H:%M:%SZ} ({ago(status.last_cycle, now)})"
    yield f"{ran}, {_leader(status)}, policy {status.policy.hash} ({status.policy.source})"
    plan = proof_text(status.plan.evictions, status.plan.minimum) if status.plan.evictions else "nothing to evict"
    yield f"Plan: {plan}; {plural(len(status.in_flight), 'move')} in flight."
    if status.slow_start is not None:
        yield slow_start_text(status.slow_start)
    if status.paused is not None and status.paused.until is not None:
        yield f"Paused until {status.paused.until:%Y-%m-%d %H:%M:%SZ}; rebalancer resume ends it."
    elif status.paused is not None:
        yield "Paused until somebody resumes; rebalancer resume ends it."


def _leader(status: StatusDocument) -> str:
    if status.lease is None or status.lease.error:
        return f"leader {status.leader or 'none'}"
    return f"leader {status.lease.holder}" if status.lease.holder else f"last leader {status.leader or 'none'}"


def _problems(status: StatusDocument) -> Iterator[str]:
    """Yield why nothing is evicted in a namespace, what is wrong with the policy, and which rights are missing."""
    for blocked in status.breaker.namespaces:
        yield f"{blocked.refusal.reason}: {blocked.refusal}"
    for guard in status.guards:
        if not guard.good:
            yield f"{Reason.AWAITING_GUARDS}: guard {guard.name} is not good: {guard.message}"
    for refused in status.refused_evictions[:_MOST_REFUSED]:
        yield f"{refused.refusal.reason}: {refused.pod}: {refused.refusal}"
    more = len(status.refused_evictions) - _MOST_REFUSED
    if more > 0:
        yield f"Admission control refused {plural(more, 'more eviction')}; --output json lists them."
    if not status.policy.valid:
        yield f"A newer policy is refused, the last valid one stays in force: {status.policy.error}"
    for team in status.policy.team_errors:
        yield f"Team policy of {team.namespace}: {team.error}"
    if status.forbidden_kinds:
        yield f"Not allowed to list {', '.join(status.forbidden_kinds)}; the roles of this version have the right."


def _newest(moves: Sequence[MoveEntry]) -> Sequence[MoveEntry]:
    return sorted(moves, key=lambda move: (-move.since.timestamp(), move.namespace, move.pod))[:_MOST_MOVES]


def _move(move: MoveEntry, now: datetime) -> tuple[str, ...]:
    workload = f"{move.workload.name} ({move.workload.kind})"
    state = f"{move.state}, overdue: {move.overdue}" if move.overdue else move.state
    return f"{move.namespace}/{move.pod}", workload, move.node, state, ago(move.since, now)


def _titled(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], layout: TextLayout) -> list[str]:
    """Return a table under its title, [] without rows."""
    return [layout.heading(title), *layout.table(head, rows)] if rows else []
