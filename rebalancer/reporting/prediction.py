"""The Prediction document: what kube-scheduler would say of one pod, node by node."""

from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta

from rebalancer.reporting.documents import API_VERSION, Number, Text, Written
from rebalancer.reporting.phrases import part
from rebalancer.scheduling.predict import NodePrediction, Prediction
from rebalancer.scheduling.unpredictable import Unpredictable

Score = Annotated[int, Meta(ge=0, le=100)]
_WIDEST = 90
"""Messages longer than this are cut in the table; the document has them whole."""


class FilterVerdict(Written, frozen=True, kw_only=True):
    """What one filter says of one node, in the scheduler's words."""

    verdict: Text
    message: str


class PredictedNode(Written, frozen=True, kw_only=True):
    """One node. Scores are before their weights, `total` after; both are absent where nothing is scored."""

    name: Text
    feasible: bool
    filters: Mapping[str, FilterVerdict]
    scores: Mapping[str, Score]
    total: Number | None


class NotPredictable(Written, frozen=True, kw_only=True):
    """Why the rest should not be relied on."""

    reason: Text
    message: str


class PredictionDocument(Written, frozen=True, kw_only=True):
    """A prediction.

    `candidates` may win; `certain` are the labels on which all of them agree. `message` is the scheduler's own where no
    node fits. `sampled`: the cluster is so large that the scheduler looks at part of it only.
    """

    api_version: str = API_VERSION
    kind: str = "Prediction"
    pod: Text
    nodes: tuple[PredictedNode, ...]
    candidates: tuple[str, ...]
    certain: Mapping[str, str]
    message: str
    sampled: bool
    not_predictable: NotPredictable | None


def prediction_document(prediction: Prediction) -> PredictionDocument:
    """Write a prediction down; nodes are in the order of their names."""
    return PredictionDocument(
        pod=str(prediction.pod),
        nodes=tuple(_node(each) for each in sorted(prediction.nodes, key=lambda node: node.name)),
        candidates=tuple(sorted(prediction.candidates)),
        certain=dict(sorted(prediction.certain.items())),
        message=prediction.failure,
        sampled=prediction.sampled,
        not_predictable=_not_predictable(prediction.unpredictable),
    )


def _node(node: NodePrediction) -> PredictedNode:
    return PredictedNode(
        name=node.name,
        feasible=node.feasible,
        filters={
            name: FilterVerdict(verdict=verdict.code, message=verdict.message)
            for name, verdict in node.verdicts.items()
        },
        scores=dict(node.scores),
        total=node.total,
    )


def _not_predictable(found: Unpredictable | None) -> NotPredictable | None:
    return None if found is None else NotPredictable(reason=found.reason, message=found.message)


def prediction_text(prediction: Prediction) -> str:
    """Show a prediction: the outcome in a sentence, then the nodes, best first."""
    lines = [outcome(prediction), ""]
    ordered = sorted(prediction.nodes, key=lambda node: (not node.feasible, -(node.total or 0), node.name))
    rows = [("NODE", "TOTAL", "WHY"), *(_row(node) for node in ordered)]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines += [f"{row[0].ljust(widths[0])}  {row[1].rjust(widths[1])}  {row[2]}".rstrip() for row in rows]
    return "\n".join([*lines, ""])


def outcome(prediction: Prediction) -> str:
    """Say in a sentence or two where the pod would land, and how sure that is."""
    caveat = f" But {prediction.unpredictable.message}." if prediction.unpredictable is not None else ""
    if not prediction.feasible:
        helped = " Evicting pods of lower priority might make room." if prediction.may_preempt else ""
        return f"{prediction.pod} would stay Pending: {prediction.failure}{helped}{caveat}"
    fitting = f"{part(len(prediction.feasible), len(prediction.nodes), 'node', 'fit')} {prediction.pod}"
    where = _listed(sorted(prediction.candidates))
    how = "it may land on any of them, as the scheduler looks at part of so many" if prediction.sampled else ""
    how = how or (f"it lands on {where}" if len(prediction.candidates) == 1 else f"it lands on one of {where}")
    sure = ", ".join(f"{key}={value}" for key, value in prediction.certain.items())
    return f"{fitting}; {how}.{f' Certain: {sure}.' if sure else ''}{caveat}"


def _row(node: NodePrediction) -> tuple[str, str, str]:
    if node.feasible:
        scores = " ".join(f"{plugin} {score}" for plugin, score in node.scores.items())
        return node.name, "" if node.total is None else str(node.total), scores or "the only one that fits"
    plugin = node.rejected_by or ""
    why = f"{plugin}: {node.verdicts[plugin].message}"
    return node.name, "-", why if len(why) <= _WIDEST else f"{why[: _WIDEST - 1]}…"


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:6]) + (f" or {len(shown) - 6} more" if len(shown) > 6 else "")
