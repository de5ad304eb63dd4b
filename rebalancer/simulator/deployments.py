"""Deployments: they set the replicas of their ReplicaSet and add up the status of their ReplicaSets.

Rollouts are not simulated: a Deployment in the middle of one stays there.
"""

from msgspec import structs

from rebalancer.model.workloads import Workload
from rebalancer.simulator.state import ClusterState

_REVISION = "deployment.kubernetes.io/revision"


class Deployments:
    """The controller of all Deployments."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        state.store.workloads.listeners.append(self._changed)
        for workload in state.store.workloads:
            self._changed(None, workload)

    def _changed(self, _: Workload | None, after: Workload | None) -> None:
        if after is None:
            return
        if after.kind == "Deployment":
            if not after.observed:
                self._enqueue(after.uid)
        elif after.owner is not None and after.owner.kind == "Deployment":
            self._enqueue(after.owner.uid)

    def _enqueue(self, uid: str) -> None:
        delay = self._state.timings.reconciling.draw(self._state.random)
        self._state.event_queue.after(delay, lambda: self._reconcile(uid), key=f"deployment {uid}")

    def _reconcile(self, uid: str) -> None:
        workloads = self._state.store.workloads
        deployment = workloads.get(uid)
        below = [workload for workload in workloads if workload.owner is not None and workload.owner.uid == uid]
        if deployment is None or not below:
            return
        newest = max(below, key=_rank_by_age)
        alive = [replica_set for replica_set in below if replica_set.replicas] or [newest]
        if len(alive) == 1 and alive[0].replicas != deployment.replicas:
            workloads.put(structs.replace(alive[0], replicas=deployment.replicas, observed=False))
        reported = structs.replace(
            deployment,
            current=sum(replica_set.current for replica_set in below),
            ready=sum(replica_set.ready for replica_set in below),
            updated=newest.current,
            observed=True,
        )
        if reported != deployment:
            workloads.put(reported)


def _rank_by_age(replica_set: Workload) -> tuple[int, float]:
    """Return the sort key by which the newest ReplicaSet of a Deployment is the last."""
    revision = replica_set.annotations.get(_REVISION, "")
    return int(revision) if revision.isdigit() else 0, replica_set.created.timestamp()
