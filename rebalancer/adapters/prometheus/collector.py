"""Exports gauges: the rows of the last published view as a whole, so that a scrape never sees a partial cycle.

A deleted workload leaves no stale series, because nothing is kept from one view to the next.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from rebalancer.adapters.prometheus.declarations import Gauge, Row
from rebalancer.model.visible import visible


class ProcessView(Protocol):
    """The input of gauges."""

    @property
    def leads(self) -> bool:
        """Whether this process exports the state of the cluster."""
        ...


V = TypeVar("V", bound=ProcessView)


class GaugeCollector(Collector, Generic[V]):
    """Exports gauges of the last published view.

    `refresh` is called at every scrape and adds values that change without the loop. For example, a loop that waits for
    a silent API server publishes nothing while its Lease runs out.
    """

    def __init__(self, gauges: Sequence[Gauge[V]], first: V, refresh: Callable[[V], V]) -> None:
        self._gauges = gauges
        self._refresh = refresh
        self._published: tuple[V, Mapping[str, tuple[object, Sequence[Row]]]] = first, {}
        """The view; of each gauge with `once_for` what its rows were made for, and the rows. Replaced as a whole."""

    def publish(self, view: V) -> None:
        """Export this view from now on, without the gauges of its cycle if making their rows fails."""
        try:
            rows = {gauge.name: self._make_rows(gauge, view) for gauge in self._gauges if gauge.once_for is not None}
        except Exception:
            self._published = view, {}
            raise
        self._published = view, rows

    def _make_rows(self, gauge: Gauge[V], view: V) -> tuple[object, Sequence[Row]]:
        """Return the object that the rows are made for, and the rows: the last rows if the object is unchanged."""
        source = gauge.once_for(view) if gauge.once_for is not None else view
        known = self._published[1].get(gauge.name)
        return known if known is not None and known[0] is source else (source, _clean(gauge.rows(view)))

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return nothing, so that registration collects nothing; names need no check for duplicates."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the series."""
        published, made = self._published
        view = self._refresh(published)
        for gauge in self._gauges:
            if gauge.leader_only and not view.leads:
                continue
            rows = _clean(gauge.rows(view)) if gauge.once_for is None else made.get(gauge.name, (None, ()))[1]
            family = GaugeMetricFamily(gauge.name, gauge.help, labels=gauge.labels)
            for labels, value in _add_zeros(gauge, rows) if gauge.values else rows:
                family.add_metric(labels, value)
            yield family


def _clean(rows: Iterable[Row]) -> Sequence[Row]:
    """Return rows with label values made displayable; of rows that become equal, keep that with the largest value."""
    cleaned: dict[tuple[str, ...], float] = {}
    for labels, value in rows:
        shown = tuple(map(visible, labels))
        cleaned[shown] = max(value, cleaned.get(shown, value))
    return tuple(cleaned.items())


def _add_zeros(gauge: Gauge[V], rows: Iterable[Row]) -> Iterator[Row]:
    """Yield a row for each value of the closed list, 0 if there is none, because an absent series is not 0."""
    given: dict[tuple[str, ...], dict[str, float]] = {(): {}} if len(gauge.labels) == 1 else {}
    for labels, value in rows:
        given.setdefault(labels[:-1], {})[labels[-1]] = value
    for labels, numbers in given.items():
        for last in gauge.values:
            yield (*labels, last), numbers.get(last, 0)
