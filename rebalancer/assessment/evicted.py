"""Workloads with a constraint or limit whose pods others evict."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from rebalancer.model.facts import Refusal
from rebalancer.model.moves import OthersEvictions, PlanningMemory, Reference
from rebalancer.model.reasons import Reason
from rebalancer.tracking.evicted import LONGEST_WAIT


class EvictedByOthers(Refusal):
    """Somebody else evicts pods of the workload, so its moves wait for its pods to be Ready, until `until` at most."""

    reason = Reason.EVICTED_BY_OTHERS
    ends_at = "until"
    evictions: OthersEvictions
    until: datetime

    def __str__(self) -> str:
        return f"{self.evictions}. None of its pods is moved until all are Ready, at most until {self.until:%H:%M:%SZ}"


def find_evicted_by_others(memory: PlanningMemory, concerned: Iterable[Reference]) -> Iterator[EvictedByOthers]:
    """Yield the concerned workloads whose pods others evict, or have until a moment ago."""
    if not memory.evicted_by_others:
        return
    known = frozenset(concerned)
    for run in memory.evicted_by_others:
        if run.workload in known:
            yield EvictedByOthers(run, run.since + LONGEST_WAIT)
