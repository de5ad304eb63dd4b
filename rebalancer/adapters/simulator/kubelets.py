"""The nodes' side: pods become Ready some time after they are placed, and are gone some time after their deletion.

Pod garbage collection is here as well, since it stands in for the kubelet of a node that no longer exists.
Source: `pkg/controller/podgc/gc_controller.go`.
"""

from datetime import datetime

from msgspec import structs

from rebalancer.adapters.simulator.state import ClusterState
from rebalancer.adapters.simulator.trace import What
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, PodPhase


class Kubelets:
    """All of them."""

    def __init__(self, world: ClusterState) -> None:
        self._world = world
        self._gone_since: dict[str, datetime] = {}
        world.store.pods.listeners.append(self._pod_changed)
        world.store.nodes.listeners.append(self._node_changed)
        for pod in world.store.pods:
            self._pod_changed(None, pod)
        for name in sorted({pod.node for pod in world.store.pods if pod.node is not None}):
            self._collect_if_gone(name)

    def _pod_changed(self, _: Pod | None, after: Pod | None) -> None:
        if after is None or after.node is None or self._world.store.nodes.get(after.node) is None:
            return
        agenda, random, timings = self._world.agenda, self._world.random, self._world.timings
        if after.terminating:
            agenda.after(timings.stopping.draw(random), lambda: self._stop(after.uid), key=f"stop {after.uid}")
        elif after.phase is PodPhase.PENDING:
            agenda.after(timings.starting.draw(random), lambda: self._start(after.uid), key=f"start {after.uid}")

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if after is None:
            assert before is not None
            self._collect_if_gone(before.name)
        elif before is None:
            self._gone_since.pop(after.name, None)
            for pod in self._world.store.pods.on(after.name):
                self._pod_changed(None, pod)

    def _here(self, uid: str) -> Pod | None:
        """Return a pod if it still is on a node that exists."""
        pod = self._world.store.pods.get(uid)
        here = pod is not None and pod.node is not None and self._world.store.nodes.get(pod.node) is not None
        return pod if here else None

    def _start(self, uid: str) -> None:
        pod = self._here(uid)
        if pod is not None and not pod.terminating:
            self._world.note(What.STARTED, f"Pod {pod}", f"on {pod.node}")
            self._world.store.pods.put(
                structs.replace(pod, phase=PodPhase.RUNNING, ready=True, ready_since=self._world.stamp)
            )

    def _stop(self, uid: str) -> None:
        pod = self._here(uid)
        if pod is not None:
            self._world.remove(pod)

    def _collect_if_gone(self, node: str) -> None:
        if self._world.store.nodes.get(node) is None:
            since = self._gone_since[node] = self._world.agenda.now
            self._world.agenda.after(self._world.timings.collecting, lambda: self._collect(node, since))

    def _collect(self, node: str, since: datetime) -> None:
        """Delete the pods of a node that has not existed since then, without waiting for anybody."""
        if self._gone_since.get(node) == since:
            for pod in self._world.store.pods.on(node):
                self._world.note(What.DELETED, f"Pod {pod}", f"there is no node {node}")
                self._world.remove(pod)
