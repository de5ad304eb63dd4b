"""One run of the world: what a seed draws, and what has become of it."""

import random as global_random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from random import Random

import structlog

from rebalancer.adapters.simulator import HOSTNAME, ZONE, ClusterBuilder, SimulatedCluster, SimulatedLease
from rebalancer.controller.state import LoopState
from rebalancer.model.moves import MoveState
from rebalancer.policy import Amount, Budgets, Policy, Spread
from tests.controller.simulated import eager
from tests.world.disturbances import CLUSTER, NETWORK
from tests.world.hub import Hub
from tests.world.monitor import Monitor
from tests.world.port import Api, Faults
from tests.world.replica import Replica

CHAOS, QUIET = 1500.0, 1500.0
"""Seconds with disturbances, and seconds without in which everything has to come right."""

STUCK = timedelta(minutes=12)


@dataclass
class Result:
    """What has become of a run; `digest` is over everything that happened."""

    seed: int
    breaches: list[str]
    notes: list[str]
    evictions: int
    seconds: float
    digest: str


@dataclass
class World:
    """One run."""

    seed: int
    notes: list[str] = field(default_factory=list)
    planning_seconds: float = 0.0
    lost_zone: str = ""

    def __post_init__(self) -> None:
        """Draw the cluster, the policy and the replicas."""
        self._random = random = Random(self.seed)
        global_random.seed(self.seed)  # the lease's thread draws its jitter from it
        self.cluster = SimulatedCluster(_draw_cluster(random).snapshot(), seed=self.seed)
        self.state = self.cluster._state  # operators and outages change what the simulator stores
        self.namespaces = sorted({pod.namespace for pod in self.state.store.pods})
        self.hub = Hub(self.state.event_queue)
        self.policy = self.in_force = _draw_policy(random)
        self.monitor = Monitor(self.state, self.hub, self.policy)
        self.first_replicas = {top.uid: top.replicas for top in self.monitor.tops()}
        self.api = Api(cluster=self.cluster, lease=SimulatedLease())
        self.replicas: list[Replica] = []
        for _ in range(random.choice([1, 2, 2, 3])):
            self.start_replica()

    @property
    def living(self) -> list[Replica]:
        """The replicas that run."""
        return [replica for replica in self.replicas if replica.alive]

    def note(self, sentence: str) -> None:
        """Record what was done."""
        self.notes.append(f"{self.hub.seconds:.2f}s: {sentence}")

    def start_replica(self) -> None:
        """Start one more replica."""
        random = self._random
        replica = Replica(
            f"replica-{len(self.replicas) + 1}",
            api=self.api,
            hub=self.hub,
            monitor=self.monitor,
            policy=self.in_force,
            random=Random(random.getrandbits(64)),
            state=self.state,
            ahead=random.choice([0.0, 0.0, -2.0, 1.0, 30.0]),
            rate=random.choice([1.0, 1.0, 1.4]),
        )
        replica.runner._observer = _Slow(self, replica)  # planning takes time here
        self.replicas.append(replica)
        if self.api.pause is not None:
            self.hub.after(0.1, replica.hear_pause)

    def kill(self, replica: Replica) -> None:
        """Kill a replica."""
        replica.kill()

    def tell_pause(self, delay: float) -> None:
        """Let every replica's watch of the control object deliver after so many seconds."""
        for replica in self.living:
            self.hub.after(delay, replica.hear_pause)

    def set_policy(self, policy: Policy) -> None:
        """Change the policy; every replica reads it within a second."""
        self.in_force = policy
        for replica in self.living:
            self.hub.after(self._random.uniform(0, 1), lambda replica=replica: replica.load_policy(policy))  # type: ignore[misc]

    def run(self) -> Result:
        """Disturb it for a while, heal it, and check that it comes right."""
        random = self._random
        moment = random.uniform(30, 200)
        while moment < CHAOS:
            self.hub.after(moment, self._disturb)
            moment += random.expovariate(1 / 40)
        self.cluster.advance(CHAOS)
        self._heal()
        self.cluster.advance(QUIET)
        self._check_end()
        for replica in self.living:
            replica.kill()
        digest = sha256(
            "\n".join([*self.notes, *map(str, self.state.trace), *map(str, self.monitor.begun)]).encode()
        ).hexdigest()[:16]
        return Result(self.seed, self.monitor.breaches, self.notes, len(self.monitor.granted), self.hub.seconds, digest)

    def _disturb(self) -> None:
        if not self.living:
            return
        random = self._random
        if random.random() < 0.5:
            self.note(random.choice(CLUSTER)(self, random))
        if random.random() < 0.7:  # often while what the cluster needs is under way
            self.hub.after(random.uniform(0, 15), self._disturb_network)

    def _disturb_network(self) -> None:
        if self.living:
            self.note(self._random.choice(NETWORK)(self, self._random))

    def _heal(self) -> None:
        self.api.faults = Faults()
        self.planning_seconds = 0.0
        if self.lost_zone:
            self.cluster.nodes.restore_domain(ZONE, self.lost_zone)
            self.lost_zone = ""
        if not self.living:
            self.start_replica()
        self.note("healed")

    def _check_end(self) -> None:
        monitor = self.monitor
        leaders = [replica for replica in self.living if replica.runner.state.leads and replica.elector.leads()]
        if len(leaders) != 1:
            monitor.breach(f"{len(leaders)} replicas lead at the end")
            return
        state = leaders[0].runner.state
        now = self.cluster.now + timedelta(seconds=leaders[0].ahead)
        if state.cycle is None or now - state.cycle.context.now > 3 * self.policy.interval:
            monitor.breach("the leader runs no cycles at the end")
            return
        for move in state.memory.in_flight:
            if now - move.requested_at > STUCK:
                monitor.breach(f"the move of {move.pod} has been {move.state} since {now - move.requested_at}")
        if state.cycle.admission.evictions and state.turn > 5 and not state.under_way:
            recent = [moment for moment, _ in monitor.begun if moment > self.hub.seconds - 300]
            if not recent:
                monitor.breach("evictions are admitted and none is requested")
        waiting = [pod.name for pod in self.state.store.pods if pod.waiting]
        if waiting and not state.cycle.assessment.deadlocks and not state.cycle.plan.groups:
            monitor.breach(f"pods wait at the end, and nothing is planned for them: {', '.join(waiting)}")
        if any(move.state is MoveState.LOST for move in state.memory.moves) and not self.notes:
            monitor.breach("a move was lost without a disturbance")


class _Slow:
    """An observer that lets planning take time."""

    def __init__(self, world: World, replica: Replica) -> None:
        self._world, self._replica = world, replica
        self._requested: set[str] = set()
        self._turn = 0
        self._lost: set[str] = set()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Let time pass while it plans."""
        if name == "snapshot":
            self._replica.planned_at = self._world.hub.seconds
        yield
        if name == "plan" and self._world.planning_seconds:
            self._world.hub.sleep(self._world.planning_seconds)

    def answered(self, result: object) -> None:
        """Count nothing."""

    def changed(self, state: LoopState) -> None:
        """Let the monitor see what was admitted and requested, and which moves were lost."""
        monitor, name = self._world.monitor, self._replica.name
        self._requested |= {request.group for request in state.under_way}
        if state.turn != self._turn and state.cycle is not None:
            self._turn = state.turn
            admitted = {eviction.group for eviction in state.cycle.admission.evictions}
            monitor.admits(name, state.turn, admitted, self._requested)
            self._requested = set()
        for move in state.memory.moves:
            if move.state is MoveState.LOST and move.uid not in self._lost:
                self._lost.add(move.uid)
                if state.turn > 1:  # a move that ended under another leader is its own
                    monitor.loses(name, move)


def _draw_cluster(random: Random) -> ClusterBuilder:
    blueprint = ClusterBuilder()
    nodes = random.choice([2, 3])
    blueprint.zones("abc", nodes)
    names = [f"{zone}-{number}" for zone in "abc" for number in range(1, nodes + 1)]
    for namespace in ("one", "two", "three")[: random.choice([2, 3])]:
        pods = random.choice([9, 12, 15])
        on = dict.fromkeys(names, 0)
        crowded = random.choice([names, names[: 2 * nodes], names])
        for number in range(pods):
            on[crowded[number % len(crowded)]] += 1
        spread = random.choice([{ZONE: 1}, {ZONE: 1, HOSTNAME: 1}, {ZONE: 2, HOSTNAME: 1}])
        if random.random() < 0.3:
            blueprint.stateful_set("web", namespace=namespace, on=on, spread=spread)
        else:
            blueprint.deployment("web", namespace=namespace, on=on, spread=spread)
        if random.random() < 0.5:
            blueprint.budget("web", namespace=namespace, max_unavailable=random.choice([1, 2]))
    return blueprint


def _draw_policy(random: Random) -> Policy:
    budgets = Budgets(
        max_unavailable=Amount(value=random.choice([1, 1, 2, 3])),
        per_workload=Amount(value=random.choice([1, 2, 9])),
        per_node=Amount(value=9),
    )
    return eager(
        budgets=budgets,
        interval=timedelta(seconds=random.choice([30, 60])),
        spread=Spread(for_=timedelta(seconds=random.choice([0, 30]))),
    )


def run(seed: int) -> Result:
    """Run the world of a seed."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        return World(seed).run()
    finally:
        structlog.reset_defaults()
