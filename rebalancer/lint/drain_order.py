"""In which order the pods of a drain have to be evicted.

Problem: a budget lets pods go one by one. A pod whose replacement finds no node uses the budget up, and all later pods
stay. If the budget counts the pods of several workloads, the pods of another workload, which do find a node, may have
to go first.

Idea: simulate the drain once for each order of its workloads. A pod goes as soon as its budget allows it, and its
replacement goes to the node that the model considers most likely.

Example: three workloads share a budget that lets one of nine pods be missing. The new pod of the first workload finds
no node. If that workload is evicted last, the drain ends. If it is evicted first, the pods of the other two stay.

Cost: a placement for each pod and each of `MOST_ORDERS` orders.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, permutations
from typing import Final, NamedTuple

from msgspec import structs

from rebalancer.creation.replacement import replacement
from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod, PodPhase
from rebalancer.scheduling.node_unschedulable import CORDONED
from rebalancer.scheduling.place import most_likely, place
from rebalancer.scheduling.view import View

MOST_ORDERS: Final = 24
MOST_PODS: Final = 100
"""Orders are simulated only for drains of up to this many pods."""


class Played(NamedTuple):
    """The result of one order of workloads: the pods that stay, and the replacements without a node at its end."""

    order: tuple[Reference, ...]
    staying: Mapping[Reference, Sequence[Pod]]
    waiting: Sequence[Pod]


def play_orders(view: View, nodes: Sequence[str], there: Mapping[Reference, Sequence[Pod]]) -> Sequence[Played]:
    """Return the results of a drain, one for each order of its workloads that is tried; none with too many pods."""
    if sum(map(len, there.values())) > MOST_PODS:
        return ()
    cordoned = tuple(
        structs.replace(node, unschedulable=True, taints=(*node.taints, CORDONED)) if node.name in nodes else node
        for node in view.snapshot.nodes
    )
    closed = View(replace(view.snapshot, nodes=cordoned), view.profile)
    return [_Play(closed, there).run(order) for order in islice(permutations(there), MOST_ORDERS)]


def count_allowed(budget: DisruptionBudget, view: View) -> int:
    """Return how many pods a budget lets go now."""
    healthy = sum(pod.ready and not pod.terminating for pod in view.snapshot.budget_selection.pods_of(budget))
    return max(0, healthy - budget.desired_of(budget.expected))


class _Play:
    """One drain, pod by pod. A budget's allowance is negative while too few of its pods are healthy."""

    def __init__(self, view: View, there: Mapping[Reference, Sequence[Pod]]) -> None:
        self._view = view
        self._left = {workload: list(pods) for workload, pods in there.items()}
        self._waiting: list[Pod] = []
        self._budgets: dict[str, Sequence[DisruptionBudget]] = {}
        self._spare = defaultdict[str, int](int)
        selection = view.snapshot.budget_selection
        for pod in (pod for pods in there.values() for pod in pods):
            self._budgets[pod.uid] = selection.budgets_of(pod)
            for budget in self._budgets[pod.uid]:
                healthy = sum(one.ready and not one.terminating for one in selection.pods_of(budget))
                self._spare[str(budget)] = healthy - budget.desired_of(budget.expected)

    def run(self, order: tuple[Reference, ...]) -> Played:
        """Evict pods as long as the budgets allow it, always the first pod in the order that may go."""
        while gone := next((pod for workload in order for pod in self._left[workload] if self._may_go(pod)), None):
            self._evict(gone)
        return Played(order, {workload: pods for workload, pods in self._left.items() if pods}, self._waiting)

    def _may_go(self, pod: Pod) -> bool:
        budgets = self._budgets[pod.uid]
        if not budgets or pod.phase is PodPhase.PENDING:
            return True
        spare = self._spare[str(budgets[0])]
        heeded = pod.ready or not (budgets[0].always_allow or spare >= 0)
        return len(budgets) == 1 and (spare > 0 or not heeded)

    def _evict(self, pod: Pod) -> None:
        for pods in self._left.values():
            pods[:] = [one for one in pods if one is not pod]
        for budget in self._budgets[pod.uid]:
            self._spare[str(budget)] -= pod.ready
        made = replacement(pod, self._view)
        self._view = self._view.without((pod,))
        if not isinstance(made, Pod):  # only its owner knows the new pod; here it is taken to find a node
            for budget in self._budgets[pod.uid]:
                self._spare[str(budget)] += pod.ready
            return
        self._budgets[made.uid] = self._budgets[pod.uid]
        played = place([*self._waiting, made], self._view, most_likely)
        self._view, self._waiting = played.view, list(played.pending)
        for placed, _ in played.placed:
            for budget in self._budgets[placed.uid]:
                self._spare[str(budget)] += 1
