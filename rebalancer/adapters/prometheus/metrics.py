"""All metrics of a process behind one registry of their own."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import prometheus_client
from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from rebalancer.adapters.prometheus.collector import GaugeCollector, V
from rebalancer.adapters.prometheus.declarations import Counter, Gauge, Histogram, Metric

T = TypeVar("T", prometheus_client.Counter, prometheus_client.Histogram)


class Metrics(Generic[V]):
    """The registry: gauges of the last published view, and the client library's own counters and histograms.

    `first` is the view before the first one is published; `refresh` is called with the last view at every scrape. Every
    method may be called from any thread.
    """

    def __init__(
        self,
        gauges: Sequence[Gauge[V]],
        events: Sequence[Counter | Histogram],
        *,
        first: V,
        refresh: Callable[[V], V],
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._gauges = GaugeCollector(gauges, first, refresh)
        self.registry.register(self._gauges)
        self._counters: dict[str, prometheus_client.Counter] = {}
        self._histograms: dict[str, prometheus_client.Histogram] = {}
        for metric in events:
            if isinstance(metric, Counter):
                counter = prometheus_client.Counter(metric.name, metric.help, metric.labels, registry=self.registry)
                self._counters[metric.name] = _begin(counter, metric)
            else:
                histogram = prometheus_client.Histogram(
                    metric.name, metric.help, metric.labels, buckets=metric.buckets, registry=self.registry
                )
                self._histograms[metric.name] = _begin(histogram, metric)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def publish(self, view: V) -> None:
        """Export this view from now on."""
        self._gauges.publish(view)

    def counter(self, metric: Counter) -> prometheus_client.Counter:
        """Return the instrument of a counter."""
        return self._counters[metric.name]

    def histogram(self, metric: Histogram) -> prometheus_client.Histogram:
        """Return the instrument of a histogram."""
        return self._histograms[metric.name]


def _begin(instrument: T, metric: Metric) -> T:
    """Return the instrument with the series that exist from the start."""
    if len(metric.labels) == 1:
        for value in metric.values:
            instrument.labels(value)
    return instrument
