"""The Eviction API, with the steps of the API server.

Source: `pkg/registry/core/pod/storage/eviction.go`; the responses are listed in docs/design.md, "Responses".
"""

from msgspec import structs

from rebalancer.model.cluster import DisruptionBudget
from rebalancer.model.moves import Move
from rebalancer.model.pods import Pod, PodPhase
from rebalancer.ports import EvictionAnswer, EvictionResult
from rebalancer.simulator.state import ClusterState
from rebalancer.simulator.timings import Faults
from rebalancer.simulator.trace import TraceKind

MOST_DISRUPTED = 2000
"""The most entries of disruptedPods with which the API server still grants an eviction (MaxDisruptedPodSize)."""

_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_GRANTED = EvictionAnswer(EvictionResult.EVICTED)


class Evictions:
    """Handles eviction requests."""

    def __init__(self, state: ClusterState, faults: Faults) -> None:
        self._state = state
        self._faults = faults

    def evict(self, move: Move) -> EvictionAnswer:
        """Evict the pod of a move, with the pod's UID as the precondition."""
        random, faults = self._state.random, self._faults
        if faults.throttled and random.random() < faults.throttled:
            answer = EvictionAnswer(EvictionResult.THROTTLED, "Too many requests, please try again later.")
            self._refused(move, answer)
            return answer
        lost = bool(faults.lost_answers) and random.random() < faults.lost_answers
        if lost and random.random() < 0.5:
            return EvictionAnswer(EvictionResult.UNKNOWN, "no response: the connection was lost")
        answer = self._evict(move)
        if answer != _GRANTED:
            self._refused(move, answer)
        return EvictionAnswer(EvictionResult.UNKNOWN, "no response: the connection was lost") if lost else answer

    def _refused(self, move: Move, answer: EvictionAnswer) -> None:
        self._state.note(TraceKind.REFUSED, f"Pod {move.namespace}/{move.pod}", f"{answer.result}: {answer.message}")

    def _evict(self, move: Move) -> EvictionAnswer:
        pod = self._state.store.pods.named(move.namespace, move.pod)
        if pod is None:
            return EvictionAnswer(EvictionResult.GONE, f'pods "{move.pod}" not found')
        if pod.finished or pod.phase is PodPhase.PENDING or pod.terminating:
            return self._delete(pod, move.uid)
        budgets = self._budgets_of(pod)
        if len(budgets) > 1:
            return EvictionAnswer(EvictionResult.FAILED, _SEVERAL)
        if budgets and not _may_skip_budget(pod, budgets[0]):
            refused = self._spend(budgets[0], pod)
            if refused is not None:
                return refused
        # From here on the budget is used up, even if the pod is another one of the same name.
        return self._delete(pod, move.uid)

    def _budgets_of(self, pod: Pod) -> list[DisruptionBudget]:
        return [
            budget
            for budget in self._state.store.budgets
            if budget.namespace == pod.namespace and budget.selector is not None and budget.selector.matches(pod.labels)
        ]

    def _spend(self, budget: DisruptionBudget, pod: Pod) -> EvictionAnswer | None:
        """Take one disruption from a budget, or return the answer that refuses it (checkAndDecrement)."""
        if budget.observed_generation < budget.generation:
            message = f"{_VIOLATES} The disruption budget {budget.name} is still being processed by the server."
            return EvictionAnswer(EvictionResult.STALE, message)
        if budget.allowed < 0:
            return EvictionAnswer(EvictionResult.BUDGET, "pdb disruptions allowed is negative")
        if len(budget.disrupted) > MOST_DISRUPTED:
            return EvictionAnswer(EvictionResult.BUDGET, "DisruptedPods map too big - too many evictions not done")
        if budget.allowed == 0:
            needs = (
                f"The disruption budget {budget.name} needs {budget.desired_healthy} healthy pods and has "
                f"{budget.current_healthy} currently"
            )
            return EvictionAnswer(EvictionResult.BUDGET, f"{_VIOLATES} {needs}")
        others = tuple((name, at) for name, at in budget.disrupted if name != pod.name)
        disrupted = tuple(sorted((*others, (pod.name, self._state.stamp))))
        self._state.store.budgets.put(structs.replace(budget, allowed=budget.allowed - 1, disrupted=disrupted))
        return None

    def _delete(self, pod: Pod, uid: str) -> EvictionAnswer:
        if pod.uid != uid:
            message = f"the UID in the precondition ({uid}) does not match the UID in record ({pod.uid})"
            return EvictionAnswer(EvictionResult.CONFLICT, message)
        if pod.terminating:
            return _GRANTED
        self._state.note(TraceKind.EVICTED, f"Pod {pod}", f"from {pod.node}")
        target = structs.replace(pod, evicted_at=self._state.stamp)
        self._state.store.pods.put(target)
        self._state.delete(target)
        return _GRANTED


def _may_skip_budget(pod: Pod, budget: DisruptionBudget) -> bool:
    """Return whether an unready pod may be evicted without using its budget (unhealthyPodEvictionPolicy)."""
    if pod.ready:
        return False
    if budget.always_allow:
        return True
    return budget.current_healthy >= budget.desired_healthy > 0
