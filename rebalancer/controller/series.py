"""Limits the number of series: all series of an ordinary cluster, only the worst of a very large one.

A Prometheus that fails because of too many series raises no alerts. If not all series fit, namespaces take turns, each
with its worst. So a namespace with thousands of violations neither hides the violation of another nor ends its alert.
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
"""Beyond `MOST_WORKLOADS`: this number of Satisfied rows, those closest to their bound first."""

MOST_DOMAINS: Final = 1_000
"""The worst series that name a domain, up to this number; no other label may name nodes."""

T = TypeVar("T")


class Series(NamedTuple, Generic[T]):
    """A series of a rule that has a bound."""

    namespace: str
    """The namespace of its pods."""
    labels: tuple[str, ...]
    """The label values."""
    subject: Hashable
    """The workload or group."""
    headroom: int
    """The distance to the bound, negative if it is violated."""
    state: State
    of: T
    """The evaluated rule."""


def select_series(series: Iterable[Series[T]]) -> Sequence[Series[T]]:
    """Return the worst series for each set of label values; if there are too many, only the worst of these.

    During a rollout a workload has pods of two templates, and their displayed names may be equal. Prometheus refuses a
    scrape that contains a series twice.
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

    Less headroom is worse. Labels break ties, so that the choice is stable while nothing changes.
    """
    by_namespace: defaultdict[str, list[Series[T]]] = defaultdict(list)
    for one in series:
        by_namespace[one.namespace].append(one)
    ranked = ((rank, one) for own in by_namespace.values() for rank, one in enumerate(sorted(own, key=_order)))
    return [one for _, one in nsmallest(number, ranked, key=lambda pair: (pair[0], _order(pair[1])))]


def _order(one: Series[T]) -> tuple[int, tuple[str, ...]]:
    return one.headroom, one.labels
