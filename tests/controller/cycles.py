"""One cycle of the controller, with nothing around it."""

from datetime import datetime

from rebalancer.admission.admit import AdmissionContext
from rebalancer.controller.capacity import CapacityStage, uses_capacity
from rebalancer.controller.cycle import Cycle, CycleInputs, run_cycle
from rebalancer.model.moves import NO_MEMORY, Memory
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode, Policy
from rebalancer.scheduling.profile import DEFAULT_PROFILE


def cycle_of(
    snapshot: Snapshot,
    policy: Policy,
    *,
    mode: Mode | None = None,
    now: datetime | None = None,
    memory: Memory = NO_MEMORY,
    last: Cycle | None = None,
    again: bool = True,
) -> Cycle:
    """Run a cycle, after `last` if there was one; `again` says whether its evaluation may be used again."""
    stage: CapacityStage | None = None
    if uses_capacity(policy, memory, snapshot):
        stage = CapacityStage(
            namespace=policy.capacity.namespace, seen=snapshot, last=last.capacity if last is not None else None
        )
    context = AdmissionContext(policy=policy, mode=mode or policy.mode, now=now or snapshot.taken_at)
    return run_cycle(
        CycleInputs(
            snapshot=snapshot,
            profile=DEFAULT_PROFILE,
            memory=last.memory if last is not None else memory,
            context=context,
            before=last.snapshot if last is not None else None,
            known=last.evaluation if last is not None and again else None,
            capacity=stage,
            effect=last.effect if last is not None else None,
        )
    )
