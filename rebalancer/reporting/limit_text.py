"""The limits of a report as a person reads them: what is broken, by how much, and how much else holds."""

from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import Final

from rebalancer.model.verdicts import State
from rebalancer.reporting.documents import ReportedLimit
from rebalancer.reporting.keys import short

_COLUMNS: Final = ("LIMIT", "NAMESPACE", "PODS", "STATE", "SEVERITY", "WHAT")


def limit_lines(limits: Sequence[ReportedLimit]) -> list[str]:
    """Show the limits that do not hold as a table, and how many do; nothing where no limit is in force."""
    if not limits:
        return []
    broken = [each for each in limits if each.state != State.SATISFIED]
    held = len(limits) - len(broken)
    lines = ["", f"{held} of {len(limits)} limit{'' if len(limits) == 1 else 's'} hold{'s' if held == 1 else ''}."]
    if not broken:
        return lines
    return ["", *aligned([_COLUMNS, *map(_row, broken)]), *lines]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay cells out in columns; the last is as wide as it likes."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return ["  ".join((*(map(str.ljust, row[:-1], widths)), row[-1])) for row in rows]


def key_text(key: Mapping[str, str]) -> str:
    """Name the pods that a limit is about: a workload as `kubectl` does, labels by their values."""
    if key.keys() == {"workload"}:
        return key["workload"]
    return ",".join(starmap(_labelled, key.items()))


def _labelled(label: str, value: str) -> str:
    return value if label == "workload" else f"{label.rpartition('/')[2]}={value}"


def _row(each: ReportedLimit) -> tuple[str, ...]:
    what = each.message.replace(each.topology_key, short(each.topology_key))
    return f"{each.group}/{each.limit}", each.namespace, key_text(each.key), each.state, each.severity, what
