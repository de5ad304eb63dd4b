"""Asks the API server where this account may evict, before something is requested or proposed there.

One question is enough where it may evict everywhere. Else it is asked of each namespace in which something is to be
evicted, and while nothing is, of some that have constraints: a right that is missing is to be seen before it is needed.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import structlog

from rebalancer.adapters.kubernetes.transport import ClusterError
from rebalancer.admission.rights import ASKED_AGAIN, Rights
from rebalancer.controller.polling import PollingThread
from rebalancer.controller.state import Clocks, LoopEvent, LoopState, RightsRead
from rebalancer.policy import Mode

MOST_ASKED: Final = 100
"""Namespaces with evictions that are asked about; a request in another one tells."""

_POLL_SECONDS: Final = 1.0
"""Between two looks whether there is something to ask."""

_MOST_AT_REST: Final = 20
"""Namespaces that are asked about while nothing is to be evicted."""

_log = structlog.get_logger("rebalancer.rights")


class RightsReader(PollingThread):
    """Asks while the mode is Evict or Approve, and tells the loop what has changed.

    `ask` returns whether this account may evict in a namespace, or for "" in all, or raises ClusterError.
    """

    def __init__(
        self,
        *,
        ask: Callable[[str], bool],
        get_state: Callable[[], LoopState],
        tell: Callable[[LoopEvent], None],
        clocks: Clocks,
    ) -> None:
        self._ask = ask
        self._get_state = get_state
        self._tell = tell
        self._clocks = clocks
        self._known = Rights(everywhere=False)
        self._next: float | None = None
        """When what is missing is asked for again, by the monotonic clock; None: nothing was asked in this mode."""

        self._refused: frozenset[str] = frozenset()
        """The namespaces with refused requests, as of the last question."""

        super().__init__("rights", _POLL_SECONDS, self.poll)

    def poll(self) -> None:
        """Ask what is not known; what is missing, each ten seconds again; and at once where a request was refused."""
        state = self._get_state()
        if state.mode is Mode.OBSERVE:
            self._known, self._next = Rights(everywhere=False), None
            return
        refused = frozenset(state.queue.forbidden)
        is_due = self._next is None or self._clocks.monotonic() >= self._next or not refused <= self._refused
        if is_due:
            self._next, self._refused = self._clocks.monotonic() + ASKED_AGAIN, refused
        try:
            self._known = self._read(state, self._known, refused, is_due=is_due)
        except ClusterError as error:
            _log.warning("rights not read", error=str(error), consequence="the next request tells")
            self._known = Rights()
        if self._known != state.queue.rights:
            self._tell(RightsRead(rights=self._known))

    def _read(self, state: LoopState, known: Rights, refused: frozenset[str], *, is_due: bool) -> Rights:
        if is_due and (not known.everywhere or refused) and self._ask(""):
            return Rights()
        if known.everywhere and not (is_due and refused):
            return known
        granted, missing = known.granted - refused if is_due else known.granted, known.missing
        answers: dict[str, bool] = {}
        for namespace in _find_wanted(state):
            if namespace in granted:
                answers[namespace] = True
            elif is_due or namespace not in missing:
                answers[namespace] = self._ask(namespace)
            else:
                answers[namespace] = False
        now = self._clocks.now()
        return Rights(
            everywhere=False,
            granted=frozenset(name for name, may in answers.items() if may),
            missing={name: missing.get(name, now) for name, may in answers.items() if not may},
        )


def _find_wanted(state: LoopState) -> Iterator[str]:
    """Yield the namespaces that are asked about, each once, sorted."""
    cycle = state.cycle
    if cycle is None:
        return
    decided = sorted({eviction.pod.namespace for eviction in cycle.fates.evictions})
    at_rest = {workload.namespace for group in cycle.assessment.groups for workload in group.workloads}
    yield from islice(decided, MOST_ASKED) if decided else islice(sorted(at_rest), _MOST_AT_REST)
