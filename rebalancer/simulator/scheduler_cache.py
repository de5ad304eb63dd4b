"""The scheduler's cache: a view that is updated with the cluster instead of built again for every pod."""

from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.view import View
from rebalancer.simulator.informers import follow
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.store import PodTable, Table

_MOST_CHANGES = 64
"""Changes after which a new view costs less than the deltas, which every query applies again."""


class SchedulerCache:
    """A view of what the scheduler has seen, and of what it has bound itself without having seen that yet."""

    def __init__(self, state: ClusterState, profile: Profile) -> None:
        self._state = state
        self._profile = profile
        self._pods = follow(state, state.store.pods, "scheduler pods")
        self._nodes = follow(state, state.store.nodes, "scheduler nodes")
        self._assumed: dict[str, Pod] = {}
        self._view: View | None = None
        self._changes = 0
        self._pods.listeners.append(self._pod_changed)
        self._nodes.listeners.append(self._node_changed)

    @property
    def pods(self) -> PodTable:
        """The pods that it has seen; listeners are called after the view has changed."""
        return self._pods

    @property
    def nodes(self) -> Table[Node]:
        """The nodes that it has seen."""
        return self._nodes

    @property
    def view(self) -> View:
        """What the scheduler decides by."""
        if self._view is None:
            now = self._state.event_queue.now
            pods = [self._assumed.get(pod.uid, pod) for pod in self._pods]
            seen = {pod.uid for pod in pods}
            pods += [pod for pod in self._assumed.values() if pod.uid not in seen]
            self._view = View(self._state.store.snapshot(now, pods=pods, nodes=self._nodes), self._profile)
            self._changes = 0
        return self._view

    def assume(self, before: Pod, bound: Pod) -> None:
        """Count a pod on its node before its binding is seen."""
        self._assumed[bound.uid] = bound
        self._follow(before, bound)

    def _node_changed(self, _: Node | None, __: Node | None) -> None:
        """Discard the view: every cached result may depend on the node."""
        self._view = None

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None
        if pod.uid not in self._assumed:
            self._follow(before, after)
        elif after is None or after.node is not None:
            bound = self._assumed.pop(pod.uid)
            self._follow(bound, after)

    def _follow(self, before: Pod | None, after: Pod | None) -> None:
        """Apply the change of a pod that was bound, deleted, or removed; other changes have no effect."""
        if self._view is None:
            return
        if after is None:
            if before is not None:
                self._step(self._view.without([before]))
        elif before is not None and after.node is not None and after.node in self._view.nodes.by_name:
            if after.node != before.node:
                self._step(self._view.with_placed(after, after.node))
            elif after.deleted != before.deleted:
                self._step(self._view.terminating([after]))

    def _step(self, view: View) -> None:
        self._changes += 1
        self._view = view if self._changes < _MOST_CHANGES else None
