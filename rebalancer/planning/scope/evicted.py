"""Steps that wait because other programs evict pods of the workload, until its pods are Ready again.

The replacements of those pods are still to come. Budgets count them, but may allow more evictions, and the other
program's purpose and next action are not known. The wait ends `LONGEST_WAIT` after the first such eviction, whatever
the other program does; then budgets alone decide.
"""

from collections.abc import Sequence

from rebalancer.assessment.controllers import PodController
from rebalancer.assessment.evicted import EvictedByOthers
from rebalancer.model.facts import Refusal
from rebalancer.planning.scope.victims import Victim
from rebalancer.scheduling.view import View


class EvictedWorkloads:
    """The workloads of one view whose pods others evict."""

    def __init__(self, view: View, evicted: Sequence[EvictedByOthers]) -> None:
        self._snapshot, self._clock = view.snapshot, view.clock
        self._evicted = {one.evictions.workload: one for one in evicted}

    def refuse(self, victims: Sequence[Victim]) -> Refusal | None:
        """Return why a step waits; None if it need not."""
        for victim in victims if self._evicted else ():
            evicted = self._evicted.get(victim.member.reference)
            if (
                evicted is not None
                and not self.is_complete(victim.member)
                and not self._clock.has_passed(evicted.until)
            ):
                return evicted
        return None

    def is_complete(self, member: PodController) -> bool:
        """Return whether the workload of an owner has as many Ready pods as it wants."""
        top = member.top or member.owner
        assert top is not None, "a pod that may move has an owner"
        owners = (top, *self._snapshot.owned_by.get(top.uid, ()))
        pods = (pod for owner in owners for pod in self._snapshot.pods_of.get(owner.uid, ()))
        return sum(pod.ready and not pod.terminating for pod in pods) >= top.replicas
