"""What read-only commands know of a cluster's controller: what it does with a plan, and its memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from msgspec import structs

from rebalancer.documents.next_cycle import foretell_plan
from rebalancer.documents.status import BlockedNamespace, StatusDocument
from rebalancer.engine import Evaluation
from rebalancer.model.moves import NO_MEMORY, Memory, MoveState
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.adding_first import add_first
from rebalancer.planning.plan import Plan
from rebalancer.tracking.moves import note_remaining


@dataclass(frozen=True)
class Acting:
    """What the controller does with a plan, and which evictions it does not send, as far as known."""

    describe: Callable[[], str]
    status: StatusDocument | None = None
    """Its stored status, None if none can be read."""
    memory: Memory = NO_MEMORY
    """Its memory of changed nodes and of evictions by others, which the cluster does not show."""
    find_idle: Callable[[], str] = str
    """Says why the controller makes none of the evictions that may go now, "" if it does."""
    is_led: Callable[[], bool] = lambda: True
    """Whether a controller runs, as far as the Lease says."""

    @property
    def blocked(self) -> Sequence[BlockedNamespace]:
        """The namespaces in which it evicts nothing."""
        return self.status.breaker.namespaces if self.status is not None else ()

    def admit(self, evaluation: Evaluation) -> Plan:
        """Return the plan as the controller carries it out: evictions that it does not send in its next cycle wait."""
        plan = foretell_plan(evaluation, self.status) if self.status is not None else evaluation.plan
        adds = any(eviction.repair.added for eviction in plan.fates.going)
        return structs.replace(plan, fates=add_first(plan.fates)) if adds else plan

    def remember(self, snapshot: Snapshot) -> Memory:
        """Return what the next leader will know of the cluster.

        If no process leads, an eviction that is stored as planned and whose pod exists was not carried out. Without
        reading the pod, it would count as evicted and its workload as repaired. Reads the Lease if there is such an
        eviction.
        """
        planned = {move.uid for move in self.memory.moves if move.state is MoveState.PLANNED}
        remaining = {pod.uid for pod in snapshot.pods if pod.uid in planned and not pod.terminating} if planned else ()
        return note_remaining(self.memory, remaining) if remaining and not self.is_led() else self.memory

    @cached_property
    def line(self) -> str:
        """What the controller does, in one line. For printing only, because reading the Lease may take seconds."""
        return self.describe()

    @cached_property
    def idle(self) -> str:
        """Why it makes none of the evictions that may go now, "" if it does. Reads the Lease, too."""
        return self.find_idle()
