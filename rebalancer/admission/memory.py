"""What is stored after a cycle. Only the necessary: the memory outlives the process and has to stay small."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

import msgspec

from rebalancer.admission.canary import store_passed
from rebalancer.assessment.assess import Assessment
from rebalancer.model.facts import Fact
from rebalancer.model.motion import NodeEvent
from rebalancer.model.moves import Memory, make_token
from rebalancer.model.reasons import State
from rebalancer.planning.plan import Plan
from rebalancer.planning.scope.lasting import CountsInMotion
from rebalancer.planning.scope.settling import NodeChanged, NodeSettling

MOST_IN_FLIGHT: Final = 400
"""Evictions in flight at once, of all workloads: the memory must be stored before a request, and is bounded."""

RATE_WINDOW: Final = timedelta(minutes=1)
"""The window of `budgets.perMinute`, and the longest window of the other rates."""


def update_memory(memory: Memory, assessment: Assessment, plan: Plan, now: datetime, *, canary: int = 0) -> Memory:
    """Return the memory after a cycle; `canary` is the policy's.

    It stores since when each group and limit has been violated, the evictions of the last minute, and others' evictions
    of pods that a constraint or limit concerns.

    Failed predictions, extra evictions, and when a repair first waited for a node to settle are stored only for groups
    that are still violated or planned, or have a move in flight. A group may look satisfied while an evicted pod is not
    counted and its replacement is not placed.
    """
    since = dict(memory.seen)
    names = {group.spread.name for group in assessment.violated} | {group.name for group in plan.components}
    names |= {limit.name for limit in assessment.limits if limit.state is not State.SATISFIED}
    names |= {term.name for term in assessment.anti_affinity if term.violated}
    repaired = names | {move.group for move in (*memory.in_flight, *memory.unexecuted)}
    return msgspec.structs.replace(
        memory,
        # A future time from another clock must not delay anything forever.
        seen=tuple(sorted((token, min(now, since.get(token, now))) for token in map(make_token, names))),
        sent=tuple(
            msgspec.structs.replace(request, at=min(now, request.at))
            for request in memory.sent
            if now - request.at < RATE_WINDOW
        ),
        failed_predictions=tuple(
            msgspec.structs.replace(failure, last=min(now, failure.last))
            for failure in memory.failed_predictions
            if failure.group in repaired
        ),
        refused=tuple(
            msgspec.structs.replace(refused, last=min(now, refused.last))
            for refused in memory.refused
            if refused.group in names
        ),
        extra_evictions=tuple(extra for extra in memory.extra_evictions if extra.group in repaired),
        settling=_first_waits(memory, plan, repaired, now),
        evicted_by_others=tuple(one.evictions for one in assessment.evicted_by_others),
        canaries=store_passed(memory, plan, canary),
    )


def _first_waits(
    memory: Memory, plan: Plan, repaired: Collection[str], now: datetime
) -> tuple[tuple[str, datetime], ...]:
    """Return when each group under repair first waited for a node to settle; a further node does not change it."""
    first = dict(memory.settling)
    for group in plan.components:
        cause = group.first or group.refusal
        if cause is not None and _waits_for_nodes(cause):
            first.setdefault(make_token(group.name), now)
    return tuple(sorted((token, min(now, first[token])) for token in map(make_token, repaired) if token in first))


def _waits_for_nodes(cause: Fact) -> bool:
    """Return whether a cause is a wait for nodes that a component has at most once."""
    if isinstance(cause, CountsInMotion):
        return cause.change.event is not NodeEvent.RELABELLED
    return isinstance(cause, NodeSettling | NodeChanged)
