"""The promises of the controller, checked at every request against what is really so, not against what it believes."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from rebalancer.adapters.simulator.state import ClusterState
from rebalancer.model.moves import Memory, Move
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.policy import Policy
from rebalancer.reporting.documents.memory import parse_memory
from tests.world.hub import Hub

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

MOST_REPEATS, REPEAT_SECONDS = 6, 300.0
MOST_CYCLES = 12


class _Interval(NamedTuple):
    first: float
    last: float

    def __contains__(self, seconds: object) -> bool:
        return isinstance(seconds, float) and self.first < seconds < self.last


_AFTER_THROTTLE = _Interval(0.3, 0.9)


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


class Monitor:
    """Follows one run. `breaches` are sentences; an honest controller has none."""

    def __init__(self, state: ClusterState, hub: Hub, policy: Policy) -> None:
        self._state, self._hub, self._policy = state, hub, policy
        self.breaches: list[str] = []
        self.begun: list[tuple[float, str]] = []
        self.granted: list[tuple[float, Move]] = []
        self.paused_at: float | None = None
        self.observing_since: float | None = None
        self.stored = Memory()
        self._available: dict[str, deque[tuple[float, int]]] = {}
        self._ours: set[str] = set()
        self._requests: dict[tuple[str, str], deque[float]] = {}
        self._throttled: dict[str, float] = {}
        self._waiting: dict[str, dict[str, int]] = {}
        for table in (state.store.pods, state.store.workloads):
            table.listeners.append(lambda _before, _after: self._count())
        self._count()

    def breach(self, sentence: str) -> None:
        """Record that a promise was broken."""
        self.breaches.append(f"{self._hub.seconds:.2f}s: {sentence}")

    def _count(self) -> None:
        """Note by how many the Ready pods of each workload exceed its replicas, whenever that changes.

        Pods of a node that was deleted a moment ago are Ready until they are collected, as in a real cluster.
        """
        now = self._hub.seconds
        for top in self.tops():
            ready = sum(
                pod.ready and not pod.terminating
                for owner in self._owners(top)
                for pod in self._state.store.pods.of(owner)
            )
            history = self._available.setdefault(top.uid, deque(maxlen=200))
            surplus = ready - top.replicas
            if not history or history[-1][1] != surplus:
                history.append((now, surplus))

    def tops(self) -> Iterable[Workload]:
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
        self._check_repeats(who, move)
        if move.uid not in {known.uid for known in self.stored.in_flight}:
            self.breach(f"{who} evicts {move.pod}, which the stored memory does not know")
        if sender.stale_for() > SILENT_LIMIT and not sender.is_required(move):
            self.breach(f"{who} evicts {move.pod} on a view that is {sender.stale_for():.0f}s old")
        if now - self._throttled.get(who, -9.0) in _AFTER_THROTTLE:
            self.breach(f"{who} evicts {move.pod} although the server asked it to wait")
        if sender.resumed_for() < CHECK_TO_SEND:
            return  # it was stopped between its checks and the request: that one comes late, whatever it does
        age = sender.plan_age(move)
        if age is not None and age > PLAN_LIMIT:
            self.breach(f"{who} begins a step with {move.pod} on a plan that is {age:.0f}s old")
        if self.paused_at is not None and now - self.paused_at > PAUSE_LIMIT:
            self.breach(f"{who} evicts {move.pod} {now - self.paused_at:.1f}s after a pause was stored")
        if self.observing_since is not None and now - self.observing_since > OBSERVE_LIMIT:
            self.breach(f"{who} evicts {move.pod} {now - self.observing_since:.1f}s after the mode became Observe")
        deposed = sender.deposed_for()
        if deposed is not None and deposed > CHECK_TO_SEND:
            self.breach(f"{who} evicts {move.pod} {deposed:.1f}s after another process took the lease")

    def _check_repeats(self, who: str, move: Move) -> None:
        """Nothing is requested again and again that is refused each time."""
        now = self._hub.seconds
        requests = self._requests.setdefault((who, move.uid), deque(maxlen=MOST_REPEATS))
        if len(requests) == MOST_REPEATS and now - requests[0] < REPEAT_SECONDS:
            self.breach(f"{who} requests the eviction of {move.pod} {MOST_REPEATS + 1} times in {REPEAT_SECONDS:.0f}s")
        requests.append(now)

    def throttles(self, who: str) -> None:
        """Note that the server has asked a process to wait."""
        self._throttled[who] = self._hub.seconds

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

    def loses(self, who: str, move: Move) -> None:
        """Check that a move is only called lost if its owner lacks a Ready pod."""
        owner = self._state.store.workloads.get(move.owner_uid)
        pods = self._state.store.pods.of(move.owner_uid)
        if owner is not None and sum(pod.ready and not pod.terminating for pod in pods) >= owner.replicas:
            self.breach(f"{who} takes the replacement of {move.pod} for lost, and {owner} has all its pods")

    def arrives(self, sender: Sender, move: Move) -> None:
        """Check a request as the API server gets it: enough pods were available at some time since its last check."""
        pod = self._state.store.pods.get(move.uid)
        top = next((item for item in self.tops() if reference_of(item) == move.workload), None)
        if pod is None or top is None or pod.terminating or not pod.ready or sender.is_required(move):
            return
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

    def is_granted(self, move: Move) -> None:
        """Note an eviction that took place."""
        if move.uid in self._ours:
            self.breach(f"{move.pod} was evicted twice")
        self._ours.add(move.uid)
        self.granted.append((self._hub.seconds, move))

    def saves(self, who: str, text: str, *, holds_lease: bool) -> None:
        """Check what is stored: a move that is in flight may only vanish with its end."""
        memory = parse_memory(text)
        known = {move.uid for move in memory.moves}
        lost = [
            move.pod
            for move in self.stored.in_flight
            if move.uid not in known and move.uid in self._ours and self._is_open(move)
        ]
        if lost:
            holder = "holds" if holds_lease else "does not hold"
            self.breach(f"{who}, which {holder} the lease, stores a memory without the moves of {', '.join(lost)}")
        self.stored = memory

    def _is_open(self, move: Move) -> bool:
        pod = self._state.store.pods.get(move.uid)
        return pod is not None and pod.terminating
