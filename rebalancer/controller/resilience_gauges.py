"""The gauges of what a lost domain leaves: the worst loss of each workload, for each key and phase."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import astuple

from rebalancer.adapters.prometheus import Gauge, Row
from rebalancer.controller.gauge_view import GaugeView
from rebalancer.controller.series import Series, select_series
from rebalancer.model.reasons import State
from rebalancer.resilience.worst import ResilienceReport, WorstLoss

_LABELS: Final = ("namespace", "workload_kind", "workload", "topology_key", "phase")
_OF: Final = "for the domain whose loss leaves the fewest for certain"


def _report_of(view: GaugeView) -> ResilienceReport:
    return view.state.reported.resilience


def _list_losses(view: GaugeView) -> Iterable[tuple[tuple[str, ...], WorstLoss]]:
    series = (
        Series(
            namespace=loss.workload.namespace,
            labels=(*astuple(loss.workload), loss.key, loss.phase),
            subject=loss.workload,
            headroom=loss.guaranteed - loss.required,
            state=State.SATISFIED if loss.holds else State.VIOLATED,
            of=loss,
        )
        for loss in _report_of(view).worst.losses
    )
    for one in select_series(series):
        yield one.labels, one.of


def _list_guaranteed(view: GaugeView) -> Iterable[Row]:
    return ((labels, loss.guaranteed) for labels, loss in _list_losses(view))


def _list_possible(view: GaugeView) -> Iterable[Row]:
    return ((labels, loss.possible) for labels, loss in _list_losses(view))


def _list_wanted(view: GaugeView) -> Iterable[Row]:
    return ((labels, loss.wanted) for labels, loss in _list_losses(view))


def _list_holds(view: GaugeView) -> Iterable[Row]:
    return ((labels, loss.holds) for labels, loss in _list_losses(view))


def _list_time(view: GaugeView) -> Iterable[Row]:
    as_of = _report_of(view).as_of
    return [] if as_of is None else [((), as_of.timestamp())]


RESILIENCE_GAUGES: Final[tuple[Gauge[GaugeView], ...]] = (
    Gauge(
        name="rebalancer_resilience_guaranteed",
        help=f"Pods of the workload that are certain to be left when a domain is lost, {_OF}.",
        labels=_LABELS,
        rows=_list_guaranteed,
        once_for=_report_of,
    ),
    Gauge(
        name="rebalancer_resilience_possible",
        help=f"Pods of the workload that are left at most when a domain is lost, {_OF}.",
        labels=_LABELS,
        rows=_list_possible,
        once_for=_report_of,
    ),
    Gauge(
        name="rebalancer_resilience_wanted",
        help=f"Pods that the workload wants: {_OF}.",
        labels=_LABELS,
        rows=_list_wanted,
        once_for=_report_of,
    ),
    Gauge(
        name="rebalancer_resilience_holds",
        help="1 if as many pods are left for certain as resilience.require of the policy says, else 0.",
        labels=_LABELS,
        rows=_list_holds,
        once_for=_report_of,
    ),
    Gauge(
        name="rebalancer_resilience_timestamp_seconds",
        help="When the cluster was read for the other rebalancer_resilience metrics; no series before that.",
        rows=_list_time,
    ),
)
