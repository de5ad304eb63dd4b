"""Limits the number of series: all series of an ordinary cluster, only the worst of a very large one.

A Prometheus that fails because of too many series raises no alerts. Where not all fit, namespaces take turns, each with
the worst of its own: a namespace with thousands of violations must not hide the one of another, nor end its alert.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from heapq import nsmallest
from typing import Final, Generic, NamedTuple, TypeVar

from rebalancer.model.reasons import State
from rebalancer.model.visible import visible

MOST_WORKLOADS: Final = 10_000
"""Up to this number of workloads, or of groups, every row is exported."""

MOST_BROKEN: Final = 10_000
"""Beyond `MOST_WORKLOADS`: this number of rows that are not Satisfied, the worst first."""

WORST_SATISFIED: Final = 1_000
"""And this number of Satisfied rows, the closest to their bound first."""

MOST_DOMAINS: Final = 1_000
"""Of the series that name a domain this number, the worst first; no other label may name nodes."""

T = TypeVar("T")


class Series(NamedTuple, Generic[T]):
    """The series of something that has a bound: `labels` are the values, `subject` the workload or group.

    `namespace` is that of its pods, `headroom` the distance to the bound, below 0 where it is violated, and `of` what
    is evaluated.
    """

    namespace: str
    labels: tuple[str, ...]
    subject: Hashable
    headroom: int
    state: State
    of: T


def select_series(series: Iterable[Series[T]]) -> Sequence[Series[T]]:
    """Return one for each set of label values, the worst of those with equal values; of too many the worst only.

    A workload has pods of two templates during a rollout, and names may be equal as they are shown; Prometheus refuses
    a scrape that has the same series twice.
    """
    worst: dict[tuple[str, ...], Series[T]] = {}
    for one in series:
        labels = tuple(map(visible, one.labels))
        known = worst.get(labels)
        if known is None or one.headroom < known.headroom:
            worst[labels] = one._replace(labels=labels)
    unique = list(worst.values())
    if len({one.subject for one in unique}) <= MOST_WORKLOADS:
        return unique
    broken = [one for one in unique if one.state is not State.SATISFIED]
    satisfied = [one for one in unique if one.state is State.SATISFIED]
    return [*take_worst(broken, MOST_BROKEN), *take_worst(satisfied, WORST_SATISFIED)]


def take_worst(series: Iterable[Series[T]], number: int) -> Sequence[Series[T]]:
    """Return the worst of each namespace in turn: first the worst of each, then the second of each, and so on.

    Worse is what has less headroom, then what comes first by its labels: the same ones as long as nothing changes.
    """
    by_namespace: defaultdict[str, list[Series[T]]] = defaultdict(list)
    for one in series:
        by_namespace[one.namespace].append(one)
    ranked = ((rank, one) for own in by_namespace.values() for rank, one in enumerate(sorted(own, key=_order)))
    return [one for _, one in nsmallest(number, ranked, key=lambda pair: (pair[0], _order(pair[1])))]


def _order(one: Series[T]) -> tuple[int, tuple[str, ...]]:
    return one.headroom, one.labels
