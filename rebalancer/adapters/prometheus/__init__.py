"""Metrics: declared once, collected from the last cycle's figures, counted where something happens.

`declarations` is the list that documentation is generated from; `figures` are the values that a cycle leaves behind,
`collector` shows them, `metrics` puts everything behind one registry.
"""

from rebalancer.adapters.prometheus.declarations import METRICS, Metric, MoveOutcome, Phase, Stability, Type
from rebalancer.adapters.prometheus.figures import (
    ConstraintFigures,
    CycleFigures,
    LimitFigures,
    ReplacementFigures,
    WatchFigures,
)
from rebalancer.adapters.prometheus.metrics import Metrics

__all__ = [
    "METRICS",
    "ConstraintFigures",
    "CycleFigures",
    "LimitFigures",
    "Metric",
    "Metrics",
    "MoveOutcome",
    "Phase",
    "ReplacementFigures",
    "Stability",
    "Type",
    "WatchFigures",
]
