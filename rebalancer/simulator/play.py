"""Plays changes of a simulated cluster with the controller's loop, until nothing is left to do, and records it.

The loop runs as in a cluster: at its interval, early after changes that call for it, with every waiting time of the
policy. Only what could keep it from acting at all is left out: the mode is Evict, and no window is closed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from rebalancer.controller.cycle import Cycle
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.policy import CapacityMode, Mode, Policy
from rebalancer.reporting.plan_numbers import plan_numbers
from rebalancer.scheduling.profile import Profile
from rebalancer.simulator import SimulatedCluster, TraceKind
from rebalancer.simulator.changes import Change
from rebalancer.simulator.controller import SimulatedController

_UNTOLD: Final = frozenset({TraceKind.EVENT, TraceKind.BUDGET_CHANGED})
"""Not among the events: our own Kubernetes events, and numbers that follow from the others."""

_LASTING: Final = timedelta(seconds=60)
"""Nothing moves any more once all is well and nothing has happened for so long: pods of lost nodes are gone."""

_PATIENCE: Final = timedelta(hours=1)
"""The same where something is left to do: budgets, back-offs and rates have changed by then what they ever will."""

LONGEST: Final = timedelta(days=1)
"""So long a simulation may take."""


class SimulatedEvent(NamedTuple):
    """Something that happened, so long after the start."""

    at: timedelta
    what: str
    object: str
    detail: str


class LeastHeadroom(NamedTuple):
    """When a limit had the least headroom, in pods; below 0 it was violated."""

    group: str
    limit: str
    namespace: str
    key: Labels
    headroom: int
    at: timedelta


class FewestReady(NamedTuple):
    """When a workload lacked most of its pods: how many were Ready."""

    workload: Reference
    wanted: int
    ready: int
    at: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What followed from one change, or from none.

    `lower_bound` is how many evictions were proved to be needed when the first of them was sent, and 0 if the next
    change came before all was done. `waiting` is how many pods had no node at its end.
    """

    change: str
    at: timedelta
    evictions: int
    lower_bound: int
    waiting: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """A simulation that has ended: `snapshot` and `cycle` are the last ones.

    `settled`: nothing moved any more; `took` is when something moved last.
    """

    took: timedelta
    settled: bool
    cycles: int
    events: list[SimulatedEvent]
    steps: list[Step]
    headrooms: list[LeastHeadroom]
    readiness: list[FewestReady]
    """Of the workloads that lacked a pod at some time."""
    most_waiting: int
    most_waiting_at: timedelta
    snapshot: Snapshot
    cycle: Cycle

    @property
    def evictions(self) -> int:
        """How many evictions were granted."""
        return sum(step.evictions for step in self.steps)

    @property
    def lower_bound(self) -> int:
        """How many evictions were needed at least."""
        return sum(step.lower_bound for step in self.steps)


def simulated_policy(policy: Policy) -> Policy:
    """Return the policy as it is simulated: in mode Evict, with no window closed, and without an autoscaler."""
    capacity = policy.capacity
    if capacity.mode is CapacityMode.REQUEST:
        capacity = capacity.model_copy(update={"mode": CapacityMode.OBSERVE})
    return policy.model_copy(update={"mode": Mode.EVICT, "windows": (), "capacity": capacity})


class ImpossibleChangeError(Exception):
    """A change names what the simulated cluster does not have."""


class Play:
    """A simulation of a snapshot. Equal arguments give equal outcomes."""

    def __init__(self, first: Snapshot, policy: Policy, *, seed: int, profile: Profile) -> None:
        self._cluster = SimulatedCluster(first, seed=seed, profile=profile)
        self._policy = simulated_policy(policy)
        self._controller = SimulatedController(self._cluster, self._policy, name="simulation", profile=profile)
        self._start = first.taken_at
        self._observations = _Observations(first, self._start)
        self._cycles = 0
        self._next_cycle = self._start
        self._settled = False
        self._cluster.listen(self._observe)

    def run(self, changes: Iterable[Change]) -> Outcome:
        """Make the changes one after the other, and let the loop do what is to be done after each."""
        steps = [self._play(change) for change in (*changes,)] or [self._play(None)]
        cycle = self._controller.state.cycle
        assert cycle is not None
        snapshot = self._cluster.snapshot(self._cluster.now)
        seen = self._observations
        return Outcome(
            took=(seen.changed_at if self._settled else self._cluster.now) - self._start,
            settled=self._settled,
            cycles=self._cycles,
            events=list(self._list_events()),
            steps=steps,
            headrooms=[seen.headrooms[key] for key in sorted(seen.headrooms, key=str)],
            readiness=[seen.fewest[uid] for uid in sorted(seen.fewest, key=lambda uid: seen.fewest[uid].workload)],
            most_waiting=seen.most_waiting,
            most_waiting_at=seen.most_waiting_at,
            snapshot=snapshot,
            cycle=cycle,
        )

    def _elapsed(self) -> timedelta:
        return self._cluster.now - self._start

    def _list_events(self) -> Iterator[SimulatedEvent]:
        for entry in self._cluster.trace:
            if entry.kind not in _UNTOLD:
                yield SimulatedEvent(entry.at - self._start, entry.kind, entry.object, entry.detail)

    def _observe(self, before: object, after: object) -> None:
        self._controller.observe(before, after)
        if isinstance(before, Pod) or isinstance(after, Pod):
            self._observations.take_pod(before, after, self._cluster.now)  # type: ignore[arg-type]
        elif isinstance(after, Workload):
            self._observations.take_workload(after, self._cluster.now)

    def _play(self, change: Change | None) -> Step:
        began, evicted = self._cluster.now, self._controller.evicted
        if change is not None:
            try:
                change.apply(self._cluster)
            except ValueError as error:
                raise ImpossibleChangeError(f"{change.text}: {error}") from None
        lower_bound: int | None = None
        ends = began + change.wait if change is not None and change.wait is not None else None
        while True:
            if self._cluster.now >= self._next_cycle:
                self._run_cycle()
                if lower_bound is None and self._controller.evicted > evicted:
                    cycle = self._controller.state.cycle
                    assert cycle is not None
                    lower_bound = plan_numbers(cycle.plan).lower_bound
            if self._is_over(began, ends):
                break
            self._advance(ends)
        return Step(
            change=change.text if change is not None else "",
            at=began - self._start,
            evictions=self._controller.evicted - evicted,
            lower_bound=lower_bound if lower_bound is not None and self._settled else 0,
            waiting=self._observations.waiting,
        )

    def _run_cycle(self) -> None:
        self._controller.run_cycle()
        self._cycles += 1
        self._next_cycle = self._cluster.now + self._policy.interval
        cycle = self._controller.state.cycle
        assert cycle is not None
        self._observations.take_cycle(cycle, self._cluster.now)

    def _advance(self, ends: datetime | None) -> None:
        """Go on to what comes first: the next action in the cluster, the next cycle, the end of the step."""
        early = self._controller.time_to_cycle()
        if early is not None:
            self._next_cycle = min(self._next_cycle, self._cluster.now + timedelta(seconds=early))
        moments = (self._next_cycle, self._cluster.next_due, ends)
        following = min(moment for moment in moments if moment is not None)
        self._cluster.advance((following - self._cluster.now).total_seconds())

    def _is_over(self, began: datetime, ends: datetime | None) -> bool:
        """Return whether the step is over: its time is up, or nothing moves any more."""
        now = self._cluster.now
        self._settled = False
        if ends is not None:
            return now >= ends
        if self._elapsed() >= LONGEST:
            return True
        cycle = self._controller.state.cycle
        changed_at = max(self._observations.changed_at, began)
        quiet = now - changed_at
        if cycle is None or quiet < _LASTING or self._controller.state.memory.in_flight:
            return False
        is_done = not cycle.plan.groups and cycle.context.now > changed_at
        self._settled = is_done or quiet >= max(_PATIENCE, 2 * self._waiting_time())
        return self._settled

    def _waiting_time(self) -> timedelta:
        """Return how long the policy waits at most before it acts."""
        return self._policy.spread.for_ + self._policy.nodes.settle + self._policy.eligibility.min_age


class _Observations:
    """What is recorded of the worst moments; of pods and workloads at every change, of limits at every cycle."""

    def __init__(self, first: Snapshot, start: datetime) -> None:
        self._start = start
        self.changed_at = start
        """When a pod, or what a workload wants, was changed last."""
        self.waiting = 0
        self.most_waiting = 0
        self.most_waiting_at = timedelta(0)
        self.headrooms: dict[object, LeastHeadroom] = {}
        self.fewest: dict[str, FewestReady] = {}
        self._top: dict[str, Workload] = {}
        self._ready: dict[str, int] = {}
        self._wanted: dict[str, int] = {}
        for workload in first.workloads:
            top = first.workload.get(workload.owner.uid, workload) if workload.owner is not None else workload
            self._top[workload.uid] = top
            self._wanted[top.uid] = top.replicas
        for pod in first.pods:
            self._count(pod, 1)
        self.most_waiting = self.waiting
        for top in {known.uid: known for known in self._top.values()}.values():
            self._compare(top, start)

    def take_pod(self, before: Pod | None, after: Pod | None, now: datetime) -> None:
        """Take a change of a pod."""
        self.changed_at = now
        for pod, number in ((before, -1), (after, 1)):
            if pod is not None:
                self._count(pod, number)
        if self.waiting > self.most_waiting:
            self.most_waiting, self.most_waiting_at = self.waiting, now - self._start
        pod = after or before
        top = self._top.get(pod.owner.uid) if pod is not None and pod.owner is not None else None
        if top is not None:
            self._compare(top, now)

    def take_workload(self, workload: Workload, now: datetime) -> None:
        """Take a change of what a workload wants."""
        if self._top.get(workload.uid, workload).uid == workload.uid and workload.uid in self._wanted:
            if self._wanted[workload.uid] != workload.replicas:
                self.changed_at = now
            self._wanted[workload.uid] = workload.replicas

    def take_cycle(self, cycle: Cycle, now: datetime) -> None:
        """Take the limits as the controller evaluated them."""
        for limit in cycle.assessment.limits:
            key = limit.group, limit.limit, limit.namespace, limit.key
            known = self.headrooms.get(key)
            if known is None or limit.headroom < known.headroom:
                self.headrooms[key] = LeastHeadroom(*key, limit.headroom, now - self._start)

    def _count(self, pod: Pod, number: int) -> None:
        self.waiting += number * (pod.waiting and not pod.terminating)
        top = self._top.get(pod.owner.uid) if pod.owner is not None else None
        if top is not None and pod.ready and not pod.terminating:
            self._ready[top.uid] = self._ready.get(top.uid, 0) + number

    def _compare(self, top: Workload, now: datetime) -> None:
        wanted, ready = self._wanted[top.uid], self._ready.get(top.uid, 0)
        known = self.fewest.get(top.uid)
        if ready < wanted and (known is None or wanted - ready > known.wanted - known.ready):
            self.fewest[top.uid] = FewestReady(reference_of(top), wanted, ready, now - self._start)
