"""The history and the trend as text: a line for each entry, the newest last, as in a log."""

from typing import Final

from rebalancer.documents.history import HistoryDocument, HistoryEntry, TrendDocument
from rebalancer.model.history import EntryKind
from rebalancer.model.moves import MoveState
from rebalancer.reporting.text.layout import PLAIN, Style, TextLayout, join_lines

_HEAD: Final = ("TIME", "KIND", "WHAT")
_TREND: Final = ("TIME", "VIOLATED WORKLOADS", "PODS ABOVE BOUNDS", "LARGEST SKEW")
_STYLES: Final = {
    EntryKind.VIOLATED: Style.BAD,
    EntryKind.SATISFIED: Style.GOOD,
    EntryKind.PAUSED: Style.CAUTION,
    EntryKind.RESUMED: Style.GOOD,
    EntryKind.POLICY_REFUSED: Style.BAD,
    EntryKind.POLICY_MISSING: Style.BAD,
    EntryKind.RIGHT_MISSING: Style.BAD,
    EntryKind.RIGHT_GRANTED: Style.GOOD,
    EntryKind.ZONE_LOST: Style.BAD,
    EntryKind.ZONE_RETURNED: Style.GOOD,
    EntryKind.DROPPED: Style.BAD,
}


def history_text(document: HistoryDocument, layout: TextLayout = PLAIN) -> str:
    """Show entries."""
    if not document.entries:
        reason = "nothing has been recorded yet" if not document.total else f"none of {document.total} is selected"
        return f"No entries: {reason}.\n"
    rows = [
        (f"{entry.at:%Y-%m-%d %H:%M:%SZ}", layout.paint(entry.kind, _find_style(entry)), entry.text)
        for entry in document.entries
    ]
    return join_lines(layout.table(_HEAD, rows))


def _find_style(entry: HistoryEntry) -> Style | None:
    if entry.outcome:
        return Style.GOOD if entry.outcome == MoveState.VERIFIED else Style.CAUTION
    return next((style for kind, style in _STYLES.items() if kind == entry.kind), None)


def trend_text(document: TrendDocument, layout: TextLayout = PLAIN) -> str:
    """Show samples."""
    if not document.samples:
        return "No samples: nothing was violated yet.\n"
    rows = [
        (f"{sample.at:%Y-%m-%d %H:%M:%SZ}", str(sample.violated), str(sample.above), str(sample.skew))
        for sample in document.samples
    ]
    return join_lines(layout.table(_TREND, rows))
