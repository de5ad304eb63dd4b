"""When `run --once` is done: nothing moves, and nothing can be done now."""

from rebalancer.controller.state import LoopState
from rebalancer.model.reasons import Reason

_LOOKS = 3
"""Cycles without anything to do before it is believed: a disruption budget's status, a rollout's, lags by a moment."""

_WILL_PASS = frozenset({Reason.RATE_LIMITED})
"""Reasons of waiting that end by themselves in a minute."""


class RunOnce:
    """Watches the loop's state, cycle by cycle."""

    def __init__(self) -> None:
        self._idle = 0

    def done(self, state: LoopState) -> bool:
        """Say, after a cycle, whether the work is done."""
        cycle = state.cycle
        if cycle is None or not state.leads:
            return False
        waits = any(each.reason in _WILL_PASS for each in cycle.admission.waiting)
        busy = bool(state.memory.in_flight or cycle.admission.evictions or cycle.context.stale or waits)
        self._idle = 0 if busy else self._idle + 1
        return self._idle >= (_LOOKS if cycle.assessment.violated else 1)
