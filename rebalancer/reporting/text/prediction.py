"""The prediction as text: the outcome in a sentence, then a table of nodes with scores or the filter that rejects."""

from typing import Final

from rebalancer.reporting.phrases import prediction_summary
from rebalancer.scheduling.predict import NodePrediction, Prediction

_WIDEST: Final = 90
"""Longer messages are truncated in the table; the document has them whole."""


def prediction_text(prediction: Prediction) -> str:
    """Show a prediction: the summary, then the nodes, best first."""
    lines = [prediction_summary(prediction), ""]
    ordered = sorted(prediction.nodes, key=lambda node: (not node.feasible, -(node.total or 0), node.name))
    rows = [("NODE", "TOTAL", "WHY"), *(_row(node) for node in ordered)]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines += [f"{row[0].ljust(widths[0])}  {row[1].rjust(widths[1])}  {row[2]}".rstrip() for row in rows]
    return "\n".join([*lines, ""])


def _row(node: NodePrediction) -> tuple[str, str, str]:
    if node.feasible:
        scores = " ".join(f"{plugin} {score}" for plugin, score in node.scores.items())
        return node.name, "" if node.total is None else str(node.total), scores or "the only feasible node"
    plugin = node.rejected_by or ""
    why = f"{plugin}: {node.verdicts[plugin].message}"
    return node.name, "-", why if len(why) <= _WIDEST else f"{why[: _WIDEST - 1]}…"
