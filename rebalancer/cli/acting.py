"""The controller of a cluster as read-only commands know it: what it does with a plan, and its memory."""

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
    """What the controller does with a plan, and what it does not send, as far as that is known."""

    describe: Callable[[], str]
    status: StatusDocument | None = None
    """Its stored status, None where none can be read."""
    memory: Memory = NO_MEMORY
    """What it knows about changed nodes and about evictions by others, which the cluster does not show."""
    find_idle: Callable[[], str] = str
    """Says why it moves nothing of what a plan lets go, "" where it does."""
    is_led: Callable[[], bool] = lambda: True
    """Whether a controller runs, as far as the Lease says."""

    @property
    def blocked(self) -> Sequence[BlockedNamespace]:
        """The namespaces in which it evicts nothing."""
        return self.status.breaker.namespaces if self.status is not None else ()

    def admit(self, evaluation: Evaluation) -> Plan:
        """Return the plan as it carries it out: what it does not send in its next cycle waits."""
        plan = foretell_plan(evaluation, self.status) if self.status is not None else evaluation.plan
        adds = any(eviction.repair.added for eviction in plan.fates.going)
        return structs.replace(plan, fates=add_first(plan.fates)) if adds else plan

    def remember(self, snapshot: Snapshot) -> Memory:
        """Return what the next leader will know of the cluster.

        Where none leads, an eviction that is stored as planned and whose pod is there was not carried out: without a
        look at the pod it would count as evicted, and its workload as repaired. Reads the Lease if there is such a one.
        """
        planned = {move.uid for move in self.memory.moves if move.state is MoveState.PLANNED}
        remaining = {pod.uid for pod in snapshot.pods if pod.uid in planned and not pod.terminating} if planned else ()
        return note_remaining(self.memory, remaining) if remaining and not self.is_led() else self.memory

    @cached_property
    def line(self) -> str:
        """What it does, in one line, for printing only: it reads the Lease, which may take seconds."""
        return self.describe()

    @cached_property
    def idle(self) -> str:
        """Why it moves nothing of what the plan lets go, "" where it does. Reads the Lease, too."""
        return self.find_idle()
