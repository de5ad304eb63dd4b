"""The status of disruption budgets: how many disruptions are allowed, computed as the real controller computes it.

Source: `pkg/controller/disruption/disruption.go`. The status is updated after a delay, as in a real cluster.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import structs

from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.store import Table
from rebalancer.simulator.trace import TraceKind

DELETION_TIMEOUT = timedelta(minutes=2)
"""How long a granted eviction counts while its pod is not yet terminating."""

_SCALED = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Deployment"})


class Scale(NamedTuple):
    """A controller and its wanted number of pods."""

    controller: str
    replicas: int


def get_scale(pod: Pod, workload: Callable[[str], Workload | None]) -> Scale | None:
    """Return the scale of a pod's Deployment or, without one, of its controller; None if neither has a scale."""
    owner = workload(pod.owner.uid) if pod.owner is not None else None
    if owner is None or not (owner.kind in _SCALED or owner.is_foreign):
        return None
    above = workload(owner.owner.uid) if owner.owner is not None else None
    top = above if above is not None and above.kind in _SCALED else owner
    return Scale(top.uid, top.replicas)


def compute_status(
    budget: DisruptionBudget, pods: Iterable[Pod], workload: Callable[[str], Workload | None], now: datetime
) -> DisruptionBudget:
    """Return a budget with the status that the disruption controller would write.

    `pods` are all pods of the budget's namespace.
    """
    selector = budget.selector
    matched = [pod for pod in pods if selector is not None and selector.matches(pod.labels)]
    disrupted = _keep_recent_disruptions(budget, matched, now)
    expected = _count_expected_pods(budget, matched, workload)
    if expected is None:
        return structs.replace(budget, allowed=0, synced=False, observed_generation=budget.generation)
    desired = budget.desired_of(expected)
    waited_for = {name for name, _ in disrupted}
    healthy = sum(pod.ready and not pod.terminating and pod.name not in waited_for for pod in matched)
    return structs.replace(
        budget,
        allowed=max(0, healthy - desired) if expected > 0 else 0,
        current_healthy=healthy,
        desired_healthy=desired,
        expected=expected,
        disrupted=disrupted,
        synced=True,
        observed_generation=budget.generation,
    )


def _keep_recent_disruptions(
    budget: DisruptionBudget, matched: Iterable[Pod], now: datetime
) -> tuple[tuple[str, datetime], ...]:
    """Return the recent granted evictions whose pods still exist and are not terminating."""
    staying = {pod.name for pod in matched if not pod.terminating}
    return tuple((name, at) for name, at in budget.disrupted if name in staying and now < at + DELETION_TIMEOUT)


def _count_expected_pods(
    budget: DisruptionBudget, matched: list[Pod], workload: Callable[[str], Workload | None]
) -> int | None:
    """Return expectedPods; None if a pod's controller has no scale, because then no status can be computed."""
    if isinstance(budget.min_available, int):
        return len(matched)
    scales: dict[str, int] = {}
    for pod in matched:
        if pod.owner is None:
            continue  # the real controller publishes a warning and continues
        scale = get_scale(pod, workload)
        if scale is None:
            return None
        scales[scale.controller] = scale.replicas
    return sum(scales.values())


class Disruptions:
    """The controller of all PodDisruptionBudgets."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._budgets: Table[DisruptionBudget] = state.store.budgets
        state.store.pods.listeners.append(self._pod_changed)
        state.store.workloads.listeners.append(self._workload_changed)
        for budget in self._budgets:
            self._enqueue(str(budget))

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        assert pod is not None
        for budget in self._budgets:
            if (
                budget.namespace == pod.namespace
                and budget.selector is not None
                and budget.selector.matches(pod.labels)
            ):
                self._enqueue(str(budget))

    def _workload_changed(self, before: Workload | None, after: Workload | None) -> None:
        if before is None or after is None or before.replicas != after.replicas:
            changed = after or before
            for budget in self._budgets:
                if changed is not None and budget.namespace == changed.namespace:
                    self._enqueue(str(budget))

    def _enqueue(self, key: str) -> None:
        delay = self._state.timings.counting.draw(self._state.random)
        self._state.event_queue.after(delay, lambda: self._count(key), key=f"budget {key}")

    def _count(self, key: str) -> None:
        budget = self._budgets.get(key)
        assert budget is not None
        store, now = self._state.store, self._state.event_queue.now
        updated = compute_status(budget, store.pods.within(budget.namespace), store.workloads.get, now)
        if updated != budget:
            self._state.note(
                TraceKind.BUDGET_CHANGED, f"PodDisruptionBudget {key}", f"disruptionsAllowed {updated.allowed}"
            )
            self._budgets.put(updated)
        for name, at in updated.disrupted:
            wait = (at + DELETION_TIMEOUT - now).total_seconds()
            if wait <= 0:
                continue  # as long as the status cannot be computed, its entries stay
            self._state.event_queue.after(wait, lambda: self._count(key), key=f"overdue {key} {name} {at}")
