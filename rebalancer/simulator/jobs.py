"""Jobs of placeholder pods: each has one pod, which is never replaced.

A Job ends when its pod is gone, at its deadline, or when it is deleted. Source: `pkg/controller/job/job_controller.go`
with `backoffLimit: 0`, and `pkg/controller/ttlafterfinished`.
"""

from collections.abc import Callable
from datetime import timedelta

from rebalancer.model.labels import Labels, LabelSelector
from rebalancer.model.nodes import HOSTNAME
from rebalancer.model.placeholders import PLACEHOLDER_LABEL, REQUEST_LABEL, Placeholder, lifetime
from rebalancer.model.pods import OwnerReference, Pod, PodSpec
from rebalancer.model.spread import SpreadConstraint, WhenUnsatisfiable
from rebalancer.policy import Capacity
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.trace import TraceKind

_PRIORITY = -5


class Jobs:
    """The Jobs of one cluster. `refuse` returns why a quota does not allow a placeholder, "" if it does."""

    def __init__(self, state: ClusterState, refuse: Callable[[Placeholder], str] = lambda _: "") -> None:
        self._state = state
        self._pods: dict[str, str] = {}
        """The UID of each Job's pod; "" until the pod is created."""
        self.refuse = refuse
        state.store.pods.listeners.append(self._pod_changed)

    @property
    def names(self) -> frozenset[str]:
        """The names of the existing Jobs."""
        return frozenset(self._pods)

    def create(self, placeholder: Placeholder, rules: Capacity) -> str:
        """Create a Job; return why it was refused, or ""."""
        refused = self.refuse(placeholder)
        if refused:
            return refused
        if placeholder.name not in self._pods:
            self._state.note(TraceKind.CREATED, f"Job {rules.namespace}/{placeholder.name}")
            self._pods[placeholder.name] = ""
            delay = self._state.timings.reconciling.draw(self._state.random)
            self._state.event_queue.after(delay, lambda: self._create_pod(placeholder, rules))
            deadline: timedelta = lifetime(rules.timeout)
            self._state.event_queue.after(deadline.total_seconds(), lambda: self._end(placeholder.name, "deadline"))
        return ""

    def delete(self, name: str) -> None:
        """Delete a Job; its pod is deleted a moment later, without a grace period."""
        self._end(name, "deleted")

    def _end(self, name: str, why: str) -> None:
        uid = self._pods.pop(name, None)
        if uid is None:
            return
        self._state.note(TraceKind.GONE, f"Job {name}", why)
        if uid:
            delay = self._state.timings.reconciling.draw(self._state.random)
            self._state.event_queue.after(delay, lambda: self._collect(uid))

    def _collect(self, uid: str) -> None:
        pod = self._state.store.pods.get(uid)
        if pod is not None:
            self._state.remove(pod)

    def _create_pod(self, placeholder: Placeholder, rules: Capacity) -> None:
        if self._pods.get(placeholder.name) != "":
            return
        uid = self._pods[placeholder.name] = self._state.uid()
        pod = make_pod(placeholder, rules, uid, self._state)
        self._state.note(TraceKind.CREATED, f"Pod {pod}")
        self._state.store.pods.put(pod)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        """End a Job whose pod is gone: it has failed, and is deleted at once."""
        if after is None and before is not None and PLACEHOLDER_LABEL in before.labels:
            name = before.labels[PLACEHOLDER_LABEL]
            if self._pods.get(name) == before.uid:
                del self._pods[name]
                self._state.note(TraceKind.GONE, f"Job {name}", "its pod is gone")


def make_pod(placeholder: Placeholder, rules: Capacity, uid: str, state: ClusterState) -> Pod:
    """Return the pod of a placeholder's Job."""
    spread: tuple[SpreadConstraint, ...] = ()
    if placeholder.per_node:
        spread = (
            SpreadConstraint(
                topology_key=HOSTNAME,
                max_skew=placeholder.per_node,
                min_domains=placeholder.nodes,
                when_unsatisfiable=WhenUnsatisfiable.DO_NOT_SCHEDULE,
                selector=LabelSelector.of({REQUEST_LABEL: placeholder.token}),
            ),
        )
    requests = placeholder.requests
    return Pod(
        namespace=rules.namespace,
        name=state.generate_pod_name(rules.namespace, placeholder.name),
        uid=uid,
        labels=Labels({REQUEST_LABEL: placeholder.token, PLACEHOLDER_LABEL: placeholder.name}),
        spec=PodSpec(
            node_affinity=placeholder.node_affinity,
            tolerations=placeholder.tolerations,
            spread=spread,
            requests=requests,
            scored=(requests.cpu, requests.memory),
            scheduler=placeholder.scheduler,
            priority=_PRIORITY,
            preempts=False,
        ),
        created=state.stamp,
        owner=OwnerReference(group="batch", kind="Job", name=placeholder.name, uid=f"job-{placeholder.name}"),
        requests=requests,
        scored=(requests.cpu, requests.memory),
    )
