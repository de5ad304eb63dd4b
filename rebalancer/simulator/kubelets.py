"""Kubelets: pods become Ready some time after they are bound, and are removed some time after their deletion.

This module also has the pod garbage collection, which removes the pods of deleted nodes. Source:
`pkg/controller/podgc/gc_controller.go`.
"""

from datetime import datetime

from msgspec import structs

from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, PodPhase
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.trace import TraceKind


class Kubelets:
    """The kubelets of all nodes."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._gone_since: dict[str, datetime] = {}
        state.store.pods.listeners.append(self._pod_changed)
        state.store.nodes.listeners.append(self._node_changed)
        for pod in state.store.pods:
            self._pod_changed(None, pod)
        for name in sorted({pod.node for pod in state.store.pods if pod.node is not None}):
            self._collect_if_gone(name)

    def _pod_changed(self, _: Pod | None, after: Pod | None) -> None:
        if after is None or after.node is None or self._state.store.nodes.get(after.node) is None:
            return
        event_queue, random, timings = self._state.event_queue, self._state.random, self._state.timings
        if after.terminating:
            event_queue.after(timings.stopping.draw(random), lambda: self._stop(after.uid), key=f"stop {after.uid}")
        elif after.phase is PodPhase.PENDING:
            event_queue.after(timings.starting.draw(random), lambda: self._start(after.uid), key=f"start {after.uid}")

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if after is None:
            assert before is not None
            self._collect_if_gone(before.name)
        elif before is None:
            self._gone_since.pop(after.name, None)
            for pod in self._state.store.pods.on(after.name):
                self._pod_changed(None, pod)

    def _get_running(self, uid: str) -> Pod | None:
        """Return a pod whose node exists; None if the pod or its node is gone."""
        pod = self._state.store.pods.get(uid)
        here = pod is not None and pod.node is not None and self._state.store.nodes.get(pod.node) is not None
        return pod if here else None

    def _start(self, uid: str) -> None:
        pod = self._get_running(uid)
        if pod is None or pod.terminating:
            return
        missing = next((image for image in pod.spec.images if image in self._state.missing_images), "")
        if missing:  # storing the pod triggers the kubelet's next attempt
            self._state.store.pods.put(structs.replace(pod, start_failure="ImagePullBackOff", failed_image=missing))
        else:
            self._state.note(TraceKind.STARTED, f"Pod {pod}", f"on {pod.node}")
            self._state.store.pods.put(
                structs.replace(
                    pod,
                    phase=PodPhase.RUNNING,
                    ready=True,
                    ready_since=self._state.stamp,
                    starting_since=None,
                    start_failure="",
                    failed_image="",
                )
            )

    def _stop(self, uid: str) -> None:
        pod = self._get_running(uid)
        if pod is not None:
            self._state.remove(pod)

    def _collect_if_gone(self, node: str) -> None:
        if self._state.store.nodes.get(node) is None:
            since = self._gone_since[node] = self._state.event_queue.now
            self._state.event_queue.after(self._state.timings.collecting, lambda: self._collect(node, since))

    def _collect(self, node: str, since: datetime) -> None:
        """Remove the pods of a node, if it has been gone since the given time."""
        if self._gone_since.get(node) == since:
            for pod in self._state.store.pods.on(node):
                self._state.note(TraceKind.DELETED, f"Pod {pod}", f"node {node} not found")
                self._state.remove(pod)
