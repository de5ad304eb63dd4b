"""Shows the figures of the last cycle, made into series when somebody scrapes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from heapq import nsmallest
from platform import python_version
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from rebalancer import __version__
from rebalancer.adapters.prometheus import catalog as declared
from rebalancer.adapters.prometheus.cardinality import shown
from rebalancer.adapters.prometheus.catalog import Metric
from rebalancer.adapters.prometheus.samples import ConstraintSamples, CycleSamples, LimitSamples, WatchSamples

WORST_DOMAINS: Final = 1_000
"""The only series whose labels may name nodes."""

Watches = Callable[[], Iterable[WatchSamples]]


class CycleCollector(Collector):
    """Exchanging `figures` is atomic; everything else here only reads."""

    def __init__(self, watches: Watches, revision: str) -> None:
        self.figures = CycleSamples()
        self._watches = watches
        self._revision = revision

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return nothing: the names are ours alone, and nothing need be collected to register them."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Make the series."""
        figures = self.figures
        yield _gauge(declared.BUILD_INFO, [((__version__, self._revision, python_version()), 1)])
        yield from _of_process(figures)
        yield from _of_watches(self._watches())
        if figures.leader:
            yield from _of_cycle(figures)


def _of_process(figures: CycleSamples) -> Iterator[GaugeMetricFamily]:
    yield _gauge(declared.LEADER, [((), int(figures.leader))])
    yield _gauge(declared.MODE, [((mode,), int(mode == figures.mode)) for mode in declared.MODE.values])
    yield _gauge(declared.POLICY_RELOAD_SUCCESSFUL, [((), int(figures.policy_valid))])
    yield _time(declared.POLICY_RELOADED, figures.policy_read_at)


def _of_watches(watches: Iterable[WatchSamples]) -> Iterator[GaugeMetricFamily]:
    listed = list(watches)
    yield _gauge(declared.WATCH_AGE, [((watch.kind,), watch.age) for watch in listed])
    yield _gauge(declared.CACHE_OBJECTS, [((watch.kind,), watch.objects) for watch in listed])


def _of_cycle(figures: CycleSamples) -> Iterator[GaugeMetricFamily]:
    yield from _of_constraints(shown(figures.constraints))
    yield from _of_limits(shown(figures.limits))
    rows = shown(figures.replacements)
    yield _gauge(declared.REPLACEMENT_BLOCKED, [(row.labels, int(row.blocked)) for row in rows])
    findings = {str(kind): number for kind, number in figures.findings.items()}
    yield _gauge(declared.FINDINGS, [((kind,), findings.get(kind, 0)) for kind in declared.FINDINGS.values])
    yield _gauge(declared.PLANNED_EVICTIONS, [((), figures.planned_evictions)])
    yield _gauge(declared.MINIMUM_EVICTIONS, [((), figures.minimum_evictions)])
    yield _gauge(declared.PAUSED, [((), int(figures.paused))])
    yield _gauge(declared.IN_FLIGHT, [((), figures.in_flight)])
    counts = {str(reason): count for reason, count in figures.refusals.items()}
    yield _gauge(declared.REFUSALS, [((reason,), counts.get(reason, 0)) for reason in declared.REFUSALS.values])
    yield _time(declared.LAST_CYCLE, figures.cycle_ended_at)


def _of_constraints(rows: Sequence[ConstraintSamples]) -> Iterator[GaugeMetricFamily]:
    yield _gauge(declared.CONSTRAINT_SKEW, [(row.labels, row.skew) for row in rows])
    yield _gauge(declared.CONSTRAINT_MAX_SKEW, [(row.labels, row.max_skew) for row in rows])
    states = declared.CONSTRAINT_STATE.values
    yield _gauge(
        declared.CONSTRAINT_STATE,
        [((*row.labels, state), int(state == row.state)) for row in rows for state in states],
    )


def _of_limits(rows: Sequence[LimitSamples]) -> Iterator[GaugeMetricFamily]:
    yield _gauge(declared.LIMIT_SHARE, [(row.labels, row.share) for row in rows if row.share is not None])
    yield _gauge(declared.LIMIT_HEADROOM, [(row.labels, row.headroom) for row in rows])
    states = declared.LIMIT_STATE.values
    yield _gauge(
        declared.LIMIT_STATE,
        [((*row.labels, row.severity, state), int(state == row.state)) for row in rows for state in states],
    )
    broken = [row for row in rows if row.headroom < 0 and row.worst is not None]
    worst = nsmallest(WORST_DOMAINS, broken, key=lambda row: (row.headroom, row.labels))
    yield _gauge(declared.LIMIT_WORST_DOMAIN, [((*row.labels, row.worst or ""), 1) for row in worst])


def _gauge(metric: Metric, rows: Iterable[tuple[tuple[str, ...], float]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in rows:
        family.add_metric(labels, value)
    return family


def _time(metric: Metric, moment: datetime | None) -> GaugeMetricFamily:
    return _gauge(metric, [] if moment is None else [((), moment.timestamp())])
