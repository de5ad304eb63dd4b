"""Shows the figures of the last cycle, made into series when somebody scrapes."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from platform import python_version

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from rebalancer import __version__
from rebalancer.adapters.prometheus import declarations as declared
from rebalancer.adapters.prometheus.declarations import Metric
from rebalancer.adapters.prometheus.figures import ConstraintFigures, CycleFigures, WatchFigures

Watches = Callable[[], Iterable[WatchFigures]]


class CycleCollector(Collector):
    """Exchanging `figures` is atomic; everything else here only reads."""

    def __init__(self, watches: Watches, revision: str) -> None:
        self.figures = CycleFigures()
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


def _of_process(figures: CycleFigures) -> Iterator[GaugeMetricFamily]:
    yield _gauge(declared.LEADER, [((), int(figures.leader))])
    yield _gauge(declared.MODE, [((mode,), int(mode == figures.mode)) for mode in declared.MODE.values])
    yield _gauge(declared.POLICY_RELOAD_SUCCESSFUL, [((), int(figures.policy_valid))])
    yield _time(declared.POLICY_RELOADED, figures.policy_read_at)


def _of_watches(watches: Iterable[WatchFigures]) -> Iterator[GaugeMetricFamily]:
    listed = list(watches)
    yield _gauge(declared.WATCH_AGE, [((each.kind,), each.age) for each in listed])
    yield _gauge(declared.CACHE_OBJECTS, [((each.kind,), each.objects) for each in listed])


def _of_cycle(figures: CycleFigures) -> Iterator[GaugeMetricFamily]:
    rows = _one_each(figures.constraints)
    yield _gauge(declared.CONSTRAINT_SKEW, [(labels, row.skew) for labels, row in rows])
    yield _gauge(declared.CONSTRAINT_MAX_SKEW, [(labels, row.max_skew) for labels, row in rows])
    yield _gauge(
        declared.CONSTRAINT_STATE,
        [
            ((*labels, state), int(state == row.state))
            for labels, row in rows
            for state in declared.CONSTRAINT_STATE.values
        ],
    )
    yield _gauge(declared.PLANNED_EVICTIONS, [((), figures.planned_evictions)])
    yield _gauge(declared.MINIMUM_EVICTIONS, [((), figures.minimum_evictions)])
    yield _gauge(declared.IN_FLIGHT, [((), figures.in_flight)])
    counts = {str(reason): count for reason, count in figures.refusals.items()}
    yield _gauge(declared.REFUSALS, [((reason,), counts.get(reason, 0)) for reason in declared.REFUSALS.values])
    yield _time(declared.LAST_CYCLE, figures.cycle_ended_at)


def _one_each(constraints: Iterable[ConstraintFigures]) -> list[tuple[tuple[str, ...], ConstraintFigures]]:
    """Return rows by their labels, the worst where several have the same.

    A workload amidst a rollout has pods of two templates; a scrape with the same series twice would be refused whole.
    """
    worst: dict[tuple[str, ...], ConstraintFigures] = {}
    for row in constraints:
        labels = (row.namespace, row.workload_kind, row.workload, row.topology_key, row.when_unsatisfiable)
        known = worst.get(labels)
        if known is None or row.skew - row.max_skew > known.skew - known.max_skew:
            worst[labels] = row
    return list(worst.items())


def _gauge(metric: Metric, rows: Iterable[tuple[tuple[str, ...], float]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in rows:
        family.add_metric(labels, value)
    return family


def _time(metric: Metric, moment: datetime | None) -> GaugeMetricFamily:
    return _gauge(metric, [] if moment is None else [((), moment.timestamp())])
