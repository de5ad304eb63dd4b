"""Exports the samples of the last cycle; the series are made at each scrape.

Limits the number of series: all series of an ordinary cluster, only the worst of a very large one.

A Prometheus that fails because of too many series raises no alerts.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from heapq import nsmallest
from platform import python_version
from typing import Final, Protocol, TypeVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from rebalancer import __version__
from rebalancer.adapters.prometheus import catalog
from rebalancer.adapters.prometheus.catalog import Metric
from rebalancer.adapters.prometheus.samples import ConstraintSamples, CycleSamples, LimitSamples, WatchSamples
from rebalancer.model.reasons import State

MOST_WORKLOADS: Final = 10_000
"""Up to this number of workloads, or of groups, every row is exported."""

MOST_BROKEN: Final = 10_000
"""Beyond `MOST_WORKLOADS`: this number of rows that are not Satisfied, the worst first."""

WORST_SATISFIED: Final = 1_000
"""And this number of Satisfied rows, the closest to their bound first."""


class SampleRow(Protocol):
    """The values of some series."""

    @property
    def subject(self) -> Hashable:
        """The workload or group of the series."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """The values of the labels."""
        ...

    @property
    def headroom(self) -> int:
        """The distance to the bound; below 0: the bound is violated."""
        ...

    @property
    def state(self) -> State:
        """The state."""
        ...


T = TypeVar("T", bound=SampleRow)


def select_rows(rows: Iterable[T]) -> Sequence[T]:
    """Return one row for each set of label values, the worst of those with equal values; of too many the worst only.

    A workload has pods of two templates during a rollout; Prometheus refuses a scrape that has the same series twice.
    """
    worst: dict[tuple[str, ...], T] = {}
    for row in rows:
        known = worst.get(row.labels)
        if known is None or row.headroom < known.headroom:
            worst[row.labels] = row
    unique = list(worst.values())
    if len({row.subject for row in unique}) <= MOST_WORKLOADS:
        return unique
    broken = [row for row in unique if row.state is not State.SATISFIED]
    held = [row for row in unique if row.state is State.SATISFIED]
    return [*nsmallest(MOST_BROKEN, broken, key=_rank), *nsmallest(WORST_SATISFIED, held, key=_rank)]


def _rank(row: SampleRow) -> tuple[int, tuple[str, ...]]:
    """Sort by headroom, then by labels: the same rows are selected as long as nothing changes."""
    return row.headroom, row.labels


WORST_DOMAINS: Final = 1_000
"""The only series whose labels may name nodes."""

DOMAINS_WITHOUT_NODES: Final = 1_000
"""Series of domains that have no node, those that matter most first."""

Watches = Callable[[], Iterable[WatchSamples]]


class CycleCollector(Collector):
    """Replacing `samples` is atomic; everything else here only reads.

    `leads` is called at every scrape: the loop may wait for an API server that does not answer, and the Lease runs out.
    """

    def __init__(self, watches: Watches, leads: Callable[[], bool], revision: str) -> None:
        self.samples = CycleSamples()
        self._leads = leads
        self._watches = watches
        self._revision = revision

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return nothing: names need no check for duplicates, so that registration collects nothing."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the series."""
        samples = self.samples if self._leads() else replace(self.samples, leader=False)
        yield _make_gauge(catalog.BUILD_INFO, [((__version__, self._revision, python_version()), 1)])
        yield from _collect_process(samples)
        yield from _collect_watches(self._watches())
        if samples.leader:
            yield from _collect_cycle(samples)


def _collect_process(samples: CycleSamples) -> Iterator[GaugeMetricFamily]:
    yield _make_gauge(catalog.LEADER, [((), int(samples.leader))])
    yield _make_gauge(catalog.MODE, [((mode,), int(mode == samples.mode)) for mode in catalog.MODE.values])
    yield _make_gauge(catalog.POLICY_RELOAD_SUCCESSFUL, [((), int(samples.policy_valid))])
    yield _make_time_gauge(catalog.POLICY_RELOADED, samples.policy_read_at)


def _collect_watches(watches: Iterable[WatchSamples]) -> Iterator[GaugeMetricFamily]:
    listed = list(watches)
    yield _make_gauge(catalog.WATCH_AGE, [((watch.kind,), watch.age) for watch in listed])
    yield _make_gauge(catalog.CACHE_OBJECTS, [((watch.kind,), watch.objects) for watch in listed])


def _collect_cycle(samples: CycleSamples) -> Iterator[GaugeMetricFamily]:
    yield from _collect_constraints(select_rows(samples.constraints))
    yield from _collect_limits(select_rows(samples.limits))
    rows = select_rows(samples.replacements)
    yield _make_gauge(catalog.REPLACEMENT_BLOCKED, [(row.labels, int(row.wrong)) for row in rows])
    missing = nsmallest(
        DOMAINS_WITHOUT_NODES, samples.domains_without_nodes, key=lambda row: (row.headroom, row.labels)
    )
    yield _make_gauge(catalog.DOMAIN_WITHOUT_NODES, [(row.labels, int(row.headroom < 0)) for row in missing])
    yield _make_gauge(catalog.CAPACITY_PLACEHOLDERS, [((), samples.placeholders)])
    scale_downs = select_rows(samples.scale_downs)
    yield _make_gauge(catalog.SCALE_DOWN_UNSAFE, [(row.labels, int(row.wrong)) for row in scale_downs])
    yield _make_gauge(catalog.PREVENTION_LEFT, [((), samples.prevention_left)])
    yield _make_gauge(catalog.PREVENTION_STOPPED, [((), int(samples.prevention_stopped))])
    findings = {str(kind): number for kind, number in samples.findings.items()}
    yield _make_gauge(catalog.FINDINGS, [((kind,), findings.get(kind, 0)) for kind in catalog.FINDINGS.values])
    parts = samples.plan_parts
    yield _make_gauge(catalog.PLANNED_EVICTIONS, [((), parts.now + parts.waiting + parts.later)])
    by_part = asdict(parts)
    yield _make_gauge(catalog.PLAN_EVICTIONS, [((part,), by_part[part]) for part in catalog.PLAN_EVICTIONS.values])
    yield _make_gauge(catalog.MINIMUM_EVICTIONS, [((), samples.minimum_evictions)])
    yield _make_gauge(catalog.PLAN_PENDING, [((), samples.plan_pending)])
    yield _make_gauge(catalog.PAUSED, [((), int(samples.paused))])
    yield _make_gauge(
        catalog.BREAKER_OPEN,
        [((cause,), int(cause in samples.breaker_causes)) for cause in catalog.BREAKER_OPEN.values],
    )
    yield _make_gauge(catalog.MEMORY_SAVED, [((), int(samples.memory_saved))])
    rows_of_teams = [((name,), int(valid)) for name, valid in samples.team_policies.items()]
    yield _make_gauge(catalog.TEAM_POLICY_VALID, rows_of_teams)
    yield _make_gauge(catalog.IN_FLIGHT, [((), samples.in_flight)])
    yield _make_gauge(catalog.SLOW_START_WINDOW, [((), samples.slow_start_window)])
    yield _make_gauge(catalog.MOVES_UNDER_WAY, [((), samples.under_way)])
    yield _make_gauge(catalog.REPLACEMENTS_OVERDUE, [((), samples.overdue)])
    counts = {str(reason): count for reason, count in samples.refusals.items()}
    yield _make_gauge(catalog.REFUSALS, [((reason,), counts.get(reason, 0)) for reason in catalog.REFUSALS.values])
    yield _make_time_gauge(catalog.LAST_CYCLE, samples.cycle_ended_at)


def _collect_constraints(rows: Sequence[ConstraintSamples]) -> Iterator[GaugeMetricFamily]:
    yield _make_gauge(catalog.CONSTRAINT_SKEW, [(row.labels, row.skew) for row in rows])
    yield _make_gauge(catalog.CONSTRAINT_MAX_SKEW, [(row.labels, row.max_skew) for row in rows])
    states = catalog.CONSTRAINT_STATE.values
    yield _make_gauge(
        catalog.CONSTRAINT_STATE,
        [((*row.labels, state), int(state == row.state)) for row in rows for state in states],
    )


def _collect_limits(rows: Sequence[LimitSamples]) -> Iterator[GaugeMetricFamily]:
    yield _make_gauge(catalog.LIMIT_SHARE, [(row.labels, row.share) for row in rows if row.share is not None])
    yield _make_gauge(catalog.LIMIT_HEADROOM, [(row.labels, row.headroom) for row in rows])
    states = catalog.LIMIT_STATE.values
    yield _make_gauge(
        catalog.LIMIT_STATE,
        [((*row.labels, row.severity, state), int(state == row.state)) for row in rows for state in states],
    )
    broken = [row for row in rows if row.headroom < 0 and row.worst is not None]
    worst = nsmallest(WORST_DOMAINS, broken, key=lambda row: (row.headroom, row.labels))
    yield _make_gauge(catalog.LIMIT_WORST_DOMAIN, [((*row.labels, row.worst or ""), 1) for row in worst])


def _make_gauge(metric: Metric, rows: Iterable[tuple[tuple[str, ...], float]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in rows:
        family.add_metric(labels, value)
    return family


def _make_time_gauge(metric: Metric, moment: datetime | None) -> GaugeMetricFamily:
    return _make_gauge(metric, [] if moment is None else [((), moment.timestamp())])
