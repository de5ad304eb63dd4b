"""An evaluation by a process that only reads: like the first cycle of a new leader, but without requests.

Commands show it, and so does the page of a process that does not lead; with equal memories both agree.
"""

from dataclasses import replace
from datetime import timedelta

from msgspec import structs

from rebalancer.capacity.decision import NotInModeEvict, decide_capacity
from rebalancer.capacity.requests import Observation
from rebalancer.engine import Evaluation, evaluate
from rebalancer.model.moves import NO_MEMORY, Memory
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Mode, Policy
from rebalancer.scheduling.profile import Profile
from rebalancer.tracking.track import track


def evaluate_once(snapshot: Snapshot, policy: Policy, profile: Profile, memory: Memory | None = None) -> Evaluation:
    """Evaluate as the first cycle of a new leader does, with the reasons why repairs wait for capacity.

    `memory` is what the last leader has stored; None for a file.
    """
    if memory is not None:
        memory = track(memory, None, snapshot, policy, snapshot.taken_at, None, profile)
    evaluation = evaluate(snapshot, policy, profile=profile, memory=memory)
    decision = decide_capacity(
        evaluation,
        memory or NO_MEMORY,
        Observation(now=snapshot.taken_at, plan=evaluation.plan, may_begin=False),
        obstacle=None if policy.mode is Mode.EVICT else NotInModeEvict(),
        lasting=timedelta(0),
    )
    made = structs.replace(evaluation.plan, refusals=(*evaluation.plan.refusals, *decision.refusals))
    return replace(evaluation, plan=made)
