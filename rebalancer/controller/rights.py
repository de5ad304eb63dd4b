"""Asks the API server where this account may evict, before an eviction is requested or proposed there.

One request is enough for an account that may evict everywhere. Otherwise each namespace with planned evictions needs
its own: a few are checked at a time, those checked longest ago first.

While no eviction is planned, namespaces with constraints are checked until one allows evictions. So an account without
any such right is noticed before the right is needed.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import structlog

from rebalancer.adapters.kubernetes.transport import ClusterError
from rebalancer.admission.rights import ASKED_AGAIN, Rights
from rebalancer.controller.polling import PollingThread
from rebalancer.controller.state import Clocks, LoopEvent, LoopState, RightsRead
from rebalancer.policy import Mode

ASKED_AT_ONCE: Final = 20
"""Most namespaces that are checked in a second."""

_POLL_SECONDS: Final = 1.0
"""Seconds between two checks whether a request is due."""

_UNASKED: Final = Rights(everywhere=False)

_log = structlog.get_logger("rebalancer.rights")


class RightsReader(PollingThread):
    """Asks while the mode is Evict or Approve, and tells the loop about changes.

    `ask` returns whether this account may evict in a namespace ("": in all), or raises ClusterError.
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
        self._begin()
        super().__init__("rights", _POLL_SECONDS, self.poll)

    def _begin(self) -> None:
        """Forget all answers, which belong to a mode that has ended."""
        self._everywhere: bool | None = None
        """Whether the account may evict everywhere; None before the first answer."""

        self._granted: set[str] = set()
        self._lacking: dict[str, datetime] = {}
        """By namespace, since when the account is known to lack the right."""

        self._asked: dict[str, float] = {}
        """When each namespace was asked about last, by the monotonic clock."""

        self._next = 0.0
        """When to ask again about all namespaces."""

        self._refused: frozenset[str] = frozenset()
        """The namespaces with refused requests, as of the last question."""

    def poll(self) -> None:
        """Ask about unknown rights; every ten seconds about missing or unused rights; at once after a refusal."""
        state = self._get_state()
        if state.mode is Mode.OBSERVE:
            self._begin()
            self._say(state, _UNASKED)
            return
        try:
            self._say(state, self._read(state))
        except ClusterError as error:  # known answers stay, and the next poll asks again
            self._next = self._clocks.monotonic() + ASKED_AGAIN
            _log.warning("rights not read", error=str(error), consequence="what was known stays")
            if self._everywhere is None:
                self._say(state, Rights())  # a question that cannot be asked keeps nobody back: the next request tells

    def _say(self, state: LoopState, rights: Rights) -> None:
        if rights != state.queue.rights:
            self._tell(RightsRead(rights=rights))

    def _read(self, state: LoopState) -> Rights:
        refused, now = frozenset(state.queue.forbidden), self._clocks.monotonic()
        is_new = not refused <= self._refused
        if is_new or now >= self._next:  # also for an existing right, whose loss must become visible
            self._next, self._refused = now + ASKED_AGAIN, refused
            self._everywhere = self._ask("")
            self._granted -= refused
            for namespace in refused if is_new else ():
                self._asked.pop(namespace, None)
        if self._everywhere or self._everywhere is None:
            self._lacking.clear()  # a right that is missing later counts as missing since this time
            return Rights()
        return self._read_some(state, now)

    def _read_some(self, state: LoopState, now: float) -> Rights:
        """Ask about the namespaces that were checked longest ago, at least ten seconds ago."""
        decided, at_rest = _find_wanted(state)
        # One namespace is enough at rest, because an installation may be meant for only some.
        wanted = decided or (at_rest if self._granted.isdisjoint(at_rest) else frozenset[str]())
        self._asked = {name: at for name, at in self._asked.items() if name in wanted}
        self._lacking = {name: since for name, since in self._lacking.items() if name in wanted}
        # The answer to an eviction request shows a lost right; if all evictions wait, nothing else shows it.
        unsure = wanted - self._granted | _find_waiting(state)
        due = [name for name in unsure if now - self._asked.get(name, -ASKED_AGAIN) >= ASKED_AGAIN]
        for namespace in sorted(due, key=lambda name: (self._asked.get(name, -ASKED_AGAIN), name))[:ASKED_AT_ONCE]:
            self._asked[namespace] = now
            if self._ask(namespace):
                self._granted.add(namespace)
                self._lacking.pop(namespace, None)
            else:
                self._granted.discard(namespace)
                self._lacking.setdefault(namespace, self._clocks.now())
        is_certain = bool(decided) or (self._granted.isdisjoint(wanted) and self._lacking.keys() >= wanted)
        missing = dict(self._lacking) if is_certain else {}
        return Rights(everywhere=False, granted=frozenset(self._granted), missing=missing)


def _find_waiting(state: LoopState) -> frozenset[str]:
    """Return the namespaces with planned evictions but no request under way, as in a back-off."""
    if state.cycle is None:
        return frozenset()
    fates = state.cycle.fates
    going = {eviction.pod.namespace for eviction in fates.going}
    return frozenset(fate.eviction.pod.namespace for fate in fates.waiting) - going


def _find_wanted(state: LoopState) -> tuple[frozenset[str], frozenset[str]]:
    """Return the namespaces with planned evictions, and the namespaces with constraints."""
    cycle = state.cycle
    if cycle is None:
        return frozenset(), frozenset()
    decided = frozenset(eviction.pod.namespace for eviction in cycle.fates.evictions)
    if decided:
        return decided, frozenset()
    groups = cycle.assessment.groups
    return decided, frozenset(workload.namespace for group in groups for workload in group.workloads)
