"""Plays changes of a simulated cluster with the controller's loop until nothing is left to do, and records the events.

The loop runs as in a cluster: at its interval, early after changes that call for it, and with every waiting time of the
policy. Only what would prevent all action is left out: the mode is Evict, and no window is closed.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from rebalancer.account.numbers import plan_numbers
from rebalancer.controller.cycle import Cycle
from rebalancer.controller.state import LoopState
from rebalancer.controller.surge import EVERY
from rebalancer.model.events import EventReason
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Reference
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.workloads import Workload, reference_of
from rebalancer.policy import CapacityMode, Mode, Policy, ScaleDownPrevention
from rebalancer.scheduling.profile import DEFAULT_PROFILE, Profile
from rebalancer.simulator import SimulatedCluster, TraceKind
from rebalancer.simulator.changes import Change
from rebalancer.simulator.controller import SimulatedController
from rebalancer.surge.record import Ending
from rebalancer.surge.report import NO_SURGES

_UNTOLD: Final = frozenset({TraceKind.EVENT, TraceKind.BUDGET_CHANGED})
"""The kinds that are not recorded: Rebalancer's own Kubernetes events, and numbers that follow from other entries."""

_SURGES: Final = frozenset({EventReason.SURGE_BEGAN, EventReason.SURGE_ENDED})
"""Rebalancer's own events that are recorded nevertheless, because no other entry says what a surge does."""

_LOOK: Final = timedelta(seconds=EVERY)

LASTING: Final = timedelta(seconds=60)
"""After this time without a change nothing moves any more, if all is well; by then pods of lost nodes are gone."""

_PATIENCE: Final = timedelta(hours=1)
"""The same time if something is left to do. By then budgets, back-offs and rates have changed for the last time."""

_LONGEST: Final = timedelta(days=1)
"""The longest duration of a simulation."""


class PlayedEvent(NamedTuple):
    """Something that happened, and when, counted from the start."""

    at: timedelta
    what: str
    object: str
    detail: str


class LowestHeadroom(NamedTuple):
    """The moment at which a limit had the least headroom, in pods; with headroom below 0 it was violated."""

    group: str
    limit: str
    namespace: str
    key: Labels
    headroom: int
    at: timedelta


class LowestReadiness(NamedTuple):
    """The moment at which a workload lacked the most pods, and how many pods were Ready then."""

    workload: Reference
    wanted: int
    ready: int
    at: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class PlayedStep:
    """The consequences of one change, or of the start without a change."""

    change: str
    at: timedelta
    evictions: int
    lower_bound: int
    """The proved minimum of evictions when the first eviction was sent; 0 if the next change came before that."""
    waiting: int
    """How many pods had no node at the end of the step."""
    surged: int
    """How many pods were removed by scale-downs, after the same number had been added."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """A simulation that has ended."""

    took: timedelta
    """When something last moved, counted from the start."""
    settled: bool
    """Whether nothing moved any more."""
    cycles: int
    events: list[PlayedEvent]
    steps: list[PlayedStep]
    headrooms: list[LowestHeadroom]
    readiness: list[LowestReadiness]
    """The lowest readiness of each workload that lacked a pod at some time."""
    most_waiting: int
    most_waiting_at: timedelta
    snapshot: Snapshot
    """The last snapshot."""
    cycle: Cycle
    """The last cycle."""
    repaired: frozenset[Reference]
    """The workloads with pods that were evicted or moved by a surge."""

    @property
    def evictions(self) -> int:
        """How many evictions were granted."""
        return sum(step.evictions for step in self.steps)

    @property
    def surged(self) -> int:
        """How many pods were removed by scale-downs, after the same number had been added."""
        return sum(step.surged for step in self.steps)

    @property
    def lower_bound(self) -> int:
        """The proved minimum of evictions of all steps together."""
        return sum(step.lower_bound for step in self.steps)


def simulated_policy(policy: Policy) -> Policy:
    """Return the policy for the simulation: in mode Evict, without closed windows and requests for capacity."""
    capacity = policy.capacity
    if capacity.mode is CapacityMode.REQUEST:
        capacity = capacity.model_copy(update={"mode": CapacityMode.OBSERVE})
    return policy.model_copy(update={"mode": Mode.EVICT, "windows": (), "capacity": capacity})


def with_prevention(policy: Policy, mode: ScaleDownPrevention) -> Policy:
    """Return the policy with another `prevention.scaleDown`."""
    return policy.model_copy(update={"prevention": policy.prevention.model_copy(update={"scale_down": mode})})


class ImpossibleChangeError(Exception):
    """A change names something that the simulated cluster does not have."""


class Play:
    """Simulates a snapshot: the changes one after the other, and what the loop does after each.

    Equal arguments give equal outcomes. After the time `lasting` without an event, nothing is considered to move any
    more.
    """

    def __init__(
        self,
        first: Snapshot,
        policy: Policy,
        changes: Iterable[Change] = (),
        *,
        seed: int,
        profile: Profile = DEFAULT_PROFILE,
        lasting: timedelta = LASTING,
    ) -> None:
        self.cluster = SimulatedCluster(first, seed=seed, profile=profile)
        self.policy = simulated_policy(policy)
        self._controller = SimulatedController(self.cluster, self.policy, name="simulation", profile=profile)
        self.start = first.taken_at
        self.cycles = 0
        self.repair_began: datetime | None = None
        """When the first eviction was granted, or the first surge began."""
        self.surged = 0
        """How many pods were removed by scale-downs, after the same number had been added."""
        self.over = False
        """Whether the last change has been made, and its step has ended."""
        self._lasting = lasting
        self._observations = _Observations(first, self.start)
        self._next_cycle = self.start
        self._settled = False
        self.left = deque(changes)
        """The changes that have not been made yet."""
        self.steps: list[PlayedStep] = []
        """The steps that have ended."""
        self.change: Change | None = None
        """The change with which the present step began; None if no change began it."""
        self._began = self.start
        self._evicted_before = self._surged_before = 0
        self._surges = NO_SURGES
        self._lower_bound: int | None = None
        self.cluster.listen(self._observe)

    @property
    def state(self) -> LoopState:
        return self._controller.state

    @property
    def evicted(self) -> int:
        """How many evictions were granted."""
        return self._controller.evicted

    @property
    def moved(self) -> int:
        """How many pods were moved, by evictions and by surges."""
        return self.evicted + self.surged

    def run(self) -> Outcome:
        """Play to the end, and return the outcome."""
        for _ in self.advance():
            pass
        return self.outcome()

    def advance(self) -> Iterator[None]:
        """Play to the end; yield after everything that happens.

        A caller that stops iterating can continue later with another call. ImpossibleChangeError if the cluster does
        not allow a change.
        """
        if self._is_first_due():
            self._begin_step()
            yield
        while not self.over:
            if self.cluster.now >= self._next_cycle:
                self._run_cycle()
                yield
            if self._is_step_over():
                self._end_step()
                yield
            else:
                moments = (self._next_cycle, self.cluster.next_due, self._ends(), self._next_look())
                following = min(moment for moment in moments if moment is not None)
                self.cluster.advance((following - self.cluster.now).total_seconds())
                self._look()
                yield

    def _next_look(self) -> datetime | None:
        """Return when the controller next examines its surges; None if no surge is under way."""
        return self.cluster.now + _LOOK if self._surges.under_way else None

    def _look(self) -> None:
        if self._surges.under_way:
            self._controller.go_on()
            self._note_surges()

    def _note_surges(self) -> None:
        """Record the controller's reports on its surges, each report once."""
        report = self.state.reported.surges
        if report is self._surges:
            return
        self._surges = report
        self._observations.surging = {one.surge.uid: one.surge.count for one in report.under_way}
        for surge in report.begun:
            self._observations.repaired.add(surge.workload)
            self._note_repair()
        self.surged += sum(len(surge.victims) for surge, ending in report.ended if ending is Ending.DONE)

    def _note_repair(self) -> None:
        """Note that a repair has begun, by an eviction or a surge."""
        cycle = self.state.cycle
        assert cycle is not None
        if self._lower_bound is None:
            self._lower_bound = plan_numbers(cycle.plan).lower_bound
        if self.repair_began is None:
            self.repair_began = self.cluster.now

    def outcome(self) -> Outcome:
        """Return everything that has happened, after the play is over."""
        cycle = self.state.cycle
        assert cycle is not None
        seen = self._observations
        return Outcome(
            took=(seen.changed_at if self._settled else self.cluster.now) - self.start,
            settled=self._settled,
            cycles=self.cycles,
            events=list(self._list_events()),
            steps=self.steps,
            headrooms=[seen.headrooms[key] for key in sorted(seen.headrooms, key=str)],
            readiness=[seen.fewest[uid] for uid in sorted(seen.fewest, key=lambda uid: seen.fewest[uid].workload)],
            most_waiting=seen.most_waiting,
            most_waiting_at=seen.most_waiting_at,
            snapshot=self.cluster.snapshot(self.cluster.now),
            cycle=cycle,
            repaired=frozenset(seen.repaired),
        )

    def _list_events(self) -> Iterator[PlayedEvent]:
        for entry in self.cluster.trace:
            reason, _, note = entry.detail.partition(": ")
            if entry.kind not in _UNTOLD:
                yield PlayedEvent(entry.at - self.start, entry.kind, entry.object, entry.detail)
            elif reason in _SURGES:
                yield PlayedEvent(entry.at - self.start, reason, entry.object, note)

    def _observe(self, before: object, after: object) -> None:
        self._controller.observe(before, after)
        self._hasten()
        if isinstance(before, Pod) or isinstance(after, Pod):
            self._observations.take_pod(before, after, self.cluster.now)  # type: ignore[arg-type]
        elif isinstance(after, Workload):
            self._observations.take_workload(after, self.cluster.now)

    def _hasten(self) -> None:
        """Run the next cycle early if a change calls for it."""
        early = self._controller.time_to_cycle()
        if early is not None:
            self._next_cycle = min(self._next_cycle, self.cluster.now + timedelta(seconds=early))

    def _is_first_due(self) -> bool:
        """Return whether the first change has to be made at the start."""
        return not self.cycles and self.change is None and bool(self.left) and self.left[0].after is None

    def _begin_step(self) -> None:
        self.change = self.left.popleft()
        self._began, self._lower_bound = self.cluster.now, None
        self._evicted_before, self._surged_before = self.evicted, self.surged
        try:
            self.change.apply(self.cluster)
        except ValueError as error:
            raise ImpossibleChangeError(f"{self.change.text}: {error}") from None
        self._controller.read_pause()

    def _end_step(self) -> None:
        self.steps.append(
            PlayedStep(
                change=self.change.text if self.change is not None else "",
                at=self._began - self.start,
                evictions=self.evicted - self._evicted_before,
                lower_bound=self._lower_bound if self._lower_bound is not None and self._settled else 0,
                waiting=self._observations.waiting,
                surged=self.surged - self._surged_before,
            )
        )
        if self.left:
            self._begin_step()
        else:
            self.over = True

    def _run_cycle(self) -> None:
        self._controller.run_cycle()
        self.cycles += 1
        self._next_cycle = self.cluster.now + self.policy.interval
        self._hasten()
        cycle = self.state.cycle
        assert cycle is not None
        self._observations.take_cycle(cycle, self.cluster.now)
        if self.evicted > self._evicted_before:
            self._note_repair()
        self._note_surges()

    def _ends(self) -> datetime | None:
        """Return the time at which the present step ends at the latest; None if it ends when nothing moves any more."""
        if self.change is not None and self.change.wait is not None:
            return self._began + self.change.wait
        if not self.left or self.left[0].after is None:
            return None
        since = self.repair_began if self.left[0].in_repair else self.start
        return since + self.left[0].after if since is not None else None

    def _is_step_over(self) -> bool:
        """Return whether the present step is over, because its time is up or because nothing moves any more."""
        now, ends = self.cluster.now, self._ends()
        self._settled = False
        if ends is not None:
            return now >= ends
        if now - self.start >= _LONGEST:
            return True
        cycle = self.state.cycle
        changed_at = max(self._observations.changed_at, self._began)
        quiet = now - changed_at
        if cycle is None or quiet < self._lasting or self.state.memory.in_flight or self._surges.under_way:
            return False
        is_done = not cycle.plan.components and cycle.context.now > changed_at
        self._settled = is_done or quiet >= max(_PATIENCE, 2 * self._waiting_time())
        return self._settled

    def _waiting_time(self) -> timedelta:
        """Return the longest time that the policy waits before it acts."""
        return self.policy.spread.for_ + self.policy.nodes.settle + self.policy.eligibility.min_age


class _Observations:
    """The worst moments so far: pods and workloads are observed at every change, limits at every cycle."""

    def __init__(self, first: Snapshot, start: datetime) -> None:
        self._start = start
        self.changed_at = start
        """When a pod, or a workload's wanted number of pods, last changed."""
        self.waiting = 0
        self.most_waiting = 0
        self.most_waiting_at = timedelta(0)
        self.headrooms: dict[object, LowestHeadroom] = {}
        self.fewest: dict[str, LowestReadiness] = {}
        self.repaired = set[Reference]()
        self.surging: Mapping[str, int] = {}
        """The number of pods of each workload with a surge, by UID, without the pods that the surge adds."""
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
        """Record a change of a pod."""
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
        """Record a change of a workload's wanted number of pods."""
        if self._top.get(workload.uid, workload).uid == workload.uid and workload.uid in self._wanted:
            if self._wanted[workload.uid] != workload.replicas:
                self.changed_at = now
            self._wanted[workload.uid] = workload.replicas

    def take_cycle(self, cycle: Cycle, now: datetime) -> None:
        """Record the limits as the controller evaluated them, and the evictions that it requested."""
        self.repaired.update(eviction.workload for eviction in cycle.fates.going)
        for limit in cycle.assessment.limits:
            key = limit.group, limit.limit, limit.namespace, limit.key
            known = self.headrooms.get(key)
            if known is None or limit.headroom < known.headroom:
                self.headrooms[key] = LowestHeadroom(*key, limit.headroom, now - self._start)

    def _count(self, pod: Pod, number: int) -> None:
        self.waiting += number * (pod.waiting and not pod.terminating)
        top = self._top.get(pod.owner.uid) if pod.owner is not None else None
        if top is not None and pod.ready and not pod.terminating:
            self._ready[top.uid] = self._ready.get(top.uid, 0) + number

    def _compare(self, top: Workload, now: datetime) -> None:
        wanted, ready = self._wanted[top.uid], self._ready.get(top.uid, 0)
        wanted = min(wanted, self.surging.get(top.uid, wanted))
        known = self.fewest.get(top.uid)
        if ready < wanted and (known is None or wanted - ready > known.wanted - known.ready):
            self.fewest[top.uid] = LowestReadiness(reference_of(top), wanted, ready, now - self._start)
