"""StatefulSets: pods with ordinals; a new pod is created only after the old pod of its ordinal is removed.

Rollouts are not simulated.
Source: `pkg/controller/statefulset/stateful_set_control.go` (processReplica, processCondemned).
"""

from collections.abc import Collection
from typing import ClassVar

from msgspec import structs

from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload, is_beyond, pod_ordinal
from rebalancer.simulator.controllers import Controller
from rebalancer.simulator.pod_factory import PodFactory
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.trace import TraceKind


class StatefulSets(Controller):
    """The controller of all StatefulSets. `parallel` are the UIDs of those with `podManagementPolicy: Parallel`."""

    kinds: ClassVar = frozenset({"StatefulSet"})

    def __init__(self, state: ClusterState, pod_factory: PodFactory, parallel: Collection[str]) -> None:
        super().__init__(state)
        self._pod_factory = pod_factory
        self._parallel = frozenset(parallel)

    def reconcile(self, owner: Workload) -> None:
        """Create the lowest missing ordinal; only when all pods are ready, delete those beyond the replicas."""
        numbered = {pod_ordinal(pod.name): pod for pod in self.pods.of(owner.uid)}
        self._report(owner, list(numbered.values()))
        in_turn = owner.uid not in self._parallel
        for number in owner.ordinals:
            pod = numbered.get(number)
            if pod is None:
                self._create(owner, number)
            elif pod.finished:
                self._state.delete(pod)
            if in_turn and (pod is None or pod.terminating or not pod.ready):
                return
        for number in sorted((number for number in numbered if is_beyond(number, owner)), reverse=True):
            pod = numbered[number]
            self._state.delete(pod)
            if in_turn:
                return

    def _create(self, owner: Workload, number: int) -> None:
        made = self._pod_factory.next_pod(owner, f"{owner.name}-{number}")
        # A pod of another owner may have the name: the API server refuses a second one.
        if made is not None and self._state.store.pods.named(made.namespace, made.name) is None:
            self._state.note(TraceKind.CREATED, f"Pod {made}")
            self._state.store.pods.put(made)

    def _report(self, owner: Workload, pods: list[Pod]) -> None:
        """Write the status; `replicas` and `readyReplicas` count terminating pods, `updatedReplicas` does not."""
        reported = structs.replace(
            owner,
            current=len(pods),
            ready=sum(pod.ready for pod in pods),
            updated=sum(not pod.terminating for pod in pods),
        )
        self._write_status(owner, reported)
