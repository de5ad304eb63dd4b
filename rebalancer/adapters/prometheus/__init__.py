"""Metrics: gauges from the samples of the last cycle, counters and histograms from events.

`catalog` declares every metric, and the documentation is generated from it; `samples` are the values of a cycle,
`collector` exports them, `cardinality` limits the number of series, `metrics` has the registry.
"""

from rebalancer.adapters.prometheus.catalog import METRICS, Metric, MoveOutcome, Phase, Stability, Type
from rebalancer.adapters.prometheus.metrics import Metrics
from rebalancer.adapters.prometheus.samples import (
    ConstraintSamples,
    CycleSamples,
    DomainSamples,
    LimitSamples,
    PlanParts,
    WatchSamples,
    WorkloadSamples,
)

__all__ = [
    "METRICS",
    "ConstraintSamples",
    "CycleSamples",
    "DomainSamples",
    "LimitSamples",
    "Metric",
    "Metrics",
    "MoveOutcome",
    "Phase",
    "PlanParts",
    "Stability",
    "Type",
    "WatchSamples",
    "WorkloadSamples",
]
