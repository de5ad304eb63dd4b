"""ReplicaSets and ReplicationControllers: a new pod is created as soon as one is terminating.

Source: `pkg/controller/replicaset/replica_set.go` (manageReplicas).
"""

from collections import Counter
from typing import ClassVar

from msgspec import structs

from rebalancer.model.pods import OwnerReference, Pod
from rebalancer.model.workloads import Workload
from rebalancer.prevention.controller_order import sort_for_deletion
from rebalancer.simulator.controllers import Controller
from rebalancer.simulator.pod_factory import PodFactory
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.trace import TraceKind


class ReplicaSets(Controller):
    """The controller of all ReplicaSets and ReplicationControllers."""

    kinds: ClassVar = frozenset({"ReplicaSet", "ReplicationController"})

    def __init__(self, state: ClusterState, pod_factory: PodFactory) -> None:
        super().__init__(state)
        self._pod_factory = pod_factory
        self.expected: dict[str, set[str]] = {}
        """For each owner the pods that it has created or deleted without having seen that yet."""

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        if pod is not None and pod.owner is not None and (before is None or after is None or after.terminating):
            self.expected.get(pod.owner.uid, set()).discard(pod.uid)
        super()._pod_changed(before, after)

    def reconcile(self, owner: Workload) -> None:
        """Create or delete pods until the number of active pods is the number of replicas.

        Not before it has seen what it did last: `pkg/controller/controller_utils.go` (ControllerExpectations).
        """
        self._adopt(owner)
        active = [pod for pod in self.pods.of(owner.uid) if _is_active(pod)]
        self._report(owner, active)
        expected = self.expected.setdefault(owner.uid, set())
        if expected:
            return
        if len(active) > owner.replicas:
            for pod in self._sort_for_deletion(owner, active)[: len(active) - owner.replicas]:
                expected.add(pod.uid)
                self._state.delete(pod)
        for _ in range(owner.replicas - len(active)):
            made = self._pod_factory.next_pod(owner, self._state.generate_pod_name(owner.namespace, owner.name))
            if made is None:
                return
            self._state.note(TraceKind.CREATED, f"Pod {made}")
            expected.add(made.uid)
            self._state.store.pods.put(made)

    def _adopt(self, owner: Workload) -> None:
        """Adopt pods without a controller that the selector matches."""
        reference = OwnerReference(group=owner.group, kind=owner.kind, name=owner.name, uid=owner.uid)
        for seen in self.pods.of(""):
            pod = self._state.store.pods.get(seen.uid)
            if (
                pod is not None
                and pod.owner is None
                and pod.namespace == owner.namespace
                and _is_active(pod)
                and owner.selector is not None
                and owner.selector.matches(pod.labels)
            ):
                self._state.note(TraceKind.ADOPTED, f"Pod {pod}", f"by {owner}")
                self._state.store.pods.put(structs.replace(pod, owner=reference))

    def _report(self, owner: Workload, active: list[Pod]) -> None:
        """Write the status as the real controller does: the state before its own changes, and why they fail."""
        count, ready = len(active), sum(pod.ready for pod in active)
        failure = self._state.refused_pods.get(owner.namespace, "") if count < owner.replicas else ""
        reported = structs.replace(owner, current=count, ready=ready, updated=count, creation_failure=failure)
        self._write_status(owner, reported)

    def _sort_for_deletion(self, owner: Workload, active: list[Pod]) -> list[Pod]:
        """Sort pods by the order in which they are deleted when there are too many."""
        related: list[str] = []  # the pods of a ReplicaSet without a Deployment are not counted by node
        if owner.owner is not None:
            above = owner.owner.uid
            related = [
                workload.uid
                for workload in self.workloads
                if workload.owner is not None and workload.owner.uid == above and workload.kind == owner.kind
            ]
        crowds = Counter(pod.node for uid in related for pod in self.pods.of(uid) if _is_active(pod))
        return sort_for_deletion(active, crowds, self._state.event_queue.now)


def _is_active(pod: Pod) -> bool:
    return not pod.terminating and not pod.finished
