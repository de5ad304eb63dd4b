"""The limits of a report as text: a table of those that are not satisfied, with reasons and remedies, and a summary."""

from collections.abc import Iterable, Sequence
from typing import Final

from rebalancer.documents.phrases import key_text
from rebalancer.documents.report import ReportedLimit
from rebalancer.model.reasons import State, ViolationCause
from rebalancer.model.words import name_list, plural, short_key
from rebalancer.reporting.text.layout import STATE_STYLES, TextLayout, more_text

_COLUMNS: Final = ("LIMIT", "NAMESPACE", "PODS", "STATE", "SEVERITY", "GUARANTEED", "DETAILS")

_Note = tuple[ReportedLimit, str]
"""A sentence about a limit; "" for none."""


def limit_sections(
    limits: Sequence[ReportedLimit], layout: TextLayout, most: int | None, why_not: str
) -> list[list[str]]:
    """Show the limits that are not satisfied as a table, with reasons and remedies; show nothing without limits.

    `most` is how many are shown, None for all; `why_not` is the title of the reasons.
    """
    if not limits:
        return []
    unsatisfied = [limit for limit in limits if limit.state != State.SATISFIED]
    shown = unsatisfied[:most]
    parts = []
    if shown:
        more = layout.wrap(more_text(len(unsatisfied) - len(shown))) if len(shown) < len(unsatisfied) else []
        parts.append([*layout.table(_COLUMNS, [_row(limit, layout) for limit in shown]), *more])
    for title, notes in ((why_not, map(_obstacle_note, shown)), ("REMEDIES", map(_cause_note, shown))):
        lines = [line for text in _merge_notes(notes) for line in layout.wrap(text, hang="  ")]
        parts.append([layout.heading(title), *lines] if lines else [])
    satisfied = [limit for limit in limits if limit.state == State.SATISFIED]
    return [*parts, layout.wrap(_summary(satisfied, len(limits)))]


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
    """Return each note once, with the groups of pods and the limits that it concerns."""
    pods_by_note: dict[tuple[str, str, str], list[str]] = {}
    for limit, text in notes:
        if text:
            note = (limit.namespace, text, f"{limit.group}/{limit.limit}")
            pods_by_note.setdefault(note, []).append(key_text(limit.key))
    limits_by_pods: dict[tuple[str, str, str], list[str]] = {}
    for (namespace, text, name), pods in pods_by_note.items():
        limits_by_pods.setdefault((namespace, name_list(pods), text), []).append(name)
    return [
        f"{namespace} {pods}: {', '.join(names)}: {text}" for (namespace, pods, text), names in limits_by_pods.items()
    ]


def _row(limit: ReportedLimit, layout: TextLayout) -> tuple[str, ...]:
    # What is violated now is held by nothing yet; the pods' own constraints hold it once it is repaired.
    guaranteed = "no" if not limit.guaranteed else "yes" if limit.state == State.SATISFIED else "once repaired"
    name, details = f"{limit.group}/{limit.limit}", _shorten(limit, limit.message)
    return (
        name,
        limit.namespace,
        key_text(limit.key),
        layout.paint(limit.state, STATE_STYLES.get(State(limit.state))),
        limit.severity,
        guaranteed,
        details,
    )


def _shorten(limit: ReportedLimit, text: str) -> str:
    return text.replace(limit.topology_key, short_key(limit.topology_key))
