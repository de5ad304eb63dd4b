"""The Prediction document: the filters, scores and total of every node for one pod, as kube-scheduler computes them."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from rebalancer.documents.document import API_VERSION, CamelCaseStruct, Number, Text
from rebalancer.documents.phrases import prediction_summary
from rebalancer.scheduling.predict import NodePrediction, Prediction
from rebalancer.scheduling.preemption import PreemptionOutlook
from rebalancer.scheduling.unpredictable import Unpredictable

Score = Annotated[int, Meta(ge=0, le=100)]


class FilterVerdict(CamelCaseStruct, frozen=True, kw_only=True):
    """The verdict of one filter on one node, in the scheduler's words."""

    verdict: Text
    message: str


class PredictedNode(CamelCaseStruct, frozen=True, kw_only=True):
    """One node. `scores` are unweighted, `total` is weighted; without scoring they are empty and null.

    `rejectedBy` is the filter that the scheduler would name, null for a feasible node.
    """

    name: Text
    feasible: bool
    filters: Mapping[str, FilterVerdict]
    scores: Mapping[str, Score]
    total: Number | None
    rejected_by: str | None = None


class Preempted(CamelCaseStruct, frozen=True, kw_only=True):
    """One outcome of preemption: the node, the pods that are deleted there, and the budgets that this breaks."""

    node: Text
    victims: tuple[Text, ...]
    broken_budgets: tuple[Text, ...]


class PredictedPreemption(CamelCaseStruct, frozen=True, kw_only=True):
    """What the scheduler would preempt. One of `outcomes` happens, or, if they are not `complete`, another outcome.

    `obstacle` says why no pod is preempted, "" if one is.
    """

    outcomes: tuple[Preempted, ...]
    complete: bool
    obstacle: str


class NotPredictable(CamelCaseStruct, frozen=True, kw_only=True):
    """Why the prediction is not reliable."""

    reason: Text
    message: str


class PredictionDocument(CamelCaseStruct, frozen=True, kw_only=True):
    """A prediction.

    `candidates` are the nodes that the scheduler may pick; `certain` are the labels that all of them share. `message`
    is the scheduler's own if no node is feasible. `sampled`: the cluster is so large that the scheduler samples its
    nodes. `preemption` is null if a node is feasible. `summary` says all this in one or two sentences.
    """

    api_version: str = API_VERSION
    kind: str = "Prediction"
    pod: Text
    summary: Text
    nodes: tuple[PredictedNode, ...]
    candidates: tuple[str, ...]
    certain: Mapping[str, str]
    message: str
    sampled: bool
    preemption: PredictedPreemption | None
    not_predictable: NotPredictable | None


def prediction_document(prediction: Prediction) -> PredictionDocument:
    """Convert a prediction to its document; nodes are sorted by name."""
    return PredictionDocument(
        pod=str(prediction.pod),
        summary=prediction_summary(prediction),
        nodes=tuple(_predicted_node(node) for node in sorted(prediction.nodes, key=lambda node: node.name)),
        candidates=tuple(sorted(prediction.candidates)),
        certain=dict(sorted(prediction.certain.items())),
        message=prediction.failure,
        sampled=prediction.sampled,
        preemption=_preemption(prediction.preemption),
        not_predictable=_not_predictable(prediction.unpredictable),
    )


def _predicted_node(node: NodePrediction) -> PredictedNode:
    return PredictedNode(
        name=node.name,
        feasible=node.feasible,
        filters={
            name: FilterVerdict(verdict=verdict.code, message=verdict.message)
            for name, verdict in node.verdicts.items()
        },
        scores=dict(node.scores),
        total=node.total,
        rejected_by=node.rejected_by,
    )


def _preemption(outlook: PreemptionOutlook | None) -> PredictedPreemption | None:
    if outlook is None:
        return None
    return PredictedPreemption(
        outcomes=tuple(
            Preempted(
                node=outcome.node,
                victims=tuple(map(str, outcome.victims)),
                broken_budgets=tuple(sorted(map(str, outcome.broken))),
            )
            for outcome in outlook.outcomes
        ),
        complete=outlook.complete,
        obstacle=outlook.obstacle,
    )


def _not_predictable(unpredictable: Unpredictable | None) -> NotPredictable | None:
    return None if unpredictable is None else NotPredictable(reason=unpredictable.reason, message=unpredictable.message)
