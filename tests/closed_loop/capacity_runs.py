"""Drawn runs of the controller beside an autoscaler: `python -m tests.closed_loop.capacity_runs FIRST [LAST]`.

A seed draws the cluster (pods, constraints, full or missing zones), the autoscaler (delays, refusals, consolidation),
strangers (pods of others that come and go), restarts, pauses and the watch's delay. What must hold is in `check`.
"""

import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random

import structlog

from rebalancer.admission.pause import Pause
from rebalancer.controller.state import PauseRead
from rebalancer.model.affinity import NodeAffinity
from rebalancer.model.cluster import NodePool
from rebalancer.model.labels import Labels, Operator, SelectorRequirement
from rebalancer.model.placeholders import placeholder_pods
from rebalancer.model.pods import Pod, PodSpec, Resources
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Capacity, CapacityMode, Mode
from rebalancer.simulator import (
    HOSTNAME,
    ZONE,
    Autoscaling,
    ClusterBuilder,
    Faults,
    SimulatedCluster,
    Span,
    Timings,
    TraceEntry,
    TraceKind,
)
from tests.controller.simulated import Simulation, eager

NAMESPACE = "rebalancer-capacity"
ZONES = ("a", "b", "c")
LONGEST = 2400.0
"""Simulated seconds of a run before everything has to be released."""
SHORTEST = 0.1
"""Simulated seconds from one cycle to the next at least."""


@dataclass(kw_only=True)
class Run:
    """One drawn run, and what was seen in it."""

    seed: int
    random: Random = field(init=False)
    cluster: SimulatedCluster = field(init=False)
    simulation: Simulation = field(init=False)
    replicas: int = 0
    minimum: int = 0
    evictions: int = 0
    strangers: list[Pod] = field(default_factory=list)
    calm: bool = False
    """Whether nothing but the autoscaler takes part."""
    willing: bool = False
    """Whether the autoscaler creates every node in time."""
    most: int = 0
    by_node: bool = False
    full: bool = False
    watch_delay: float = 0.0
    """Seconds by which the controller sees changes late."""

    def __post_init__(self) -> None:
        """Draw the cluster."""
        random = self.random = Random(self.seed)  # reproducible on purpose
        self.calm, self.willing = random.random() < 0.4, random.random() < 0.6
        cpu, slowest = random.choice([2_000, 4_000, 16_000]), random.choice([10.0, 60.0, 200.0])
        autoscaling = Autoscaling(
            zones=ZONES,
            cpu=cpu,
            creating=Span(2.0, slowest),
            empty_for=random.choice([15.0, 60.0, 600.0]),
        )
        first = self._draw_snapshot()
        starting = Span(1.0, random.choice([3.0, 20.0]))
        self.watch_delay = 0.0 if self.calm else random.choice([0.0, 0.5, 2.0])
        self.cluster = SimulatedCluster(
            first,
            seed=self.seed,
            timings=Timings(starting=starting),
            faults=Faults(watch_delay=self.watch_delay),
            autoscaling=autoscaling,
        )
        if not self.willing:
            refusing = random.choice([0.5, 0.9, 1.0])
            draws = Random(self.seed + 1)  # see above
            assert self.cluster.autoscaler is not None
            self.cluster.autoscaler.refuses = lambda _: draws.random() < refusing
            if random.random() < 0.3:
                self.cluster.jobs.refuse = lambda _: "exceeded quota: placeholders" if draws.random() < 0.3 else ""
        self.capacity = Capacity(
            mode=CapacityMode.REQUEST,
            timeout=timedelta(minutes=random.choice([2, 5, 10])),
            settle=timedelta(seconds=random.choice([0, 10, 30])),
            max_pods=random.choice([20, 100]),
        )
        self.willing &= timedelta(seconds=slowest) < self.capacity.timeout
        self.simulation = Simulation(self.cluster, eager(Mode.EVICT, capacity=self.capacity))

    def _draw_snapshot(self) -> Snapshot:
        random = self.random
        builder = ClusterBuilder()
        nodes, per_node = random.choice([(1, 6), (2, 2), (2, 3), (3, 1), (3, 2)])
        spread = random.choice([{ZONE: 1}, {ZONE: 1}, {ZONE: 2}, {ZONE: 1, HOSTNAME: 1}, {ZONE: 1, HOSTNAME: 2}])
        self.by_node = HOSTNAME in spread
        on = {f"{zone}-{number}": per_node for zone in "ab" for number in range(1, nodes + 1)}
        self.replicas = 2 * nodes * per_node
        self.minimum = next(
            moved
            for moved in range(self.replicas)
            if -(-(self.replicas - moved) // 2) - moved <= spread[ZONE]  # the fuller zone, less the one that is filled
        )
        self.full = random.random() < 0.25
        builder.zones("ab", nodes)
        if self.full:
            builder.node("c-1", zone="c", cpu=300)  # no pod of ours fits
        cpu = random.choice([400, 800, 1_500])
        make = builder.deployment if random.random() < 0.6 else builder.stateful_set
        make("web", on=on, spread=spread, cpu=cpu)
        if random.random() < 0.7:
            builder.budget("web", max_unavailable=random.choice([1, 2]))
        pool = NodePool(name="general", requirements=(SelectorRequirement(ZONE, Operator.IN, ZONES),))
        return replace(builder.snapshot(), node_pools=(pool,))

    def play(self) -> "Run":
        """Run until everything is done, then long enough for what is left to be released."""
        end = self.cluster.seconds() + LONGEST
        while self.cluster.seconds() < end and not self._is_done():
            self._disturb()
            self._advance(self.random.choice([2.0, 5.0, 10.0, 30.0]))
        self._settle()
        return self

    def _advance(self, interval: float) -> None:
        """Run a cycle, and those that the loop asks for until the next one is due."""
        end = self.cluster.seconds() + interval
        while (left := end - self.cluster.seconds()) >= SHORTEST:
            self.simulation.runner.tick()
            self.most = max(self.most, len(self.cluster.jobs.names))
            early = self.simulation.runner.time_to_cycle()
            self.cluster.advance(left if early is None else min(left, max(early, SHORTEST)))

    def _is_done(self) -> bool:
        counts = self.counts()
        return (
            max(counts.values()) - min(counts.values()) <= 1
            and sum(counts.values()) == self.replicas
            and not self.cluster.jobs.names
        )

    def _settle(self) -> None:
        """Switch the mode off, as the policy of the next cycle."""
        self.evictions += self.simulation.evictions
        self.simulation.policy = eager(Mode.EVICT)
        self.simulation.restart()
        for _ in range(5):
            self.simulation.cycles(1, apart=5.0)

    def counts(self) -> dict[str, int]:
        """Count the pods that are Ready by zone."""
        snapshot = self.cluster.snapshot(self.cluster.now)
        totals = dict.fromkeys(ZONES, 0)
        for pod in snapshot.pods_in["default"]:
            node = snapshot.node.get(pod.node or "")
            if pod.labels.get("app") == "web" and node is not None and pod.ready and not pod.terminating:
                totals[node.labels[ZONE]] += 1
        return totals

    def _disturb(self) -> None:
        if self.calm:
            return
        drawn = self.random.random()
        if drawn < 0.03:
            self._add_stranger()
        elif drawn < 0.05 and self.strangers:
            self.cluster.state.delete(self.strangers.pop(0))
        elif drawn < 0.06:
            self.simulation.restart()
        elif drawn < 0.065:
            self.cluster.pause = Pause(reason="drawn", by="test")
            self.simulation.runner.tell(PauseRead(pause=self.cluster.pause))
        elif drawn < 0.15 and self.cluster.pause is not None:
            self.cluster.pause = None
            self.simulation.runner.tell(PauseRead(pause=None))

    def _add_stranger(self) -> None:
        zone = self.random.choice([None, "c"])
        requests = Resources(cpu=self.random.choice([300, 1_000, 2_000]))
        selector = Labels({ZONE: zone} if zone else {})
        uid = f"stranger-{len(self.cluster.trace)}"
        stranger = Pod(
            namespace="default",
            name=uid,
            uid=uid,
            labels=Labels({"app": "stranger"}),
            spec=PodSpec(node_affinity=NodeAffinity(selector=selector), requests=requests),
            created=self.cluster.now,
            requests=requests,
        )
        self.strangers.append(stranger)
        self.cluster.state.note(TraceKind.CREATED, f"Pod {stranger}")
        self.cluster.state.store.pods.put(stranger)

    def waited(self) -> list[str]:
        """Return the pods of the workload that no node admitted at some time because of us."""
        return [
            f"{entry.at:%H:%M:%S} {entry.object}"
            for entry, surprised in self._placements()
            if entry.kind is TraceKind.UNSCHEDULABLE and not surprised
        ]

    def astray(self) -> int:
        """Count the pods of the workload that came to another zone than the filled one, which nobody could foresee."""
        return sum(
            surprised and entry.kind is TraceKind.SCHEDULED and "c-" not in entry.detail
            for entry, surprised in self._placements()
        )

    def _placements(self) -> Iterator[tuple[TraceEntry, bool]]:
        """Yield what the scheduler did with the workload's pods, and whether nobody could foresee it.

        That is so if its capacity was taken by a pod that did not exist yet in what the controller had seen when it
        evicted, or if the autoscaler has removed a node of the zone since then.
        """
        seen_until = self.cluster.trace[0].at
        strangers: dict[str, datetime] = {}
        surprises: list[datetime] = []
        for entry in self.cluster.trace:
            match entry.kind:
                case TraceKind.EVICTED:
                    seen_until = entry.at - timedelta(seconds=self.watch_delay)
                case TraceKind.CREATED if "stranger" in entry.object:
                    strangers[entry.object] = entry.at
                case TraceKind.SCHEDULED if "stranger" in entry.object:
                    surprises.append(strangers[entry.object])
                case TraceKind.PREEMPTED if "stranger" in entry.detail:
                    surprises.append(entry.at)  # it takes the place at once, and is bound when that is free
                case TraceKind.NODE_REMOVED if "auto-c" in entry.object:
                    surprises.append(entry.at)
                case TraceKind.SCHEDULED | TraceKind.UNSCHEDULABLE if "default/web" in entry.object:
                    yield entry, any(moment >= seen_until for moment in surprises)


def check(run: Run) -> list[str]:
    """Return what does not hold of a run that was played."""
    wrong = []
    left = placeholder_pods(run.cluster.snapshot(run.cluster.now), NAMESPACE)
    if left or run.cluster.jobs.names:
        wrong.append(f"{len(left)} placeholders and {len(run.cluster.jobs.names)} Jobs are left")
    if run.most > run.capacity.max_pods:
        wrong.append(f"{run.most} placeholders at once")
    if run.waited():
        wrong.append(f"pods waited for a node: {run.waited()}")
    # A node that somebody else needs is a further domain of the host names, which may cost evictions of its own.
    more = sum(entry.kind is TraceKind.NODE_ADDED for entry in run.cluster.trace) if run.by_node else 0
    if run.evictions > run.minimum + more + run.astray():
        wrong.append(f"{run.evictions} evictions, the minimum is {run.minimum}")
    # A full node at which a constraint by host name counts no pod is not repaired by other nodes.
    if run.calm and run.willing and run.evictions != run.minimum and not (run.by_node and run.full):
        wrong.append(f"{run.evictions} evictions, {run.minimum} would have repaired it: {run.counts()}")
    return wrong


def main() -> None:
    """Play the runs of some seeds and print what does not hold."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    first = int(sys.argv[1])
    last = int(sys.argv[2]) if len(sys.argv) > 2 else first
    bad = repaired = 0
    for seed in range(first, last + 1):
        run = Run(seed=seed).play()
        wrong = check(run)
        repaired += run.evictions == run.minimum
        bad += bool(wrong)
        if wrong:
            print(seed, *wrong, sep="\n  ", flush=True)
        if first == last:
            print(*run.cluster.trace, sep="\n")
            print(run.counts(), run.evictions, run.minimum)
    print(f"{last - first + 1} runs, {repaired} with the minimum of evictions, {bad} wrong")


if __name__ == "__main__":
    main()
