"""The gauges of surges: how many are under way, and since when the oldest is."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from rebalancer.adapters.prometheus import Gauge, Row
from rebalancer.controller.gauge_view import GaugeView
from rebalancer.surge.record import Phase


def _count_surges(view: GaugeView) -> Iterable[Row]:
    counts = Counter(one.surge.phase for one in view.state.reported.surges.under_way)
    return [((phase,), number) for phase, number in counts.items()]


def _find_oldest(view: GaugeView) -> Iterable[Row]:
    begun = [one.surge.begun.timestamp() for one in view.state.reported.surges.under_way]
    return [((), min(begun, default=0.0))]


SURGE_GAUGES: Final[tuple[Gauge[GaugeView], ...]] = (
    Gauge(
        name="rebalancer_surges_under_way",
        help="Surges that are under way, by what is done next.",
        labels=("phase",),
        values=tuple(Phase),
        rows=_count_surges,
    ),
    Gauge(
        name="rebalancer_surge_oldest_timestamp_seconds",
        help="When the oldest surge that is under way has begun; 0 while none is.",
        rows=_find_oldest,
    ),
)
