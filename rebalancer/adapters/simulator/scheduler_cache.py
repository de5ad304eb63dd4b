"""The scheduler's cache: a view that is updated with the cluster instead of built again for every pod."""

from rebalancer.adapters.simulator.state import ClusterState
from rebalancer.model.pods import Pod
from rebalancer.scheduling.profile import Profile
from rebalancer.scheduling.view import View

_MOST_CHANGES = 64
"""Changes after which a new view costs less than the deltas, which every query applies again."""


class SchedulerCache:
    """A view of the present state."""

    def __init__(self, state: ClusterState, profile: Profile) -> None:
        self._state = state
        self._profile = profile
        self._view: View | None = None
        self._changes = 0

    @property
    def view(self) -> View:
        """The present state."""
        if self._view is None:
            self._view = View(self._state.store.snapshot(self._state.event_queue.now), self._profile)
            self._changes = 0
        return self._view

    def forget(self) -> None:
        """Discard the view: a node has changed, and every cached result may depend on it."""
        self._view = None

    def follow(self, before: Pod | None, after: Pod | None) -> None:
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
