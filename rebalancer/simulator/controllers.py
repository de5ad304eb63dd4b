"""What the controllers of owners share: they watch pods and owners, and reconcile an owner once after a delay."""

from abc import ABC, abstractmethod
from typing import ClassVar

from msgspec import structs

from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload
from rebalancer.simulator.informers import follow
from rebalancer.simulator.state import ClusterState


class Controller(ABC):
    """The controller of one or more kinds of owners that create pods themselves.

    `pods` and `workloads` are what it has seen.
    """

    kinds: ClassVar[frozenset[str]]

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        name = type(self).__name__
        self.pods = follow(state, state.store.pods, f"{name} pods")
        self.workloads = follow(state, state.store.workloads, f"{name} workloads")
        self.pods.listeners.append(self._pod_changed)
        self.workloads.listeners.append(self._workload_changed)
        for workload in self.workloads:
            self._enqueue(workload)

    @abstractmethod
    def reconcile(self, owner: Workload) -> None:
        """Create and delete pods of an owner, and write its status; both are known as far as they have been seen."""

    def _write_status(self, seen: Workload, reported: Workload) -> None:
        """Write a status to the owner as it is stored; a change of its replicas that was not seen is not observed."""
        stored = self._state.store.workloads.get(seen.uid)
        if stored is None:
            return
        written = structs.replace(
            stored,
            current=reported.current,
            ready=reported.ready,
            updated=reported.updated,
            creation_failure=reported.creation_failure,
            observed=stored.replicas == seen.replicas,
        )
        if written != stored:
            self._state.store.workloads.put(written)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        owner = self.workloads.get(pod.owner.uid) if pod is not None and pod.owner is not None else None
        if owner is not None:
            self._enqueue(owner)

    def _workload_changed(self, _: Workload | None, after: Workload | None) -> None:
        if after is not None and not after.observed:
            self._enqueue(after)

    def _enqueue(self, owner: Workload) -> None:
        if owner.kind in self.kinds and owner.deleted is None:
            delay = self._state.timings.reconciling.draw(self._state.random)
            self._state.event_queue.after(delay, lambda: self._act(owner.uid), key=f"owner {owner.uid}")

    def _act(self, uid: str) -> None:
        owner = self.workloads.get(uid)
        assert owner is not None
        self.reconcile(owner)
