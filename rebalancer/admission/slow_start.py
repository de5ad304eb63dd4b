"""Slow start: few moves are under way at first, and more with every replacement that arrives.

Whatever lies between an eviction and a running replacement and cannot be seen beforehand (a webhook that refuses pods,
a controller manager that is frozen, a registry that does not answer) then costs a few pods, and not one of every
workload. `tracking.arrivals` says when a replacement has arrived, `tracking.windows` how the windows grow.

A step that needs several concurrent evictions may exceed a window, once nothing else is under way there. So that it
gets its turn, nothing overtakes it after `PATIENCE`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from rebalancer.admission.causes import StepQueued, WindowFull
from rebalancer.model.moves import Memory, StartWindow, make_token
from rebalancer.model.reasons import Reason
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.causes import Refusal
from rebalancer.planning.plan import Eviction
from rebalancer.tracking.arrivals import is_under_way
from rebalancer.tracking.windows import first_size

PATIENCE: Final = timedelta(minutes=2)


class WindowUse(NamedTuple):
    """How many moves may be under way at once, and how many are."""

    at_once: int
    under_way: int


class WindowUses(NamedTuple):
    """Slow start as it is now: in the cluster, and in the namespaces in which evictions wait for it."""

    cluster: WindowUse
    namespaces: Mapping[str, WindowUse]


def describe_windows(memory: Memory, snapshot: Snapshot, now: datetime) -> WindowUses:
    """Return how slow start stands."""
    windows = Windows(memory, snapshot, now, known=memory.windows, enabled=True)
    limited = sorted(window.namespace for window in memory.windows if window.limited and window.namespace)
    return WindowUses(windows.use(""), {namespace: windows.use(namespace) for namespace in limited})


class Windows:
    """The windows of slow start, counted down as evictions are admitted; the `known` ones go on, others begin anew.

    Where slow start is off (`enabled`), they refuse nothing.
    """

    def __init__(
        self, memory: Memory, snapshot: Snapshot, now: datetime, *, known: Iterable[StartWindow], enabled: bool
    ) -> None:
        self._enabled = enabled
        self.sizes = {window.namespace: window.size for window in known} if enabled else {}
        self.under_way = Counter[str]()
        for move in memory.moves:
            if is_under_way(move, snapshot, now):
                self.under_way[""] += 1
                self.under_way[move.namespace] += 1
        self._unexecuted = memory.unexecuted_pods
        """Pods that are counted as under way already: a new request for one is no further move."""
        self.limited: set[str] = set()
        """The namespaces whose window has refused an eviction, and "" for the cluster's."""
        self.refused: dict[str, Eviction] = {}
        """Steps of several concurrent evictions that wait for these windows alone, by group."""
        self._now = now
        self._queued = dict(memory.queued)
        self._first: Eviction | None = None

    def size(self, namespace: str) -> int:
        """Return how many moves may be under way at once, in a namespace or in the cluster ("")."""
        return self.sizes.get(namespace, first_size(namespace))

    def use(self, namespace: str) -> WindowUse:
        """Return how a window is used."""
        return WindowUse(self.size(namespace), self.under_way[namespace])

    def waits_long(self, step: Sequence[Eviction]) -> bool:
        """Return whether nothing may overtake a step any more."""
        since = self._queued.get(make_token(step[0].group))
        return self._enabled and step[0].needed > 1 and since is not None and self._now - since >= PATIENCE

    def take(self, evictions: Sequence[Eviction]) -> Refusal | None:
        """Count evictions of one step as under way, all of them or none; return why they have to wait."""
        if not self._enabled:
            return None
        if self._first is not None:
            return Refusal(Reason.SLOW_START, StepQueued(self._first.workload, self._first.needed))
        further = [eviction for eviction in evictions if eviction.pod.uid not in self._unexecuted]
        if not further:
            return None
        wanted = Counter(eviction.pod.namespace for eviction in further)
        wanted[""] = len(further)
        full = [space for space, number in sorted(wanted.items()) if not self._fits(space, number, len(evictions))]
        if not full:
            self.under_way.update(wanted)
            return None
        self.limited.update(full)
        if len(evictions) > 1:
            self.refused[evictions[0].group] = evictions[0]
            if self.waits_long(evictions):
                self._first = evictions[0]
        space = full[0]
        return Refusal(Reason.SLOW_START, WindowFull(space, self.size(space), self.under_way[space]))

    def _fits(self, namespace: str, number: int, needed: int) -> bool:
        under_way = self.under_way[namespace]
        return under_way + number <= self.size(namespace) or (needed > 1 and under_way == 0)

    def queued_since(self) -> tuple[tuple[str, datetime], ...]:
        """Return since when each step that needs several concurrent evictions has waited for slow start alone."""
        tokens = sorted(map(make_token, self.refused))
        return tuple((token, min(self._now, self._queued.get(token, self._now))) for token in tokens)
