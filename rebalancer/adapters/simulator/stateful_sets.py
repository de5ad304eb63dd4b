"""StatefulSets: pods with numbers, of which a new one is made only when the old one of its number is gone.

Rollouts are not played.
Source: `pkg/controller/statefulset/stateful_set_control.go` (processReplica, processCondemned).
"""

from collections.abc import Collection
from typing import ClassVar

from msgspec import structs

from rebalancer.adapters.simulator.controllers import Controller
from rebalancer.adapters.simulator.pod_factory import PodFactory, ordinal
from rebalancer.adapters.simulator.state import ClusterState
from rebalancer.adapters.simulator.trace import What
from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload


class StatefulSets(Controller):
    """The controller of all of them. `parallel` are the UIDs of those with `podManagementPolicy: Parallel`."""

    kinds: ClassVar = frozenset({"StatefulSet"})

    def __init__(self, world: ClusterState, molds: PodFactory, parallel: Collection[str]) -> None:
        super().__init__(world)
        self._molds = molds
        self._parallel = frozenset(parallel)

    def reconcile(self, owner: Workload) -> None:
        """Fill the lowest gap; only when every number is taken and ready give up what is too much."""
        numbered = {ordinal(pod): pod for pod in self._world.store.pods.of(owner.uid)}
        self._report(owner, list(numbered.values()))
        in_turn = owner.uid not in self._parallel
        for number in range(owner.replicas):
            pod = numbered.get(number)
            if pod is None:
                self._create(owner, number)
            elif pod.finished:
                self._world.delete(pod)
            if in_turn and (pod is None or pod.terminating or not pod.ready):
                return
        for number in sorted((number for number in numbered if number >= owner.replicas), reverse=True):
            pod = numbered[number]
            self._world.delete(pod)
            if in_turn:
                return

    def _create(self, owner: Workload, number: int) -> None:
        made = self._molds.next_pod(owner, f"{owner.name}-{number}")
        # Somebody else's pod may have the name: the API server refuses a second one.
        if made is not None and self._world.store.pods.named(made.namespace, made.name) is None:
            self._world.note(What.CREATED, f"Pod {made}")
            self._world.store.pods.put(made)

    def _report(self, owner: Workload, pods: list[Pod]) -> None:
        """Write the status; `replicas` and `readyReplicas` count terminating pods, `updatedReplicas` does not."""
        reported = structs.replace(
            owner,
            current=len(pods),
            ready=sum(pod.ready for pod in pods),
            updated=sum(not pod.terminating for pod in pods),
            observed=True,
        )
        if reported != owner:
            self._world.store.workloads.put(reported)
