"""The order in which a ReplicaSet or ReplicationController deletes its pods.

Source: `pkg/controller/replicaset/replica_set.go` (getPodsToDelete, getPodsRankedByRelatedPodsOnSameNode) and
`pkg/controller/controller_utils.go` (ActivePodsWithRanks), of Kubernetes 1.36.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import log2
from typing import Final

from rebalancer.model.deletion_costs import deletion_cost
from rebalancer.model.pods import Pod, PodPhase

_PHASES: Final = {PodPhase.PENDING: 0, PodPhase.UNKNOWN: 1}


def sort_for_deletion(active: Iterable[Pod], crowds: Mapping[str | None, int], now: datetime) -> list[Pod]:
    """Sort pods by the order in which their controller deletes them.

    `crowds` counts the pods of its Deployment on each node. Among otherwise equal pods, the pod that has been Ready, or
    has existed, for a shorter time goes first, compared in powers of two; then the UID decides.
    """
    return sorted(active, key=lambda pod: _rank_for_deletion(pod, crowds.get(pod.node, 0), now))


def _rank_for_deletion(pod: Pod, crowd: int, now: datetime) -> tuple[bool, int, bool, int, int, int, str]:
    since = pod.ready_since if pod.ready and pod.ready_since is not None else pod.created
    age = (now - since).total_seconds() * 1e9
    return (
        pod.node is not None,
        _PHASES.get(pod.phase, 2),
        pod.ready,
        deletion_cost(pod),
        -crowd,
        int(log2(age)) if age > 0 else -1,
        pod.uid,
    )
