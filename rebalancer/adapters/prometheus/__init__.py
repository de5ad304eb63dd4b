"""Metrics: from declarations to what Prometheus reads. The caller declares them, and supplies the values.

`declarations` are the forms of a declaration, `collector` exports gauges, `metrics` has the registry, with counters and
histograms, `requests` names requests to the API server. In the other direction, `queries` asks Prometheus about guards.
"""

from rebalancer.adapters.prometheus.declarations import Counter, Gauge, Histogram, Metric, Row
from rebalancer.adapters.prometheus.metrics import Metrics
from rebalancer.adapters.prometheus.queries import PrometheusQueries
from rebalancer.adapters.prometheus.requests import parse_request

__all__ = ["Counter", "Gauge", "Histogram", "Metric", "Metrics", "PrometheusQueries", "Row", "parse_request"]
