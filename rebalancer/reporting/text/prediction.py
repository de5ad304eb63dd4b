"""The prediction as text: the outcome in a sentence, then a table of nodes with scores or the filter that rejects."""

from typing import Final

from rebalancer.documents.prediction import PredictedNode, PredictionDocument
from rebalancer.reporting.text.layout import PLAIN, Style, TextLayout, join_lines

_WIDEST: Final = 90
"""Longer messages are truncated in the table; the document contains them in full."""


def prediction_text(prediction: PredictionDocument, layout: TextLayout = PLAIN) -> str:
    """Show a prediction: the summary, then the nodes, best first."""
    ordered = sorted(prediction.nodes, key=lambda node: (not node.feasible, -(node.total or 0), node.name))
    rows = [_row(node) for node in ordered]
    width = max((len(total) for _, total, _ in rows), default=0)
    right = max(width, len("TOTAL"))
    painted = [
        (layout.paint(name, Style.GOOD if total != "-" else None), total.rjust(right), why) for name, total, why in rows
    ]
    table = layout.table(("NODE", "TOTAL".rjust(right), "WHY"), painted)
    return join_lines((*layout.wrap(prediction.summary), "", *table))


def _row(node: PredictedNode) -> tuple[str, str, str]:
    if node.feasible:
        scores = " ".join(f"{plugin} {score}" for plugin, score in node.scores.items())
        return node.name, "" if node.total is None else str(node.total), scores or "the only feasible node"
    plugin = node.rejected_by or ""
    why = f"{plugin}: {node.filters[plugin].message}"
    return node.name, "-", why if len(why) <= _WIDEST else f"{why[: _WIDEST - 1]}…"
