"""The limits of a report as text: a table of those that are not satisfied, reasons, remedies, and a summary."""

from collections.abc import Iterable, Sequence
from typing import Final

from rebalancer.model.reasons import State, ViolationCause
from rebalancer.reporting.documents.report import ReportedLimit
from rebalancer.reporting.keys import key_text, short_key
from rebalancer.reporting.phrases import name_list, plural

_COLUMNS: Final = ("LIMIT", "NAMESPACE", "PODS", "STATE", "SEVERITY", "GUARANTEED", "DETAILS")

_Note = tuple[ReportedLimit, str]
"""A sentence about a limit, "" for none."""


def limit_lines(limits: Sequence[ReportedLimit]) -> list[str]:
    """Show the limits that are not satisfied as a table, with reasons and remedies; nothing where there is no limit."""
    if not limits:
        return []
    unsatisfied = [limit for limit in limits if limit.state != State.SATISFIED]
    lines = ["", *align_columns([_COLUMNS, *map(_row, unsatisfied)])] if unsatisfied else []
    for notes in (map(_obstacle_note, unsatisfied), map(_cause_note, unsatisfied)):
        note_lines = _merge_notes(notes)
        lines += ["", *note_lines] if note_lines else []
    return [*lines, "", _summary([limit for limit in limits if limit.state == State.SATISFIED], len(limits))]


def _summary(satisfied: Sequence[ReportedLimit], total: int) -> str:
    number, guaranteed = len(satisfied), sum(limit.guaranteed for limit in satisfied)
    text = f"{number} of {plural(total, 'limit')} {'is' if total == 1 else 'are'} satisfied"
    if not guaranteed:
        return f"{text}."
    which = "it" if guaranteed == number == 1 else "all of them" if guaranteed == number else f"{guaranteed} of them"
    return f"{text}; the pods' own constraints guarantee {which}."


def _obstacle_note(limit: ReportedLimit) -> _Note:
    return limit, f"{limit.reason}: {limit.obstacle}" if limit.obstacle else ""


def _cause_note(limit: ReportedLimit) -> _Note:
    cause = f"cause {limit.cause}." if limit.cause and limit.cause != ViolationCause.UNKNOWN else ""
    return limit, " ".join(filter(None, (cause, _shorten(limit, limit.remedy))))


def _merge_notes(notes: Iterable[_Note]) -> list[str]:
    """Return a line for each note; sets of pods with equal notes share a line."""
    pods_by_note: dict[tuple[str, str, str], list[str]] = {}
    for limit, text in notes:
        if text:
            note = (limit.namespace, f"{limit.group}/{limit.limit}", text)
            pods_by_note.setdefault(note, []).append(key_text(limit.key))
    return [
        f"{namespace} {name_list(pods)}: {limit}: {text}" for (namespace, limit, text), pods in pods_by_note.items()
    ]


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Pad the cells of a table; the last column is not padded."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return ["  ".join((*(map(str.ljust, row[:-1], widths)), row[-1])) for row in rows]


def _row(limit: ReportedLimit) -> tuple[str, ...]:
    guaranteed = "yes" if limit.guaranteed else "no"
    name, details = f"{limit.group}/{limit.limit}", _shorten(limit, limit.message)
    return name, limit.namespace, key_text(limit.key), limit.state, limit.severity, guaranteed, details


def _shorten(limit: ReportedLimit, text: str) -> str:
    return text.replace(limit.topology_key, short_key(limit.topology_key))
