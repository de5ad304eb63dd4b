"""What a plan's evictions add to the usage of quotas if a replacement uses more than the old pod.

Like budgets, a quota is spent step by step: the first replacement may fit and the third not.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from rebalancer.assessment.controllers import PodController
from rebalancer.creation.quotas import Charge, Quota, QuotaExceeded, find_charges, quotas_of, refuse_by
from rebalancer.model.moves import PlanningMemory
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot


class QuotaLedger:
    """The planned additions to each quota, and what moves under way may still add."""

    def __init__(self, snapshot: Snapshot, memory: PlanningMemory) -> None:
        self._snapshot = snapshot
        self._moving = Counter(move.namespace for move in memory.in_flight)
        self._has_quotas = bool(snapshot.quotas or snapshot.cluster_quotas)
        self._planned: defaultdict[Quota, Counter[str]] = defaultdict(Counter)

    @property
    def exist(self) -> bool:
        """Whether there are quotas."""
        return self._has_quotas

    def blocked(self, pod: Pod, member: PodController) -> QuotaExceeded | None:
        """Return which quota would not admit the replacement of a pod now, or None."""
        for quota, charges in self._charges(pod, member):
            planned = self._planned[quota]
            if self._moving[pod.namespace]:
                # The usage of the evicted pods may be released already, while their replacements do not exist yet.
                more = {one.resource: max(0, one.requested - one.returned) for one in charges}
                planned = planned + Counter({name: self._moving[pod.namespace] * each for name, each in more.items()})
            exceeded = refuse_by(quota, charges, planned)
            if exceeded is not None:
                return exceeded
        return None

    def take(self, pod: Pod, member: PodController, times: int) -> None:
        """Add a replacement (1), or take it back (-1). The evicted pod's usage stays until the pod is gone."""
        for quota, charges in self._charges(pod, member):
            planned = self._planned[quota]
            for charge in charges:
                planned[charge.resource] += times * max(0, charge.requested - charge.returned)

    def _charges(self, pod: Pod, member: PodController) -> Iterator[tuple[Quota, Sequence[Charge]]]:
        if self._has_quotas and isinstance(member.next_pod, Pod):
            for quota in quotas_of(pod.namespace, self._snapshot):
                yield quota, find_charges(quota, pod, member.next_pod)
