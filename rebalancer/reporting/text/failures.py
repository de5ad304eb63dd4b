"""The loss of each single domain as text: the worst losses, and how many domains can fail without harm."""

from collections.abc import Sequence
from typing import Final

from rebalancer.documents.phrases import key_text
from rebalancer.documents.report import LostGroup, ReportDocument, ReportedFailure
from rebalancer.model.words import plural
from rebalancer.reporting.text.layout import TextLayout

_COLUMNS: Final = ("IF LOST", "VIOLATED", "UNPLACEABLE", "WORST")
_MOST: Final = 20
"""So many domains are listed; the rest is counted."""


def failure_lines(document: ReportDocument, layout: TextLayout) -> list[str]:
    """Show the domains whose loss violates a limit, loses a majority or leaves pods pending; [] without --failures."""
    failures, domains = document.failures, document.failure_domains
    if failures is None or domains is None:
        return []
    if not failures:
        return layout.wrap(f"None of the {plural(domains, 'domain')} holds pods of the policy's groups.")
    harmful = [
        failure for failure in failures if failure.unplaceable or not all(group.holds for group in failure.groups)
    ]
    not_simulated = sum(failure.unplaceable is None for failure in failures)
    losses = (
        f"{len(failures)} of {plural(domains, 'domain')} {'holds' if domains == 1 else 'hold'} pods of the policy's "
        f"groups. {len(failures) - len(harmful)} of these {len(failures)} can fail without violating a limit, losing "
        "a majority or leaving a pod pending."
    )
    notes = [losses]
    if not_simulated:
        which = plural(not_simulated, "domain")
        notes.append(f"For {which} the placement of replacements was not simulated: too many pods.")
    return [*_table(harmful, layout), *(line for text in notes for line in layout.wrap(text))]


def _table(harmful: Sequence[ReportedFailure], layout: TextLayout) -> list[str]:
    if not harmful:
        return []
    more = [f"… and {len(harmful) - _MOST} more"] if len(harmful) > _MOST else []
    return [*layout.table(_COLUMNS, [_row(failure) for failure in harmful[:_MOST]]), *more, ""]


def _row(failure: ReportedFailure) -> tuple[str, ...]:
    violated = sum(not group.holds for group in failure.groups)
    worst = failure.groups[0]
    unplaceable = "not simulated" if failure.unplaceable is None else str(failure.unplaceable)
    domain = f"{failure.topology_key} {failure.domain}"
    return domain, f"{violated}{'+' if failure.omitted else ''}", unplaceable, _loss_text(worst)


def _loss_text(group: LostGroup) -> str:
    """Say how many pods a group loses, and how many remain."""
    name = group.group if group.limit is None else f"{group.group}/{group.limit}"
    pods = f"{name} {group.namespace} {key_text(group.key)}"
    verb = "remains" if group.left == 1 else "remain"
    return (
        f"{pods} loses {group.lost} of {plural(group.total, 'pod')} ({round(100 * group.share)}%); {group.left} {verb}"
    )
