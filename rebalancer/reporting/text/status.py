"""The status as text: one line about what the controller does, its plan, its moves, and why it does not do more."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from rebalancer.documents.phrases import (
    ago,
    domains_text,
    past_moves,
    proof_text,
    took_text,
    uncounted_text,
    unsatisfiable_text,
)
from rebalancer.documents.status import ApprovalStatus, MoveEntry, PauseStatus, StatusDocument
from rebalancer.model.moves import MoveState
from rebalancer.model.reasons import Reason
from rebalancer.model.words import format_rest, plural
from rebalancer.reporting.acting import (
    describe_controller,
    describe_policy_problem,
    describe_stored,
    describe_unwatched,
    goes_on,
    moving_word,
    policy_source,
    runs,
    slow_start_text,
)
from rebalancer.reporting.headline import (
    NOT_NOW,
    WITHOUT_NODE,
    Sign,
    approval_sentences,
    approval_title,
    headlines,
    hold_sentence,
    next_word,
    wait_sentence,
)
from rebalancer.reporting.resilience import COLUMNS, loss_title, resilience_sentences, worst_rows
from rebalancer.reporting.standing import standing_sentences, standing_title
from rebalancer.reporting.surges import SURGE_COLUMNS, surge_rows, surge_sentences
from rebalancer.reporting.text.layout import PLAIN, Style, TextLayout, join_lines, sections
from rebalancer.reporting.text.map import Words, map_lines

_MOVES: Final = ("POD", "WORKLOAD", "FROM", "TO", "WHY", "STATE", "SINCE")
_REASONS: Final = ("REASON", "NUMBER")
_SIGNS: Final = {
    Sign.VIOLATED: ("!", Style.BAD),
    Sign.MOVING: (">", Style.MOVING),
    Sign.WAITING: ("~", Style.CAUTION),
    Sign.UNREPAIRABLE: ("x", Style.STUCK),
    Sign.GOOD: ("ok", Style.GOOD),
}
"""The signs that the map also uses; for everything else there are only words."""

_MOST_REFUSED: Final = 20
_MOST_MOVES: Final = 10
"""At most this many of the last moves are shown, newest first."""


def status_text(status: StatusDocument, now: datetime, layout: TextLayout = PLAIN) -> str:
    """Show a status."""
    return join_lines(status_lines(status, now, layout))


def status_lines(status: StatusDocument, now: datetime, layout: TextLayout = PLAIN) -> list[str]:
    """Return the lines of a status, which may be shown again and again."""
    goes = goes_on(status)
    last = "" if goes else " IN THE LAST CYCLE"
    waits = {
        "WAITING": [wait for wait in status.waits if not wait.stuck],
        WITHOUT_NODE.upper(): [wait for wait in status.waits if wait.stuck and wait.without_node],
        NOT_NOW.upper(): [wait for wait in status.waits if wait.stuck and not wait.without_node],
    }
    named = [f"Cluster: {status.cluster}"] if status.cluster else []
    texts = (*named, f"Controller: {describe_controller(status, now)}")
    stored = describe_stored(status, now)
    head = [layout.heading(line) for text in texts for line in layout.wrap(text)]
    if status.page_command:  # in one line: it is to be copied
        head.append(f"Page: {status.page_command}, then http://localhost:{status.page_port}")
    head += layout.wrap(stored) if stored else []
    parts = [
        [*head, *_figures(status, now, layout), *(line for text in _facts(status) for line in layout.wrap(text))],
        map_lines(status.map, layout, _map_words(status, now)) if status.map is not None else [],
        _titled(f"IN FLIGHT{last}", _MOVES, [_move(move, now, goes=goes) for move in status.in_flight], layout),
        _surge_lines(status, now, layout, f"SURGES{last}"),
        _standing_lines(status, now, layout),
        _approval_lines(status.approval, now, layout),
        *(
            _listed(f"{title}{last}", [wait_sentence(wait, now, goes_on=goes) for wait in listed], layout)
            for title, listed in waits.items()
        ),
        _listed(f"HOLDS{last}", [hold_sentence(hold, now, goes_on=goes) for hold in status.holds], layout),
        _titled("LAST MOVES", _MOVES, [_move(move, now) for move in _newest(status.last_moves)], layout),
        _resilience_lines(status, now, layout),
        _titled(
            "NOT EVICTED, BY REASON",
            _REASONS,
            [(reason, str(number)) for reason, number in sorted(status.refusals.items())],
            layout,
        ),
        [layout.paint(line, Style.BAD) for text in _problems(status) for line in layout.wrap(text)],
    ]
    return sections(parts)


def _resilience_lines(status: StatusDocument, now: datetime, layout: TextLayout) -> list[str]:
    if status.resilience is None:
        return []
    sentences = resilience_sentences(status.resilience, now, is_led=runs(status))
    said = [line for text in sentences for line in layout.wrap(text)]
    rows = worst_rows(status.resilience)
    return (
        [layout.heading(loss_title(status.resilience).upper()), *said, *(layout.table(COLUMNS, rows) if rows else [])]
        if said
        else []
    )


def _surge_lines(status: StatusDocument, now: datetime, layout: TextLayout, title: str) -> list[str]:
    lines = [line for text in surge_sentences(status) for line in layout.wrap(text)]
    rows = surge_rows(status, now)
    table = layout.table(SURGE_COLUMNS, rows) if rows else []
    return [layout.heading(title), *table, *lines] if rows or lines else []


def _map_words(status: StatusDocument, now: datetime) -> Words:
    if goes_on(status):
        return Words(flight="moving now", now=now)
    return Words(flight=moving_word(status), step="was next", now=now)


def _figures(status: StatusDocument, now: datetime, layout: TextLayout) -> Iterator[str]:
    """Yield what comes next, and the four figures; nothing if the status has none."""
    figures = status.figures
    if figures is None:
        return
    for sign, text in headlines(status, figures, now):
        mark = f"{layout.paint(*_SIGNS[sign])} " if sign in _SIGNS else ""
        yield from layout.wrap(f"{mark}{text}")
    comes = figures.next_at is not None and figures.next_at > now and goes_on(status)
    comes_in = f", {next_word(figures)} in {format_rest(figures.next_at - now)}" if comes and figures.next_at else ""
    within = f" ({unsatisfiable_text(figures.unsatisfiable_limits)})" if figures.unsatisfiable_limits else ""
    parts = (
        (Sign.VIOLATED, figures.violated, f"of {plural(figures.workloads, 'workload')} violated{within}"),
        (Sign.MOVING, figures.moving, moving_word(status)),
        (Sign.WAITING, figures.waiting, f"to be evicted{comes_in}"),
        (Sign.UNREPAIRABLE, figures.unrepairable, NOT_NOW),
    )
    shown = (
        f"{f'{layout.paint(*_SIGNS[sign])} ' if number else ''}{number} {words}".replace(" ", "\xa0")
        for sign, number, words in parts
    )
    yield from layout.wrap("   ".join(shown))


def _facts(status: StatusDocument) -> Iterator[str]:
    ran = f", last cycle {status.last_cycle:%Y-%m-%d %H:%M:%SZ}" if status.last_cycle is not None else ""
    yield f"Policy {status.policy.hash} ({policy_source(status)}){ran}."
    plan = proof_text(status.plan.evictions, status.plan.minimum) if status.plan.evictions else "nothing to evict"
    if status.plan.uncounted:
        plan = f"{plural(status.plan.evictions, 'eviction')} ({uncounted_text(status.plan.uncounted)})"
    flight = "in flight" if goes_on(status) else "in flight in the last cycle"
    yield f"Plan: {plan}; {plural(len(status.in_flight), 'move')} {flight}."
    if status.left_out:
        rows = ", ".join(f"{number} of {name}" for name, number in status.left_out.items())
        yield f"Rows left out, as the status would have been too large to store: {rows}."
    if status.slow_start is not None:
        yield slow_start_text(status.slow_start)
    if status.paused is not None:
        yield _pause_sentence(status.paused, is_led=runs(status))


def _pause_sentence(pause: PauseStatus, *, is_led: bool) -> str:
    """Say until when the pause lasts; if no controller runs, say that it applies once one starts."""
    end = f"until {pause.until:%Y-%m-%d %H:%M:%SZ}" if pause.until is not None else "until somebody resumes"
    if is_led:
        return f"Paused {end}; rebalancer resume ends it."
    by = f" by {pause.by}" if pause.by else ""
    why = pause.error or pause.reason
    stands = f"A pause{by} stands {end}{f' ({why})' if why else ''}"
    return f"{stands}: the next controller begins paused. rebalancer resume ends it."


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
        yield from describe_policy_problem(status).split("\n")
    for team in status.policy.team_errors:
        yield from f"Team policy of {team.namespace}: {team.error}".split("\n")
    if status.forbidden_kinds:
        yield f"Not allowed to list {', '.join(status.forbidden_kinds)}; the roles of this version have the right."


def _newest(moves: Sequence[MoveEntry]) -> Sequence[MoveEntry]:
    return sorted(moves, key=lambda move: (-move.since.timestamp(), move.namespace, move.pod))[:_MOST_MOVES]


def _move(move: MoveEntry, now: datetime, *, goes: bool = True) -> tuple[str, ...]:
    workload = f"{move.workload.name} ({move.workload.kind})"
    state = f"{move.state}, overdue: {move.overdue}" if move.overdue else move.state
    age = ago(move.since if MoveState(move.state).over else move.requested_at or move.since, now)
    if not goes:
        age = describe_unwatched(move.state, move.requested_at or move.since, now)
    elif move.usual is not None:
        age += f" ({past_moves(move.usual)} in all)"
    elif move.requested_at is not None and move.state == MoveState.VERIFIED:
        age += f", took {took_text(move.state, move.requested_at, move.since, move.ready_at)}"
    to = domains_text(move.to) if move.to else ""
    return f"{move.namespace}/{move.pod}", workload, move.node, to, move.reason, state, age


def _standing_lines(status: StatusDocument, now: datetime, layout: TextLayout) -> list[str]:
    """Show the approval of a whole plan that is carried out, or why an approval approves nothing."""
    title = standing_title(status)
    sentences = standing_sentences(status, now)
    return [layout.heading(title), *(line for text in sentences for line in layout.wrap(text))] if title else []


def _approval_lines(approval: ApprovalStatus | None, now: datetime, layout: TextLayout) -> list[str]:
    """Show the plan that waits for approval or is carried out: its evictions, until when, and how it is approved."""
    if approval is None:
        return []
    rows = [
        (f"{one.namespace}/{one.pod}", one.node, domains_text(one.domains), one.reason) for one in approval.evictions
    ]
    return [
        layout.heading(approval_title(approval)),
        *layout.table(("POD", "FROM", "TO", "WHY"), rows),
        *(line for text in approval_sentences(approval, now) for line in layout.wrap(text)),
    ]


def _listed(title: str, texts: Sequence[str], layout: TextLayout) -> list[str]:
    """Return texts under a title; [] if there are none."""
    return [layout.heading(title), *(line for text in texts for line in layout.wrap(text, hang="  "))] if texts else []


def _titled(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], layout: TextLayout) -> list[str]:
    """Return a table under its title; [] if it has no rows."""
    return [layout.heading(title), *layout.table(head, rows)] if rows else []
