"""Evictions by workload: chooses the series, and how long they stay.

A series begins at 0 when an eviction is planned, so that `increase()` sees the first one, unless it is planned and
granted between two scrapes. The series ends an hour after the workload's last planned or granted eviction: a value that
somebody may still look at must not begin anew.

The number of workloads is limited; the rest are counted together. A namespace gets another series only while it has
fewer than are free. So no namespace takes more than half of the series that it found free, and other namespaces get the
rest.

After a lost Lease no series begins or grows. The series stay for their hour, like the other counters: the last
evictions may not have been scraped yet, and a sum over all replicas counts each eviction once.
"""

from collections import Counter as Tally
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import astuple
from prometheus_client import Counter

from rebalancer.model.moves import Move, Reference
from rebalancer.model.reasons import Cause
from rebalancer.model.visible import visible
from rebalancer.planning.plan import Plan

MOST_WORKLOADS: Final = 5_000
"""Workloads with series of their own."""

OTHER: Final = Reference(namespace="", kind="", name="other")
"""Stands for all other workloads."""

RETENTION: Final = timedelta(hours=1)
"""How long series stay after the last eviction that was planned or granted."""


class WorkloadEvictions:
    """The series of `counter`, whose labels are namespace, kind and name of a workload, and the reason."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._last: dict[Reference, datetime] = {}
        """When each workload with series was last planned or evicted."""
        self._held: Tally[str] = Tally()
        """How many workloads of each namespace have series of their own."""

    def plan(self, plan: Plan, now: datetime) -> None:
        """Begin the series of a plan's evictions. Where not all fit, the evictions that go now come first."""
        fates = plan.fates
        evictions = (*fates.going, *(one.eviction for one in fates.kept))
        for workload, cause in dict.fromkeys((eviction.workload, eviction.cause) for eviction in evictions):
            self._series(workload, cause, now)

    def count(self, move: Move) -> None:
        """Count an eviction that was granted."""
        self._series(move.workload, move.cause, move.changed_at).inc()

    def end(self, now: datetime) -> None:
        """End the series of workloads without an event for an hour."""
        for workload in [workload for workload, last in self._last.items() if now - last >= RETENTION]:
            del self._last[workload]
            if workload != OTHER:
                self._held[workload.namespace] -= 1
            for cause in Cause:
                self._counter.remove(*astuple(workload), cause)
        self._held = +self._held  # without namespaces that no longer have series

    def _series(self, workload: Reference, cause: Cause, now: datetime) -> Counter:
        workload = Reference(*map(visible, astuple(workload)))  # equal when displayed: one series
        if workload not in self._last:
            if self._has_place(workload.namespace):
                self._held[workload.namespace] += 1
            else:
                workload = OTHER
        self._last[workload] = max(now, self._last.get(workload, now))
        return self._counter.labels(*astuple(workload), cause)

    def _has_place(self, namespace: str) -> bool:
        free = MOST_WORKLOADS - (len(self._last) - (OTHER in self._last))
        return self._held[namespace] < free
