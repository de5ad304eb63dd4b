"""When `run --once` is done, and how long it waits between two cycles."""

from datetime import timedelta
from typing import Final

from rebalancer.controller.state import LoopState
from rebalancer.model.reasons import Reason

_IDLE_CYCLES: Final = 3
"""Cycles without progress before a violation is left: the status of a budget or a rollout lags by a moment."""

_TEMPORARY: Final = frozenset({Reason.RATE_LIMITED})
"""Reasons of waiting that end within a minute."""

_MOVE_POLL: Final = timedelta(seconds=2)
"""Between cycles while replacements are on their way: one may become Ready at any moment."""

_IDLE_POLL: Final = timedelta(seconds=5)
"""Between cycles otherwise: what they wait for, such as a rate or a budget's status, takes seconds to change."""


class RunOnce:
    """Follows the loop's state, cycle by cycle: done when nothing is in flight and nothing can be done now."""

    def __init__(self) -> None:
        self._idle = 0

    def is_done(self, state: LoopState) -> bool:
        """Return whether the work is done; called once after each cycle."""
        cycle = state.cycle
        if cycle is None or not state.leads:
            return False
        is_waiting = any(waiting.reason in _TEMPORARY for waiting in cycle.admission.waiting)
        busy = bool(state.memory.in_flight or cycle.admission.evictions or cycle.context.stale or is_waiting)
        self._idle = 0 if busy else self._idle + 1
        return self._idle >= (_IDLE_CYCLES if cycle.assessment.violated else 1)


def time_to_next_cycle(state: LoopState) -> timedelta:
    """Return how long `run --once` waits after a cycle: until something can have changed, at most the interval.

    Without leadership it is the interval; a process that wins the lease runs a cycle at once.
    """
    interval = state.policy.interval
    if state.cycle is None or not state.leads:
        return interval
    return min(interval, _MOVE_POLL if state.memory.in_flight else _IDLE_POLL)
