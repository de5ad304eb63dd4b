"""How many series there may be: all of an ordinary cluster, of a very large one only the worst.

A Prometheus that is brought down by our series tells nobody anything.
"""

from collections.abc import Hashable, Iterable, Sequence
from heapq import nsmallest
from typing import Final, Protocol, TypeVar

from rebalancer.model.reasons import State

MOST_WORKLOADS: Final = 10_000
"""Up to so many workloads, or sets of pods, each has its series."""

MOST_BROKEN: Final = 10_000
"""Beyond, so many that are not Satisfied, the worst first."""

WORST_SATISFIED: Final = 1_000
"""And so many of those that are, the closest to their bound first."""


class SampleRow(Protocol):
    """What stands for some series."""

    @property
    def subject(self) -> Hashable:
        """Whose series they are."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels' values."""
        ...

    @property
    def headroom(self) -> int:
        """How far from the bound, below 0 beyond it."""
        ...

    @property
    def state(self) -> State:
        """The state."""
        ...


T = TypeVar("T", bound=SampleRow)


def select_rows(rows: Iterable[T]) -> Sequence[T]:
    """Return one row for each set of labels, the worst where several have the same; of too many only the worst.

    A workload amidst a rollout has pods of two templates; a scrape with the same series twice would be refused whole.
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
    """Order by headroom, then by labels: the same rows are shown as long as nothing changes."""
    return row.headroom, row.labels
