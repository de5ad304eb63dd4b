"""One replica of the controller: its own code, with its threads as tasks of the world."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import NamedTuple

from rebalancer.controller.election import Election
from rebalancer.controller.elector import Elector
from rebalancer.controller.prevention import PreventionWorker
from rebalancer.controller.runner import Identity, Runner
from rebalancer.controller.state import (
    ApprovalRead,
    Clocks,
    InForce,
    LoopEvent,
    LoopState,
    PauseRead,
    PolicyLoaded,
    Stopping,
)
from rebalancer.controller.surge import EVERY, SurgeWorker
from rebalancer.controller.takeover import find_remaining
from rebalancer.documents.memory import parse_memory
from rebalancer.model.moves import Move
from rebalancer.policy import Policy
from rebalancer.ports import MEMORY_KEY
from tests.controller.simulated import Watching
from tests.world.hub import Hub, HubLock, Task
from tests.world.monitor import Monitor
from tests.world.port import Api, Port
from tests.world.view import View

LEASE_SECONDS, DEADLINE, RETRY = 15.0, 10.0, 2.5
STOP_SECONDS = 5.0
"""How long a request that is under way may still take once a process is to end, as `controller.process` has it."""


class Requested(NamedTuple):
    """A request when it was begun: when its step was planned, which of the step it is, how many the step needs."""

    planned_at: float
    number: int
    needed: int


class Replica:
    """A process with its clocks; `ahead` is the error of its time in seconds, `rate` that of its monotonic clock."""

    def __init__(  # all that a process is made of
        self,
        name: str,
        *,
        api: Api,
        hub: Hub,
        monitor: Monitor,
        policy: Policy,
        random: Random,
        state: object,
        ahead: float = 0.0,
        rate: float = 1.0,
        has_features: bool = False,
    ) -> None:
        self.name, self._api, self._hub, self._monitor = name, api, hub, monitor
        self.policy = policy
        self.ahead, self._rate = ahead, rate
        self.stopped_until = 0.0
        self.alive = True
        self.planned_at = 0.0
        self._requests: dict[str, Requested] = {}
        self._tasks: list[Task] = []
        self.view = View(state, hub, self._changed)  # type: ignore[arg-type]  # the simulator's, which it keeps to itself
        self.port = Port(name, api, hub, self.view, monitor, random)
        clocks = Clocks(now=self._now, monotonic=self._monotonic)
        election = Election(identity=name, duration=LEASE_SECONDS, deadline=DEADLINE)
        self.elector: Elector
        self.runner = WorldRunner(
            self._wake,
            state=LoopState(in_force=InForce(policy=policy, policy_since=self._now())),
            cluster=self.port,
            clocks=clocks,
            observer=Watching(),
            may_act=self._may_act,
            identity=Identity(name=name, policy_source="world"),
            spawn=self._spawn_request,
            cycle_ended=self._cycle_ended,
            placeholders=self.port if has_features else None,
            holds_lease=self._holds_lease,
        )
        self.runner._sender._kill_switch._reading = HubLock(hub)  # type: ignore[assignment]  # between tasks here
        self.elector = Elector(
            lease=self.port,
            election=election,
            retry=RETRY,
            clocks=clocks,
            load_memory=lambda: parse_memory(self.port.load(MEMORY_KEY)),
            tell=self._tell,
            find_remaining=lambda memory: find_remaining(self.port, memory, self._monotonic),
        )
        self.port.sender = self
        self._prevention = self._prevent(clocks) if has_features else None
        self._surges = self._surge(clocks) if api.has_surges else None
        self._idle: Task | None = None
        self._renewing = False
        self._spawn(self._loop)
        self._lease_task = self._spawn(self._lease)
        self._spawn(self._interval)
        if self._surges is not None:
            self._spawn(self._work_on_surges)

    def _prevent(self, clocks: Clocks) -> PreventionWorker:
        prevention = PreventionWorker(
            cluster=self.port,
            clocks=clocks,
            get_state=lambda: self.runner.state,
            may_act=self._may_act,
            tell=self.runner.tell,
        )
        prevention._kill_switch._reading = HubLock(self._hub)  # type: ignore[assignment]  # between tasks here
        self._working = False
        return prevention

    def _surge(self, clocks: Clocks) -> SurgeWorker:
        surges = SurgeWorker(
            cluster=self.port,
            clocks=clocks,
            get_state=lambda: self.runner.state,
            may_act=self._may_act,
            tell=self.runner.tell,
        )
        surges._kill_switch._reading = HubLock(self._hub)  # type: ignore[assignment]  # between tasks here
        return surges

    def _work_on_surges(self) -> None:
        assert self._surges is not None
        while True:
            self._hub.sleep(EVERY)
            try:
                self._surges.work()
            except Exception as error:  # noqa: BLE001  # the thread of the process goes on too, and this one is reported
                self._monitor.breach(f"{self.name}: the worker of surges raised {type(error).__name__}: {error}")

    def _cycle_ended(self) -> None:
        if self._prevention is not None:
            self._prevention.cycle_ended()
            if not self._working:
                self._working = True
                self._spawn(self._work)

    def _work(self) -> None:
        """Send the patches that follow from the last cycle, and from those that end in the meantime."""
        prevention = self._prevention
        assert prevention is not None
        while prevention._wake.is_set():
            prevention._wake.clear()
            prevention.work(self._wait_for_patch)
        self._working = False

    def _wait_for_patch(self, seconds: float) -> bool:
        assert self._prevention is not None
        self._hub.sleep(seconds)
        return not self._prevention._wake.is_set()

    # Clocks

    def _now(self) -> datetime:
        return self._api.cluster.now + timedelta(seconds=self.ahead)

    def _monotonic(self) -> float:
        return self._hub.seconds * self._rate

    def _may_act(self, term: int) -> bool:
        return self.elector.leads_in(term)

    def _holds_lease(self, term: int) -> bool:
        return self.elector.confirms(term)

    def _ready_at(self) -> float:
        return self.stopped_until

    def deposed_for(self) -> float | None:
        """Return for how long another process has held the lease when this one acts, None if it has not."""
        record = self._api.lease.read()
        if record is None or record.holder in {"", self.name} or record.acquired is None:
            return None
        return (self._api.cluster.now - record.acquired).total_seconds()

    def resumed_for(self) -> float:
        """Return for how many seconds it has run since it was stopped last."""
        return self._hub.seconds - self.stopped_until

    def moves(self) -> Sequence[Move]:
        """Return the moves that it knows."""
        return self.runner.state.memory.moves

    def under_way(self) -> frozenset[str]:
        """Return the UIDs of the pods whose evictions it has requested without an answer yet."""
        return frozenset(request.uid for request in self.runner.state.queue.under_way)

    def plan_age(self, move: Move) -> float | None:
        """Return how old the plan of a step is that begins with this move, None if the step has begun before."""
        requested = self._requests.get(move.uid)
        return None if requested is None or requested.number != 1 else self._hub.seconds - requested.planned_at

    def note_requests(self, state: LoopState) -> None:
        """Note what has to be known of each request when it begins: a newer plan may be there when it is sent."""
        known = self._requests
        self._requests = {}
        for request in state.queue.under_way:
            if request.uid in known:
                self._requests[request.uid] = known[request.uid]
            elif state.cycle is not None:
                needed = next((one.needed for one in state.cycle.plan.fates.going if one.pod.uid == request.uid), 1)
                self._requests[request.uid] = Requested(self.planned_at, state.queue.sent.get(request.group, 0), needed)

    def is_required(self, move: Move) -> bool:
        """Return whether a step that has begun is none without this move."""
        requested = self._requests.get(move.uid)
        return requested is not None and 1 < requested.number <= requested.needed

    def stale_for(self) -> float:
        """Return for how many seconds one of its watches has been silent."""
        return self.view.silent_for

    # Threads

    def _spawn(self, work: Callable[[], None]) -> Task:
        self._tasks = [task for task in self._tasks if not task.over]
        self._tasks.append(self._hub.start(work, self._ready_at))
        return self._tasks[-1]

    def _spawn_request(self, work: Callable[[], None]) -> None:
        self._spawn(work)

    def _loop(self) -> None:
        while True:
            try:
                self.runner.drain()
            except Exception as error:  # noqa: BLE001  # the loop of the process goes on too, and this one is reported
                self._monitor.breach(f"{self.name}: the loop raised {type(error).__name__}: {error}")
            wait = self.runner.time_to_cycle()
            self._idle = self._hub.task
            if wait is not None:
                self._hub.after(wait / self._rate, self._due)
            self._hub.task.wait()

    def _due(self) -> None:
        wait = self.runner.time_to_cycle()
        if self.alive and self._idle is not None and wait is not None and wait <= 1e-6:
            self.runner.ask_cycle()

    def _wake(self) -> None:
        idle, self._idle = self._idle, None
        if idle is not None:
            self._hub.after(0, idle.resume)

    def _lease(self) -> None:
        while True:
            self._renewing = True
            wait = self.elector.take_part()
            self._renewing = False
            self._hub.sleep(wait)

    def _interval(self) -> None:
        while True:
            self._hub.sleep(self.policy.interval.total_seconds())
            self.runner.ask_cycle()

    def _changed(self, before: object, after: object) -> None:
        self.runner.observe(before, after)

    def _tell(self, event: LoopEvent) -> None:
        self.runner.tell(event)
        self.runner.ask_cycle()

    # What comes from outside

    def hear_pause(self) -> None:
        """Let the watch of the control object deliver its present state."""
        if self.alive:
            self._tell(PauseRead(pause=self._api.pause))

    def hear_approval(self) -> None:
        """Let the watch of the approvals deliver their present state."""
        if self.alive:
            self._tell(ApprovalRead(approved=self._api.approved, written=self._api.written))

    def load_policy(self, policy: Policy) -> None:
        """Let the policy's thread read a new policy."""
        if self.alive:
            self.policy = policy
            self._tell(PolicyLoaded(policy=policy))

    def kill(self) -> None:
        """End it at once, wherever its threads are."""
        if not self.alive:
            return
        self.alive = False
        self.view.close()
        for task in self._tasks:
            task.kill()

    def leave(self) -> None:
        """End it in order, as after SIGTERM: what is under way is awaited, and the lease is released."""
        self.runner.tell(Stopping())
        self._spawn(self._end)

    def _end(self) -> None:
        began = self._hub.seconds
        while self.runner.state.busy and self._hub.seconds < began + STOP_SECONDS:
            self._hub.sleep(0.1)
        while self._renewing:
            self._hub.sleep(0.1)
        self._lease_task.kill()
        self.elector.stop(0.0, release=not self.runner.state.busy)
        self.elector._release()
        self._hub.after(0, self.kill)

    def set_clock(self, seconds: float) -> None:
        """Set its clock forward, or back."""
        self.ahead += seconds

    def stop_for(self, seconds: float) -> None:
        """Let none of its threads run for a while; clocks and watches go on."""
        self.stopped_until = max(self.stopped_until, self._hub.seconds + seconds)


class WorldRunner(Runner):
    """A Runner whose loop sleeps until something is in its inbox."""

    def __init__(self, wake: Callable[[], None], **fields: object) -> None:
        self._wake = wake
        super().__init__(**fields)  # type: ignore[arg-type]

    def tell(self, event: LoopEvent) -> None:
        """Put an event into the inbox."""
        super().tell(event)
        self._wake()

    def ask_cycle(self) -> None:
        """Ask for a cycle."""
        super().ask_cycle()
        self._wake()

    def ask_cycle_within(self, seconds: float) -> None:
        """Ask for a cycle soon."""
        super().ask_cycle_within(seconds)
        self._wake()
