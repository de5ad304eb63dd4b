"""The account of the loop's state: the account of the last cycle, updated by later events."""

from collections.abc import Sequence
from dataclasses import replace

from rebalancer.account.account import Account
from rebalancer.admission.admit import (
    describe_refused_requests,
    find_common_obstacle,
)
from rebalancer.admission.lasting import find_approved, outlast_waits
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.state import LoopState
from rebalancer.model.facts import Refusal
from rebalancer.planning.eviction import Eviction
from rebalancer.policy import Mode
from rebalancer.tracking.backoff import find_refusals_since


def account_inputs(state: LoopState) -> Sequence[object]:
    """Return all objects from which the account of a state is made. Identical objects give an equal account."""
    memory, queue = state.memory, state.queue
    since = (memory.moves, memory.refused, state.in_force.pause, state.mode)
    return state.cycle, *since, queue.overload, queue.forbidden, queue.unsaved, queue.rights


def find_account(state: LoopState, cycle: Cycle) -> Account:
    """Return the fates of the plan of a state's last cycle.

    Evictions requested since then are under way. Evictions refused since then wait. Evictions that are not requested
    yet wait if somebody has paused, or the mode has changed.
    """
    # In Observe, nothing is evicted when a pause ends.
    pause = state.in_force.pause if state.mode is not Mode.OBSERVE else None
    queue = state.queue
    context = replace(cycle.context, pause=pause, mode=state.mode, overload=queue.overload, unsaved=queue.unsaved)
    common = find_common_obstacle(context)
    said = cycle.context.now
    refused = find_refusals_since(state.memory, said)

    def find_refusal(eviction: Eviction) -> Refusal | None:
        request = refused.get(eviction.group)
        if request is None:
            return common
        return describe_refused_requests(request, state.queue.forbidden.get(eviction.pod.namespace), said)

    requested = {move.uid for move in state.memory.in_flight}
    approved = find_approved(cycle.plan, state.memory, state.mode)
    fates = cycle.fates.begin(requested).hold(find_refusal)
    return Account(
        plan=cycle.plan,
        numbers=cycle.numbers,
        fates=outlast_waits(fates, common, queue.rights, approved, cycle.plan.made_at),
        moves=state.memory.moves,
        common=common,
        approved=approved.components if approved is not None else None,
        rights=queue.rights,
    )
