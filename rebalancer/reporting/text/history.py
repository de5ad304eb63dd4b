"""The history and the trend as text: how old they are, then one line for each entry, newest last as in a log."""

from collections.abc import Iterator
from typing import Final

from rebalancer.documents.history import HistoryDocument, HistoryEntry, TrendDocument
from rebalancer.model.history import EntryKind
from rebalancer.reporting.text.layout import PLAIN, Style, TextLayout, join_lines

_HEAD: Final = ("TIME", "KIND", "WHAT")
_TREND: Final = ("TIME", "VIOLATED WORKLOADS", "PODS ABOVE BOUNDS", "LARGEST SKEW")
_STYLES: Final = {
    EntryKind.VIOLATED: Style.BAD,
    EntryKind.SATISFIED: Style.GOOD,
    EntryKind.NODE_FOUND: Style.GOOD,
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
        return join_lines((*_head(document), f"No entries: {reason}."))
    rows = [
        (f"{entry.at:%Y-%m-%d %H:%M:%SZ}", layout.paint(entry.kind, _find_style(entry)), entry.text)
        for entry in document.entries
    ]
    return join_lines((*_head(document), *layout.table(_HEAD, rows)))


def _head(document: HistoryDocument | TrendDocument) -> Iterator[str]:
    """Say as of when a document is, by the times that the status has."""
    if document.as_of is not None:
        ran = f", last cycle {document.last_cycle:%Y-%m-%d %H:%M:%SZ}" if document.last_cycle is not None else ""
        yield f"As of {document.as_of:%Y-%m-%d %H:%M:%SZ}{ran}"


def _find_style(entry: HistoryEntry) -> Style | None:
    if entry.outcome:
        return Style.GOOD if entry.went_well else Style.CAUTION
    return next((style for kind, style in _STYLES.items() if kind == entry.kind), None)


def trend_text(document: TrendDocument, layout: TextLayout = PLAIN) -> str:
    """Show samples."""
    if not document.samples:
        return join_lines((*_head(document), "No samples: nothing was violated yet."))
    rows = [
        (f"{sample.at:%Y-%m-%d %H:%M:%SZ}", str(sample.violated), str(sample.above), str(sample.skew))
        for sample in document.samples
    ]
    return join_lines((*_head(document), *layout.table(_TREND, rows)))
