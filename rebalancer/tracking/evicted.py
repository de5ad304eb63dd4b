"""Workloads whose pods others evict: a drain, a descheduler, an autoscaler, a second rebalancer.

Two programs that move pods of one workload undo each other's work, and neither reports why. So other evictors are
named, and the workload's moves wait until its pods are Ready again. They wait at most `LONGEST_WAIT` in all, from the
first such eviction on: an evictor that acts every few seconds must not stop the rebalancer permanently. A run of
evictions is over when none was seen for `RUN_END`. The next eviction begins another run, with a wait of its own.

An evicted pod has the condition DisruptionTarget with the reason EvictionByEvictionAPI. Other reasons are not requested
evictions: PreemptionByScheduler makes room for a pod of higher priority, DeletionByTaintManager and DeletionByPodGC
follow from the node's state, TerminationByKubelet from its pressure or shutdown. A deletion leaves no condition.

An eviction is the rebalancer's own if the memory has a move for the pod, including moves of an earlier leader or
without an answer, since each move is stored before it is requested.

A pod may be gone before the next snapshot, so each change of a pod is examined. Evictions before a leader began to
watch are not counted, because nothing shows whose they were. The pod does not say who requested its eviction. The API
server adds the condition itself, so no entry of `metadata.managedFields` has the condition
(`pkg/registry/core/pod/storage/eviction.go`, addConditionAndDeletePod). A node shows that it is being drained, and
mostly who has cordoned it.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.model.moves import Drain, Memory, MoveState, OthersEvictions
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import reference_of
from rebalancer.tracking.moves import is_deferred

LONGEST_WAIT: Final = timedelta(minutes=10)
"""How long a workload's moves wait, from the first eviction of a run: as long as a replacement may take."""

RUN_END: Final = timedelta(minutes=10)
"""Without an eviction for this long, a run is over.

If this were shorter than the wait, a slow evictor would begin a new run, and a new wait, with each pod.
"""

_MOST_NAMES: Final = 3
"""The most names of pods, and of nodes, that are stored for a workload."""


class SeenEviction(NamedTuple):
    """A pod that was evicted, and when that was seen."""

    pod: Pod
    at: datetime


def find_evicted(before: object, after: object) -> Pod | None:
    """Return the pod whose eviction a change shows, whoever evicted it; `after` is None for a deleted object.

    A pod that was already terminating was not evicted; its deletion only got another condition.
    """
    if not isinstance(before, Pod) or before.terminating:
        return None
    pod = before if after is None else after
    if not isinstance(pod, Pod) or pod.evicted_at is None or pod.finished:
        return None
    return pod if after is None or pod.terminating else None


def note_evictions(memory: Memory, seen: Iterable[SeenEviction], snapshot: Snapshot, now: datetime) -> Memory:
    """Return the memory with the evictions that others have requested since the last cycle; runs that are over end."""
    runs = {run.workload: _without_future(run, now) for run in memory.evicted_by_others}
    own = {move.uid for move in memory.moves if move.state is not MoveState.REFUSED or is_deferred(move)}
    for pod, at in seen:
        top = snapshot.top_owner_of(pod)
        if top is None or pod.uid in own:
            continue
        workload = reference_of(top)
        known = runs.get(workload)
        if known is None or at - known.last >= RUN_END:
            known = OthersEvictions(workload=workload, since=min(now, at), last=min(now, at), number=0, pods=())
        runs[workload] = _add(known, pod, snapshot.node.get(pod.node or ""), min(now, at))
    current = sorted(
        (run for run in runs.values() if now - run.last < RUN_END), key=lambda run: (run.last, run.workload)
    )
    return structs.replace(memory, evicted_by_others=tuple(current))


def _add(run: OthersEvictions, pod: Pod, node: Node | None, at: datetime) -> OthersEvictions:
    drains = run.drains
    is_drained = node is not None and (node.unschedulable or node.being_removed)
    if node is not None and is_drained:
        drain = Drain(node.name, "an autoscaler" if node.being_removed else node.cordoned_by)
        drains = tuple(sorted({*drains, drain}))[:_MOST_NAMES]
    return structs.replace(
        run,
        last=max(run.last, at),
        number=run.number + 1,
        pods=(*run.pods, pod.name)[-_MOST_NAMES:],
        drains=drains,
        elsewhere=run.elsewhere or not is_drained,
    )


def _without_future(run: OthersEvictions, now: datetime) -> OthersEvictions:
    """Return the run with no time after `now`: a clock that was set back must not make a wait longer."""
    return structs.replace(run, since=min(now, run.since), last=min(now, run.last))


def evictions_in(snapshot: Snapshot) -> tuple[OthersEvictions, ...]:
    """Return the evictions that a snapshot shows without a memory: pods that were evicted and are still terminating.

    The times are by the API server's clock. A rebalancer in that cluster may have requested these evictions.
    """
    ending = [pod for pod in snapshot.pods if pod.evicted_at is not None and pod.terminating and not pod.finished]
    seen = sorted((SeenEviction(pod, pod.evicted_at) for pod in ending if pod.evicted_at), key=lambda one: one.at)
    noted = note_evictions(Memory(), seen, snapshot, snapshot.taken_at)
    return tuple(structs.replace(run, perhaps_own=True) for run in noted.evicted_by_others)
