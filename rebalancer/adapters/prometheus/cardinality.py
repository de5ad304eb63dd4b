"""Limits the number of series: all series of an ordinary cluster, only the worst of a very large one.

A Prometheus that fails because of too many series raises no alerts.
"""

from collections.abc import Hashable, Iterable, Sequence
from heapq import nsmallest
from typing import Final, Protocol, TypeVar

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
