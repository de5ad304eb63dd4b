"""The promises about requests, checked at every request against what is really so, not against what a process believes.

What is stored of evictions, and how they are said to end, is checked by `records`; the end of a run by `ending`.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from rebalancer.model.moves import Move
from rebalancer.model.pods import Pod
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.policy import Mode, Policy
from rebalancer.simulator.state import ClusterState
from tests.world.hub import Hub
from tests.world.records import Records

PAUSE_LIMIT = 1.0
"""Seconds after a pause was stored from which on no request may begin."""

REQUEST_SECONDS = 3.0
"""The longest time from the last check of a request to its arrival: changes in it nobody could have seen."""


SILENT_LIMIT = 160.0
"""Seconds of silence of a watch after which nothing may begin."""

PLAN_LIMIT = 40.0
"""Seconds after its snapshot after which no step of a plan may begin."""

OBSERVE_LIMIT = 3.0
"""Seconds after a change of the mode, which is read once a second, after which no request may begin."""

CHECK_TO_SEND = 0.2
"""Seconds from the last check to the request."""

THROTTLE_WAIT = 5.0
"""Seconds without a request after an answer of an overloaded server, if it does not ask for more."""

MOST_REPEATS, REPEAT_SECONDS = 6, 300.0
MOST_CYCLES = 12


class _Throttled(NamedTuple):
    """A process was asked to wait; `under_way` are its requests that it could not take back any more."""

    since: float
    until: float
    under_way: frozenset[str]


class Sender(Protocol):
    """What the monitor has to know of a process that sends a request."""

    name: str

    def deposed_for(self) -> float | None:
        """Return for how many seconds another process has held the lease, None if none has."""
        ...

    def resumed_for(self) -> float:
        """Return for how many seconds it has run since it was stopped last."""
        ...

    def plan_age(self, move: Move) -> float | None:
        """Return how old the plan of a step is that begins with this move, None if the step has begun before."""
        ...

    def stale_for(self) -> float:
        """Return for how many seconds one of its watches has been silent."""
        ...

    def is_required(self, move: Move) -> bool:
        """Return whether a step that has begun is none without this move: it is sent whatever happens."""
        ...

    def moves(self) -> Sequence[Move]:
        """Return the moves that it knows: what it stores must have those in flight."""
        ...

    def under_way(self) -> frozenset[str]:
        """Return the UIDs of the pods whose evictions it has requested without an answer yet."""
        ...


class Monitor:
    """Follows one run. `breaches` are sentences; an honest controller has none."""

    def __init__(self, state: ClusterState, hub: Hub, policy: Policy) -> None:
        self._state, self._hub, self._policy = state, hub, policy
        self.breaches: list[str] = []
        self.begun: list[tuple[float, str]] = []
        self.paused_at: float | None = None
        self.observing_since: float | None = None
        self.last: Move | None = None
        """The last eviction that was requested."""
        self.records = Records(state, hub, self.breach)
        self._available: dict[str, deque[tuple[float, int]]] = {}
        self._requests: dict[tuple[str, str], deque[float]] = {}
        self._throttled: dict[str, _Throttled] = {}
        self._waiting: dict[str, dict[str, int]] = {}
        state.store.pods.listeners.append(self._pod_changed)
        state.store.workloads.listeners.append(self._workload_changed)
        for top in self.tops():
            self._count(top)

    def breach(self, sentence: str) -> None:
        """Record that a promise was broken."""
        self.breaches.append(f"{self._hub.seconds:.2f}s: {sentence}")

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        owner = self._state.store.workloads.get(pod.owner.uid) if pod is not None and pod.owner is not None else None
        if owner is not None:
            self._workload_changed(None, owner)

    def _workload_changed(self, _: Workload | None, after: Workload | None) -> None:
        top = self._state.store.workloads.get(after.owner.uid) if after is not None and after.owner else after
        if top is not None:
            self._count(top)

    def _count(self, top: Workload) -> None:
        """Note by how many the Ready pods of a workload exceed its replicas, whenever that changes.

        Pods of a node that was deleted a moment ago are Ready until they are collected, as in a real cluster.
        """
        pods = self._state.store.pods
        ready = sum(pod.ready and not pod.terminating for owner in self._owners(top) for pod in pods.of(owner))
        history = self._available.setdefault(top.uid, deque(maxlen=200))
        surplus = ready - top.replicas
        if not history or history[-1][1] != surplus:
            history.append((self._hub.seconds, surplus))

    def tops(self) -> list[Workload]:
        """Return the workloads that have no owner."""
        return [workload for workload in self._state.store.workloads if workload.owner is None]

    def _owners(self, top: Workload) -> list[str]:
        owned = [item.uid for item in self._state.store.workloads if item.owner and item.owner.uid == top.uid]
        return [top.uid, *owned]

    # Requests

    def begins(self, sender: Sender, move: Move) -> None:
        """Check a request at the moment at which it leaves its process."""
        now, who = self._hub.seconds, sender.name
        self.begun.append((now, who))
        self.last = move
        self._check_repeats(who, move)
        if move.uid not in {known.uid for known in self.records.stored.in_flight}:
            self.breach(f"{who} evicts {move.pod}, which the stored memory does not know")
        undecided = self.records.find_undecided(move)
        if undecided is not None:
            self.breach(f"{who} evicts {move.pod} while the eviction of {undecided.pod} may still be carried out")
        if self._policy.mode is Mode.APPROVE and not self.records.is_approved(move):
            self.breach(f"{who} evicts {move.pod}, which nobody has approved")
        if sender.stale_for() > SILENT_LIMIT and not sender.is_required(move):
            self.breach(f"{who} evicts {move.pod} on a view that is {sender.stale_for():.0f}s old")
        if sender.resumed_for() < CHECK_TO_SEND:
            return  # it was stopped between its checks and the request: that one comes late, whatever it does
        self._check_throttled(sender, move)
        age = sender.plan_age(move)
        if age is not None and age > PLAN_LIMIT:
            self.breach(f"{who} begins a step with {move.pod} on a plan that is {age:.0f}s old")
        self._check_permission(sender, f"evicts {move.pod}")

    def writes(self, sender: Sender, what: str) -> None:
        """Check a write of a surge at the moment at which it leaves its process."""
        if sender.stale_for() > SILENT_LIMIT:
            self.breach(f"{sender.name} {what} on a view that is {sender.stale_for():.0f}s old")
        if sender.resumed_for() >= CHECK_TO_SEND:
            self._check_permission(sender, what)

    def _check_permission(self, sender: Sender, what: str) -> None:
        """Neither a pause nor mode Observe holds it back, and nobody else leads."""
        now, who = self._hub.seconds, sender.name
        if self.paused_at is not None and now - self.paused_at > PAUSE_LIMIT:
            self.breach(f"{who} {what} {now - self.paused_at:.1f}s after a pause was stored")
        if self.observing_since is not None and now - self.observing_since > OBSERVE_LIMIT:
            self.breach(f"{who} {what} {now - self.observing_since:.1f}s after the mode became Observe")
        deposed = sender.deposed_for()
        if deposed is not None and deposed > CHECK_TO_SEND:
            self.breach(f"{who} {what} {deposed:.1f}s after another process took the lease")

    def _check_repeats(self, who: str, move: Move) -> None:
        """Nothing is requested again and again that is refused each time."""
        now = self._hub.seconds
        requests = self._requests.setdefault((who, move.uid), deque(maxlen=MOST_REPEATS))
        if len(requests) == MOST_REPEATS and now - requests[0] < REPEAT_SECONDS:
            self.breach(f"{who} requests the eviction of {move.pod} {MOST_REPEATS + 1} times in {REPEAT_SECONDS:.0f}s")
        requests.append(now)

    def throttles(self, sender: Sender, seconds: float) -> None:
        """Note that the server has asked a process to wait."""
        now = self._hub.seconds
        until = now + max(THROTTLE_WAIT, seconds)
        self._throttled[sender.name] = _Throttled(now, until, sender.under_way())

    def _check_throttled(self, sender: Sender, move: Move) -> None:
        """After it was asked to wait, a process sends only what was under way then, and what a step requires.

        However its clock is set meanwhile: it waits by the one that only increases.
        """
        now, throttled = self._hub.seconds, self._throttled.get(sender.name)
        if throttled is None or now >= throttled.until or move.uid in throttled.under_way or sender.is_required(move):
            return
        self.breach(f"{sender.name} evicts {move.pod} {now - throttled.since:.1f}s after the server asked it to wait")

    def admits(self, who: str, cycle: int, groups: Iterable[str], requested: Iterable[str]) -> None:
        """Check that whatever is admitted has its turn; called once a cycle with the requests since the last one."""
        served = set(requested)
        waiting = self._waiting.setdefault(who, {})
        for group in list(waiting):
            if group in served or group not in groups:
                del waiting[group]
        for group in groups:
            waiting.setdefault(group, cycle)
            if cycle - waiting[group] >= MOST_CYCLES:
                self.breach(f"{who} admits evictions for {group} in {MOST_CYCLES} cycles and requests none")
                waiting[group] = cycle

    def arrives(self, sender: Sender, move: Move) -> None:
        """Check a request as the API server gets it: enough pods were available at some time since its last check."""
        pod = self._state.store.pods.get(move.uid)
        top = next((item for item in self.tops() if reference_of(item) == move.workload), None)
        if pod is None or top is None or pod.terminating or not pod.ready or sender.is_required(move):
            return
        if sender.resumed_for() < REQUEST_SECONDS:
            return  # it was stopped after its last check
        allowed = self._policy.budgets.max_unavailable.resolve(top.replicas)
        missing = -self._greatest_surplus(top.uid)
        if missing + 1 > allowed:
            self.breach(f"{sender.name} evicts {move.pod}: {missing} of {top.replicas} are not Ready")

    def _greatest_surplus(self, uid: str) -> int:
        """Return how many more pods than wanted were Ready at best within the time in which the sender has read it."""
        since = self._hub.seconds - REQUEST_SECONDS
        history = self._available[uid]
        within = [surplus for moment, surplus in history if moment >= since]
        before = [surplus for moment, surplus in history if moment < since]
        return max([*within, *before[-1:]])
