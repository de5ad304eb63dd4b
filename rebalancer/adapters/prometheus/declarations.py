"""A metric is declared once, as data: its instrument, the reference page and the tests of rules and dashboard read it.

Dashboards and alerts rely on names, labels and values. No label has pod names: every label set is bounded by workloads,
kinds or closed lists.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

Row = tuple[tuple[str, ...], float]
"""The label values of a series, in the order of the declaration, and its value."""

V = TypeVar("V")


@dataclass(frozen=True, kw_only=True)
class Metric:
    """The fields of every metric. `values` lists all values of the last label if they are a closed list.

    `leader_only`: standbys do not export it, so that a sum over all replicas counts the cluster once.
    """

    type: ClassVar[str]
    """The type of the metric in the exposition format."""
    name: str
    help: str
    labels: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    leader_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Gauge(Metric, Generic[V]):
    """A gauge, with the function that makes its rows from a view of the process.

    Each of `values` without a row is exported as 0. Rows are made at each scrape. With `once_for`, rows are made only
    when it returns a new object, so that expensive rows are made once per cycle.
    """

    type = "gauge"
    rows: Callable[[V], Iterable[Row]]
    once_for: Callable[[V], object] | None = None
    leader_only: bool = True


@dataclass(frozen=True, kw_only=True)
class Counter(Metric):
    """A counter; the client library counts.

    If the closed list belongs to its only label, all series exist from the start with value 0, so rates see each
    increase.
    """

    type = "counter"


@dataclass(frozen=True, kw_only=True)
class Histogram(Metric):
    """A histogram; its series exist from the start like a counter's."""

    type = "histogram"
    buckets: tuple[float, ...]
