"""What losing each single domain would break, as a person reads it: the worst, and how many could be lost unharmed."""

from typing import Final

from rebalancer.reporting.documents import LostGroup, ReportDocument, ReportedFailure
from rebalancer.reporting.keys import key_text
from rebalancer.reporting.limit_text import aligned

_COLUMNS: Final = ("IF LOST", "BROKEN", "UNPLACEABLE", "WORST")
_MOST: Final = 20


def failure_lines(document: ReportDocument) -> list[str]:
    """Show the domains whose loss would break a bound or a majority, or leave pods without a node; [] if not asked."""
    failures, domains = document.failures, document.failure_domains
    if failures is None or domains is None:
        return []
    if not failures:
        return ["", f"None of the {domains} domains holds pods of the policy's groups."]
    bad = [each for each in failures if each.unplaceable or not all(group.holds for group in each.groups)]
    rows = [_row(each) for each in bad[:_MOST]]
    more = [f"… and {len(bad) - _MOST} more"] if len(bad) > _MOST else []
    untried = sum(each.unplaceable is None for each in failures)
    notes = [f"For {untried} it was not tried whether replacements find nodes."] if untried else []
    held = (
        f"{len(failures)} of {domains} domains hold pods of the policy's groups; {len(failures) - len(bad)} of these "
        f"{len(failures)} can be lost without breaking a bound, a majority or a placement."
    )
    return ["", *(aligned([_COLUMNS, *rows]) if rows else ()), *more, *([""] if rows else ()), held, *notes]


def _row(each: ReportedFailure) -> tuple[str, ...]:
    broken = sum(not group.holds for group in each.groups)
    worst = each.groups[0]
    unplaceable = "not tried" if each.unplaceable is None else str(each.unplaceable)
    return f"{each.topology_key} {each.domain}", f"{broken}{'+' if each.omitted else ''}", unplaceable, loss(worst)


def loss(of: LostGroup) -> str:
    """Say what a set of pods loses, and what is left."""
    name = of.group if of.limit is None else f"{of.group}/{of.limit}"
    who = f"{name} {of.namespace} {key_text(of.key)}"
    return f"{who} loses {of.lost} of {of.total} ({round(100 * of.share)} %), {of.left} left"
