"""Reads at the API server, for a new leader, the pods of the moves that the last leader has stored.

All evictions of a cycle are stored before the first is requested. A process that ends in between leaves planned moves
that may or may not have been requested. Unless their pods are read, they count as evicted for two minutes, and their
workloads as repaired.
"""

from collections.abc import Callable
from typing import Final

import structlog

from rebalancer.model.moves import Memory, MoveState
from rebalancer.ports import Cluster, ReadFailedError

READ_SECONDS: Final = 1.0
"""Seconds for reading pods, one by one; limited because the same thread has to renew the Lease."""

_log = structlog.get_logger("rebalancer.lease")


def find_remaining(cluster: Cluster, memory: Memory, monotonic: Callable[[], float]) -> frozenset[str]:
    """Return the UIDs of the pods of planned moves that exist and are not terminating. Never raises ReadFailedError.

    A pod that could not be read is left out: its move stays in flight until the watch shows its result, or for two
    minutes. The first failed read ends the search.
    """
    planned = [move for move in memory.moves if move.state is MoveState.PLANNED]
    deadline = monotonic() + READ_SECONDS
    remaining: set[str] = set()
    for number, move in enumerate(planned):
        problem = f"reading took longer than {READ_SECONDS:g}s" if monotonic() >= deadline else ""
        try:
            if not problem and cluster.pod_remains(move):
                remaining.add(move.uid)
        except ReadFailedError as error:
            problem = str(error)
        if problem:
            _log.warning("pods of planned evictions not read", pods=len(planned) - number, error=problem)
            break
    if planned:
        _log.info("planned evictions of the last leader", moves=len(planned), unexecuted=len(remaining))
    return frozenset(remaining)
