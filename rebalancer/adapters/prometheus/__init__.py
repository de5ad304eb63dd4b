"""Metrics: declared once, collected from the last cycle's figures, counted where something happens.

`declarations` is the list that documentation is generated from; `figures` are the values that a cycle leaves behind,
`collector` shows them, `metrics` puts everything behind one registry.
"""

from rebalancer.adapters.prometheus.catalog import METRICS, Metric, MoveOutcome, Phase, Stability, Type
from rebalancer.adapters.prometheus.metrics import Metrics
from rebalancer.adapters.prometheus.samples import (
    ConstraintSamples,
    CycleSamples,
    LimitSamples,
    ReplacementSamples,
    WatchSamples,
)

__all__ = [
    "METRICS",
    "ConstraintSamples",
    "CycleSamples",
    "LimitSamples",
    "Metric",
    "Metrics",
    "MoveOutcome",
    "Phase",
    "ReplacementSamples",
    "Stability",
    "Type",
    "WatchSamples",
]
