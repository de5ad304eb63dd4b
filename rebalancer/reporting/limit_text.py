"""The limits of a report as a person reads them: what is broken, by how much, and how much else holds."""

from collections.abc import Iterable, Sequence
from typing import Final

from rebalancer.model.reasons import State, ViolationCause
from rebalancer.reporting.documents import ReportedLimit
from rebalancer.reporting.keys import key_text, short
from rebalancer.reporting.phrases import listed, part

_COLUMNS: Final = ("LIMIT", "NAMESPACE", "PODS", "STATE", "SEVERITY", "GUARANTEED", "WHAT")


def limit_lines(limits: Sequence[ReportedLimit]) -> list[str]:
    """Show the limits that do not hold as a table, why, and how many do; nothing where no limit is in force."""
    if not limits:
        return []
    broken = [each for each in limits if each.state != State.SATISFIED]
    lines = ["", *aligned([_COLUMNS, *map(_row, broken)])] if broken else []
    for notes in (_together(_obstacle(each) for each in broken), _together(_led(each) for each in broken)):
        lines += ["", *notes] if notes else []
    return [*lines, "", _summary([each for each in limits if each.state == State.SATISFIED], len(limits))]


def _summary(held: Sequence[ReportedLimit], total: int) -> str:
    number, sure = len(held), sum(each.guaranteed for each in held)
    which = "" if sure == number == 1 else "all of them " if sure == number else f"{sure} of them "
    guaranteed = f", {which}guaranteed by the pods' own constraints" if sure else ""
    return f"{part(number, total, 'limit', 'hold')}{guaranteed}."


_Note = tuple[ReportedLimit, str]
"""Something to be said of a limit; "" is nothing."""


def _obstacle(each: ReportedLimit) -> _Note:
    return each, f"{each.reason}: {each.obstacle}" if each.obstacle else ""


def _led(each: ReportedLimit) -> _Note:
    cause = f"cause {each.cause}." if each.cause and each.cause != ViolationCause.UNKNOWN else ""
    return each, " ".join(filter(None, (cause, _shortened(each, each.remedy))))


def _together(notes: Iterable[_Note]) -> list[str]:
    """Write what is to be said of the limits, in one line where it is the same for several sets of pods."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for each, text in notes:
        if text:
            found.setdefault((each.namespace, f"{each.group}/{each.limit}", text), []).append(key_text(each.key))
    return [f"{namespace} {listed(pods)}: {limit}: {text}" for (namespace, limit, text), pods in found.items()]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay cells out in columns; the last is as wide as it likes."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return ["  ".join((*(map(str.ljust, row[:-1], widths)), row[-1])) for row in rows]


def _row(each: ReportedLimit) -> tuple[str, ...]:
    sure = "yes" if each.guaranteed else "no"
    name, what = f"{each.group}/{each.limit}", _shortened(each, each.message)
    return name, each.namespace, key_text(each.key), each.state, each.severity, sure, what


def _shortened(each: ReportedLimit, text: str) -> str:
    return text.replace(each.topology_key, short(each.topology_key))
