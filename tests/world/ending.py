"""What must be so at the end of a run: after a long time without a fault one process leads, and all is repaired."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rebalancer.controller.cycle import Cycle
from rebalancer.controller.state import LoopState
from rebalancer.model.breaker import BreakerCause
from rebalancer.model.moves import make_token
from rebalancer.model.reasons import Reason
from rebalancer.tracking.backoff import find_backoff, find_refusals

if TYPE_CHECKING:
    from tests.world.world import World

STUCK = timedelta(minutes=12)
LASTING = timedelta(minutes=8)
"""A violation that lasts so long, and that evictions can repair now, is one that nobody repairs."""

_HOLDS_ALL = frozenset(
    {Reason.PAUSED, Reason.OBSERVE_ONLY, Reason.STALE_DATA, Reason.MEMORY_NOT_SAVED, Reason.BREAKER_OPEN}
)


def check_end(world: "World") -> None:
    """Report to the monitor what is not as it must be."""
    breach = world.monitor.breach
    leaders = [replica for replica in world.living if replica.runner.state.leadership.leads and replica.elector.leads()]
    if len(leaders) != 1:
        breach(f"{len(leaders)} replicas lead at the end")
        return
    state = leaders[0].runner.state
    now = world.cluster.now + timedelta(seconds=leaders[0].ahead)
    if state.cycle is None or now - state.cycle.context.now > 3 * world.policy.interval:
        breach("the leader runs no cycles at the end")
        return
    for sentence in (
        *_find_stuck(state, now),
        *_find_holds(state.cycle),
        *_find_unrepaired(state, state.cycle, world.refusing, now),
        *_find_waiting(world, state.cycle),
    ):
        breach(sentence)


def is_at_rest(world: "World") -> bool:
    """Return whether nothing is left to do: all is as it must be, and whatever pods are wanted are there."""
    cycles = [replica.runner.state.cycle for replica in world.living if replica.runner.state.leadership.leads]
    in_flight = any(replica.runner.state.memory.in_flight for replica in world.living)
    waiting = any(pod.waiting or pod.terminating for pod in world.state.store.pods)
    return not in_flight and not waiting and all(cycle is not None and not cycle.plan.components for cycle in cycles)


def _find_stuck(state: LoopState, now: datetime) -> Iterable[str]:
    if state.queue.unsaved:
        yield f"the memory is not stored at the end: {state.queue.unsaved}"
    for move in state.memory.in_flight:
        if now - move.requested_at > STUCK:
            yield f"the move of {move.pod} has been {move.state} since {now - move.requested_at}"


def _find_holds(cycle: Cycle) -> Iterable[str]:
    """Yield what holds back every eviction, although no fault is left."""
    held = {waiting.reason for waiting in cycle.fates.kept} & _HOLDS_ALL
    if _is_rightly_open(cycle):
        held.discard(Reason.BREAKER_OPEN)
    yield from (f"everything is held back at the end: {reason}" for reason in sorted(held))


def _is_rightly_open(cycle: Cycle) -> bool:
    """Return whether the breaker is open for what outlasts every fault: moves that failed, and pods that still wait."""
    causes = {known.cause for known in cycle.context.breaker.causes}
    return bool(causes) and causes <= {BreakerCause.FAILED_MOVES, BreakerCause.PENDING_PODS}


def _find_unrepaired(state: LoopState, cycle: Cycle, refusing: frozenset[str], now: datetime) -> Iterable[str]:
    """Yield what evictions can repair now, and nobody repairs, but where a webhook refuses or what failed backs off."""
    if _is_rightly_open(cycle):
        return
    since = dict(state.memory.seen)
    served = {move.group for move in state.memory.moves if now - move.requested_at < LASTING}
    for group in sorted({eviction.group for eviction in cycle.plan.fates.going}):
        namespaces = {eviction.pod.namespace for eviction in cycle.plan.fates.going if eviction.group == group}
        backs_off = find_backoff(state.memory, group, now) or find_refusals(state.memory, group, now)
        if backs_off or group in served or not namespaces.isdisjoint(refusing):
            continue
        if now - since.get(make_token(group), now) > LASTING:
            yield f"{group} has been violated since {since[make_token(group)]:%H:%M:%S}, and nothing repairs it"


def _find_waiting(world: "World", cycle: Cycle) -> Iterable[str]:
    waiting = [pod.name for pod in world.state.store.pods if pod.waiting]
    if waiting and not cycle.assessment.deadlocks and not cycle.plan.components:
        yield f"pods wait at the end, and nothing is planned for them: {', '.join(waiting)}"
