"""Decides when `run --once` is done, and how long it waits between two cycles."""

from datetime import datetime, timedelta
from typing import Final

from rebalancer.admission.guards import GuardNotGood
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.state import LoopState
from rebalancer.model.reasons import Reason
from rebalancer.planning.fates import Waits
from rebalancer.policy import Mode

_IDLE_CYCLES: Final = 3
"""Cycles without progress before a violation is given up, because the watches may lag by a moment."""

_PATIENCE: Final = 2
"""Intervals without progress before a violation whose repair's wait ends by itself is given up."""

_ENDS_BY_ITSELF: Final = frozenset(
    {
        Reason.BLOCKED_BY_BUDGET,
        Reason.DOMAIN_UNSETTLED,
        Reason.EVICTED_BY_OTHERS,
        Reason.GROUP_IN_FLIGHT,
        Reason.NODE_SETTLING,
        Reason.ROLLOUT_IN_PROGRESS,
    }
)
"""Reasons of waiting that often end within minutes: a pod becomes available, a node settles."""

_MOVE_POLL: Final = timedelta(seconds=2)
"""Wait between cycles while replacements are in flight, because one may become Ready at any moment."""

_IDLE_POLL: Final = timedelta(seconds=5)
"""Wait between other cycles, because a rate or a budget's status takes seconds to change."""


class RunOnce:
    """Follows the loop's state, cycle by cycle: done when nothing is in flight and nothing can be done now."""

    def __init__(self) -> None:
        self._idle = 0
        self._idle_since: datetime | None = None

    def is_done(self, state: LoopState) -> bool:
        """Return whether the work is done; called once after each cycle."""
        cycle = state.cycle
        if cycle is None or not state.leadership.leads:
            return False
        now = cycle.context.now
        is_limited = any(_ends_surely(waiting) for waiting in cycle.fates.kept)
        if (
            state.memory.in_flight
            or state.memory.unexecuted
            or state.memory.capacity
            or cycle.fates.going
            or cycle.context.stale
            or is_limited
        ):
            self._idle, self._idle_since = 0, None
            return False
        self._idle += 1
        if self._idle_since is None:
            self._idle_since = now
        if not cycle.assessment.violated:
            return True
        return self._idle >= _IDLE_CYCLES and now - self._idle_since >= _patience(cycle)


def _ends_surely(waiting: Waits) -> bool:
    """Return whether time alone ends a wait: for a rate, or for guards that must stay good for longer."""
    if waiting.reason is Reason.AWAITING_GUARDS:
        return not isinstance(waiting.refusal, GuardNotGood)
    return waiting.reason is Reason.RATE_LIMITED


def _patience(cycle: Cycle) -> timedelta:
    """Return how long a violation may stay without progress; in Observe there is nothing to wait for."""
    reasons = {waiting.reason for waiting in cycle.plan.fates.kept}
    reasons |= {group.refusal.reason for group in cycle.plan.components if group.refusal is not None}
    waits = not reasons.isdisjoint(_ENDS_BY_ITSELF) or cycle.admission.guards.wanted
    if cycle.context.mode is Mode.OBSERVE or not waits:
        return timedelta(0)
    return _PATIENCE * cycle.context.policy.interval


def time_to_next_cycle(state: LoopState) -> timedelta:
    """Return how long `run --once` waits after a cycle: until something can have changed, at most the interval.

    Without leadership, it is the interval; a process that wins the lease runs a cycle at once.
    """
    interval = state.in_force.policy.interval
    if state.cycle is None or not state.leadership.leads:
        return interval
    return min(interval, _MOVE_POLL if state.memory.in_flight or state.memory.capacity else _IDLE_POLL)
