"""How many may be missing: disruption budgets and our own limit for workloads, counted afresh from one snapshot.

A PodDisruptionBudget's `disruptionsAllowed` was true when its controller last looked; pods may have become unready
since. So what may go is the lesser of that number and an own count, and what is granted is subtracted at once: a plan
never counts on the same room twice. Rules: docs/semantics.md, "Batches that never exceed a budget".
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import cached_property
from operator import attrgetter
from typing import Final

from rebalancer.assessment.limit_groups import LimitGroup
from rebalancer.assessment.spread_groups import PodController
from rebalancer.model.budgets import DisruptionBudget
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Memory
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload
from rebalancer.planning.scope.eligibility import Refusal
from rebalancer.planning.scope.group_budgets import GroupBudgets
from rebalancer.policy import Budgets

_NODE: Final = attrgetter("node")

_DELETION_TIMEOUT = timedelta(minutes=2)
"""How long the disruption controller holds a granted eviction against the budget if its pod stays."""


class BudgetLedger:
    """What is left of every budget; `take` spends it."""

    def __init__(
        self, snapshot: Snapshot, budgets: Budgets, memory: Memory, gathered: Iterable[LimitGroup] = ()
    ) -> None:
        self._snapshot = snapshot
        self._rules = budgets
        self._moving = Counter(move.workload for move in memory.in_flight)
        self._together = GroupBudgets(snapshot, memory, gathered)
        self._left: dict[DisruptionBudget, int] = {}
        self._room: dict[str, int] = {}
        self._planned: Counter[str] = Counter()
        self._ready: dict[str, int] = {}
        self._limits = (
            f"budgets.maxUnavailable is {budgets.max_unavailable}, budgets.perWorkload {budgets.per_workload}"
        )
        self._selecting: dict[tuple[str, Labels], Sequence[DisruptionBudget]] = {}

    def budgets_of(self, pod: Pod) -> Sequence[DisruptionBudget]:
        """Return the budgets that select a pod, by the rules of policy/v1: null selects none, `{}` all."""
        found = self._snapshot.budgets_in.get(pod.namespace)
        if found is None:
            return ()
        key = (pod.namespace, pod.labels)
        known = self._selecting.get(key)
        if known is None:
            known = self._selecting[key] = tuple(
                each for each in found if each.selector is not None and each.selector.matches(pod.labels)
            )
        return known

    def refusal(self, pod: Pod) -> Refusal | None:
        """Say why no budget could ever let this pod be evicted through the API."""
        budgets = self.budgets_of(pod)
        if len(budgets) > 1:
            names = ", ".join(sorted(each.name for each in budgets))
            return Refusal(
                Reason.SEVERAL_BUDGETS, f"PodDisruptionBudgets {names} select it: the API refuses to evict it"
            )
        return None

    def blocked(self, pod: Pod, member: PodController) -> Refusal | None:
        """Say why this pod may not go just now, or None."""
        for budget in self.budgets_of(pod):
            if self._allowance(budget) < 1:
                return Refusal(Reason.BLOCKED_BY_BUDGET, f"PodDisruptionBudget {budget.name}: {self._state(budget)}")
        if self._room_of(member) < 1:
            return Refusal(Reason.BLOCKED_BY_BUDGET, self._own_limit(member))
        return self._together.blocked(pod)

    def take(self, pod: Pod, member: PodController) -> None:
        """Spend one eviction of this pod. Unready pods count as if they were ready."""
        for budget in self.budgets_of(pod):
            self._left[budget] = self._allowance(budget) - 1
        self._room[_identity(member)] = self._room_of(member) - 1
        self._planned[_identity(member)] += 1
        self._together.take(pod, 1)

    def give_back(self, pod: Pod, member: PodController) -> None:
        """Undo `take`: the eviction does not happen after all."""
        for budget in self.budgets_of(pod):
            self._left[budget] += 1
        self._room[_identity(member)] += 1
        self._planned[_identity(member)] -= 1
        self._together.take(pod, -1)

    def most(self, member: PodController, pod: Pod) -> int:
        """Return how many like a pod may be out at once when all is well: the most a step may ever need."""
        workload = member.top or member.owner
        replicas = workload.replicas if workload is not None else 0
        most = min(self._rules.max_unavailable.resolve(replicas), self._rules.per_workload.resolve(replicas))
        for budget in self.budgets_of(pod):
            most = min(most, max(0, budget.expected - budget.desired_healthy))
        return min(most, self._together.most(pod, most))

    def _allowance(self, budget: DisruptionBudget) -> int:
        left = self._left.get(budget)
        if left is None:
            left = self._left[budget] = self._fresh(budget)
        return left

    def _fresh(self, budget: DisruptionBudget) -> int:
        """Return the lesser of what the status allows and what an own count of healthy pods leaves."""
        if budget.observed_generation < budget.generation or not budget.synced:
            return 0
        now = self._snapshot.taken_at
        granted = {name for name, when in budget.disrupted if now - when < _DELETION_TIMEOUT}
        healthy = sum(
            1
            for pod in self._snapshot.pods_in.get(budget.namespace, ())
            if budget.selector is not None
            and budget.selector.matches(pod.labels)
            and self._healthy(pod)
            and pod.name not in granted
        )
        return max(0, min(budget.allowed, healthy - budget.desired_healthy))

    def _state(self, budget: DisruptionBudget) -> str:
        if budget.observed_generation < budget.generation:
            return "it was just changed and its controller has not worked it out yet"
        if not budget.synced:
            return "its controller could not work it out (see its DisruptionAllowed condition)"
        return f"{budget.current_healthy} of {budget.expected} healthy, {budget.desired_healthy} must stay"

    def _room_of(self, member: PodController) -> int:
        """Return how many more pods of a workload may become unavailable by our own limits."""
        identity = _identity(member)
        room = self._room.get(identity)
        if room is None:
            workload = member.top or member.owner
            assert workload is not None
            unavailable = max(0, workload.replicas - self._available(member))
            room = self._rules.max_unavailable.resolve(workload.replicas) - unavailable
            flying = self._moving[member.reference]
            room = min(room, self._rules.per_workload.resolve(workload.replicas) - flying)
            self._room[identity] = room
        return room

    def _available(self, member: PodController) -> int:
        """Count the workload's pods that have been Ready for its minReadySeconds, over all its ReplicaSets."""
        workload = member.top or member.owner
        assert workload is not None
        known = self._ready.get(workload.uid)
        if known is None:
            if member.top is None or member.top is member.owner:
                known = self._serving(member.pods, workload)
            else:
                owners = self._snapshot.owned_by[workload.uid]
                pods = [pod for owner in owners for pod in self._snapshot.pods_of.get(owner.uid, ())]
                known = self._serving([pod for pod in pods if not pod.terminating and not pod.finished], workload)
            self._ready[workload.uid] = known
        return known

    def _serving(self, pods: Sequence[Pod], workload: Workload) -> int:
        """Count those of living pods that serve."""
        ready = [pod for pod in pods if pod.ready]
        steady = timedelta(seconds=workload.min_ready_seconds)
        if steady:
            now = self._snapshot.taken_at
            ready = [pod for pod in ready if pod.ready_since is None or now - pod.ready_since >= steady]
        return sum(map(self._ready_nodes.__contains__, map(_NODE, ready)))

    @cached_property
    def _ready_nodes(self) -> frozenset[str]:
        return frozenset(node.name for node in self._snapshot.nodes if node.ready)

    def _healthy(self, pod: Pod) -> bool:
        """Say whether a pod serves. One whose node is lost or not Ready does not, whatever its status last said."""
        return pod.ready and pod.deleted is None and pod.node in self._ready_nodes and not pod.finished

    def _own_limit(self, member: PodController) -> str:
        workload = member.top or member.owner
        assert workload is not None
        available, flying = self._available(member), self._moving[member.reference]
        missing = max(0, workload.replicas - available)
        going = self._planned[workload.uid]
        return (
            f"{missing} of {workload.replicas} are unavailable, {flying} moving and {going} to go now; {self._limits}"
        )


def _identity(member: PodController) -> str:
    workload = member.top or member.owner
    assert workload is not None
    return workload.uid
