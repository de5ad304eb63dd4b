"""Drawn runs in an autoscaled cluster: `python -m tests.closed_loop.autoscaled_runs FIRST [LAST]`.

Every minute a node joins, and is Ready 20 seconds later, and another one leaves: the cluster-autoscaler taints it,
evicts its pods, deletes those that a disruption budget still protects, and removes the node 20 to 40 seconds after the
taint. Every few minutes a node is not Ready for a while, and nothing says why. In ten minutes 15% of the pods are
restarted, as CronJobs do. A HorizontalPodAutoscaler changes the replicas of one Deployment every minute or two. Some
Deployments violate their constraint over zones at the beginning: a zone came back, or pods are unbalanced. The
constraints of some honour the nodes' taints. Constraints over host names have fewer pods than nodes: with more, every
node that joins or leaves violates them anew.

The policy is the default one in mode Evict, with slow start, `spread.for` 2m and `eligibility.minAge` 5m: all the waits
that a real cluster has. Only `nodes.settle` is drawn.

What must hold is in `check`: no violation lasts longer than ten minutes. They count from the first cycle that finds the
violation, so `spread.for` is part of them, until a cycle that finds the constraints satisfied while no pod of the
workload is missing or unready: a moment without a pod is no repair. That holds for what the churn violates later, too.
"""

import logging
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count, cycle
from random import Random
from statistics import median

import structlog
from msgspec import structs

from rebalancer.model.affinity import Taint, TaintEffect
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Move, Reference
from rebalancer.model.nodes import Node
from rebalancer.model.pods import Pod, PodSpec
from rebalancer.model.reasons import Cause
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import InclusionPolicy
from rebalancer.model.workloads import Workload
from rebalancer.policy import Mode, Policy, default_policy
from rebalancer.policy.sections import Nodes
from rebalancer.ports import EvictionAnswer, EvictionResult
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder, SimulatedCluster, Span, Timings
from tests.controller.simulated import Simulation

ZONES = ("a", "b", "c")
NAMESPACES = ("shop", "search")
MINUTES = 30
LONGEST = timedelta(minutes=10)
HONOURING = 0.3
"""The share of the Deployments whose constraints honour the nodes' taints."""
RESTARTED = 0.15
"""The share of the pods that is restarted in ten minutes."""
NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect=TaintEffect.NO_SCHEDULE)
TAINT = Taint(key="ToBeDeletedByClusterAutoscaler", effect=TaintEffect.NO_SCHEDULE)


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A violation of one workload; `ended` is None where it lasts at the end of the run."""

    workload: Reference
    began: datetime
    ended: datetime | None
    evictions: int
    at_first: bool
    reasons: Mapping[str, int]
    """For how many seconds the plan gave which reason why the repair waits."""

    def lasted(self, now: datetime) -> timedelta:
        """Return how long it has lasted."""
        return (self.ended or now) - self.began


@dataclass(frozen=True, kw_only=True)
class _Open:
    """A violation that lasts."""

    began: datetime
    evicted: int
    at_first: bool
    reasons: Counter[str] = field(default_factory=Counter)


class AutoscaledCluster(SimulatedCluster):
    """Notes the evictions of the controller, and drains nodes as an autoscaler does."""

    def __init__(self, first: Snapshot, *, seed: int, timings: Timings) -> None:
        super().__init__(first, seed=seed, timings=timings)
        self.evicted: list[Move] = []
        self.beyond: list[str] = []
        """Evictions after which more pods of the workload were unavailable than budgets.maxUnavailable, 1."""

    def evict(self, move: Move) -> EvictionAnswer:
        """Evict a pod for the controller."""
        answer = super().evict(move)
        if answer.result is EvictionResult.EVICTED:
            self.evicted.append(move)
            replicas = self.count_replicas(move.workload)
            if replicas.wanted - replicas.ready > 1:
                self.beyond.append(f"{move.workload}: {replicas.ready} of {replicas.wanted} Ready")
        return answer

    def drain(self, node: str) -> None:
        """Request the eviction of every pod on a node."""
        for pod in self.state.store.pods.on(node):
            if not pod.terminating:
                super().evict(_make_move(pod, self.now))

    def delete_pods(self, node: str) -> None:
        """Delete every pod on a node: the autoscaler waits no longer for disruption budgets."""
        for pod in self.state.store.pods.on(node):
            self.state.delete(pod)


def _honour_taints(snapshot: Snapshot, names: set[str]) -> Snapshot:
    """Let the constraints of some Deployments, by their label `app`, honour the nodes' taints."""

    def honour(spec: PodSpec) -> PodSpec:
        spread = (structs.replace(one, node_taints_policy=InclusionPolicy.HONOR) for one in spec.spread)
        return structs.replace(spec, spread=tuple(spread))

    def change_owner(owner: Workload) -> Workload:
        template = owner.template
        if template is None or template.labels["app"] not in names:
            return owner
        return structs.replace(owner, template=structs.replace(template, spec=honour(template.spec)))

    return replace(
        snapshot,
        pods=tuple(
            structs.replace(pod, spec=honour(pod.spec)) if pod.labels["app"] in names else pod for pod in snapshot.pods
        ),
        workloads=tuple(map(change_owner, snapshot.workloads)),
    )


def _make_move(pod: Pod, now: datetime) -> Move:
    return Move(
        uid=pod.uid,
        namespace=pod.namespace,
        pod=pod.name,
        node=pod.node or "",
        workload=Reference(pod.namespace, "Deployment", ""),
        owner_uid="",
        cause=Cause.SKEW_VIOLATED,
        requested_at=now,
        changed_at=now,
    )


@dataclass(kw_only=True)
class Run:
    """One drawn run, and what was seen in it."""

    seed: int
    minutes: int = MINUTES
    random: Random = field(init=False)
    cluster: AutoscaledCluster = field(init=False)
    simulation: Simulation = field(init=False)
    policy: Policy = field(init=False)
    replicas: dict[str, int] = field(default_factory=dict)
    """The replicas of each Deployment as drawn, by namespace/name."""
    violated: set[str] = field(default_factory=set)
    """The Deployments that are laid out with a violated constraint."""
    joined: int = 0
    left: int = 0
    failed: int = 0
    watched: int = 0
    """Cycles in which a change of a node had not lasted."""
    fails: bool = True
    """Whether nodes fail for a while."""
    restarted: int = 0
    most_moving: Counter[Reference] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    """Those that have ended, and at the end of the run the others."""

    def __post_init__(self) -> None:
        """Draw the cluster."""
        random = self.random = Random(self.seed)  # reproducible on purpose
        settle = timedelta(seconds=random.choice([30, 60, 300]))
        self.policy = default_policy().model_copy(update={"mode": Mode.EVICT, "nodes": Nodes(settle=settle)})
        first = self._draw_snapshot()
        self._like = first.nodes[0]
        self._fewest = min(Counter(node.labels[ZONE] for node in first.nodes).values()) - 1
        timings = Timings(
            starting=Span(2.0, random.choice([5, 20, 40])), stopping=Span(1.0, random.choice([3, 10, 25]))
        )
        self.cluster = AutoscaledCluster(first, seed=self.seed, timings=timings)
        self.simulation = Simulation(self.cluster, self.policy)
        self.cluster.listen(self.simulation.runner.observe)
        self.start = self.cluster.now
        self._open: dict[Reference, _Open] = {}
        self._reasons: dict[Reference, str] = {}
        self._actions: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = count()

    def _draw_snapshot(self) -> Snapshot:
        random, builder = self.random, ClusterBuilder()
        number = random.randint(10, 30)
        zones: dict[str, list[str]] = {zone: [] for zone in ZONES}
        for index, zone in zip(range(number), cycle(ZONES), strict=False):
            zones[zone].append(f"{zone}-{index // 3 + 1}")
            builder.node(zones[zone][-1], zone=zone, cpu=4_000)
        for index in range(random.randint(4, 8)):
            self._draw_deployment(builder, zones, index)
        honouring = {f"app-{index}" for index in range(8) if random.random() < HONOURING}
        return _honour_taints(builder.snapshot(), honouring)

    def _draw_deployment(self, builder: ClusterBuilder, zones: Mapping[str, Sequence[str]], index: int) -> None:
        random = self.random
        name, namespace = f"app-{index}", random.choice(NAMESPACES)
        smallest = min(map(len, zones.values()))
        replicas = random.randint(4, min(20, 3 * smallest + 5))
        is_violated = index == 0 or random.random() < 0.3
        spread = {ZONE: 1 if is_violated else random.choice([1, 2])}
        by_node = random.random() < 0.4
        if by_node:  # half of the nodes stay free: a node that joins violates nothing
            replicas = min(replicas, max(4, 3 * smallest // 2))
            spread[HOSTNAME] = 1
        shares = self._draw_shares(replicas, is_violated, most=smallest if by_node else replicas)
        on: dict[str, int] = {}
        for zone, share in zip(random.sample(ZONES, 3), shares, strict=True):
            start = random.randrange(len(zones[zone]))
            for place in range(share):
                node = zones[zone][(start + place) % len(zones[zone])]
                on[node] = on.get(node, 0) + 1
        builder.deployment(name, on=on, spread=spread, namespace=namespace, cpu=random.choice([50, 100, 200]))
        if random.random() < 0.5:
            budgets: list[int | str] = [1, "25%"]
            builder.budget(name, namespace=namespace, max_unavailable=random.choice(budgets))
        self.replicas[f"{namespace}/{name}"] = replicas
        if is_violated:
            self.violated.add(f"{namespace}/{name}")

    def _draw_shares(self, replicas: int, is_violated: bool, most: int) -> list[int]:
        """Return the number of pods in each zone: equal ones, or a zone came back, or one holds too many."""
        if not is_violated:
            return [replicas // 3 + (index < replicas % 3) for index in range(3)]
        if self.random.random() < 0.5 and replicas <= 2 * most:
            return [-(-replicas // 2), replicas // 2, 0]
        largest = min(most, replicas // 3 + self.random.randint(3, 5), replicas)
        return [largest, (replicas - largest + 1) // 2, (replicas - largest) // 2]

    # The run

    def play(self) -> "Run":
        """Run it: a cycle every `interval`, and those that the loop asks for in between."""
        self._at(Span(1, 60).draw(self.random), self._join)
        self._at(Span(1, 60).draw(self.random), self._leave)
        self._at(Span(1, 60).draw(self.random), self._breathe)
        if self.fails:
            self._at(Span(1, 240).draw(self.random), self._fail)
        self._at(0, self._draw_restarts)
        interval = self.policy.interval.total_seconds()
        next_cycle = 0.0
        for second in range(self.minutes * 60):
            while self._actions and self._actions[0][0] <= second:
                heappop(self._actions)[2]()
            early = self.simulation.runner.time_to_cycle()
            if second >= next_cycle or (early is not None and early <= 0):
                if second >= next_cycle:
                    next_cycle += interval
                self.simulation.runner.tick()
                self._observe()
            for workload, known in self._open.items():
                known.reasons[self._reasons.get(workload, "")] += 1
            self.cluster.advance(1.0)
        for workload in list(self._open):
            self._end(workload, None)
        return self

    def _at(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something in so many seconds."""
        due = (self.cluster.now - self.start).total_seconds() + seconds
        heappush(self._actions, (due, next(self._serial), action))

    def _join(self) -> None:
        """Add a node: as often as not to the smallest zone, so that the zones keep their sizes about."""
        nodes = Counter(node.labels[ZONE] for node in self._nodes)
        smallest = min(ZONES, key=lambda zone: (nodes[zone], zone))
        zone = smallest if self.random.random() < 0.5 else self.random.choice(ZONES)
        self.joined += 1
        name = f"{zone}-new-{self.joined}"
        labels = Labels({**self._like.labels, HOSTNAME: name, ZONE: zone})
        self.cluster.nodes.add(structs.replace(self._like, name=name, labels=labels))
        self._put_node(name, ready_since=None)
        self._at(20, lambda: self._recover(name))
        self._at(60, self._join)

    def _fail(self) -> None:
        """Let a node be not Ready for a while, as one whose kubelet is restarted: nothing on it says why."""
        name = self.random.choice([node.name for node in self._nodes if node.ready])
        self.failed += 1
        self._put_node(name, ready_since=None)
        self._at(Span(20, 60).draw(self.random), lambda: self._recover(name))
        self._at(Span(120, 360).draw(self.random), self._fail)

    def _recover(self, name: str) -> None:
        if name in self.cluster.snapshot(self.cluster.now).node:
            self._put_node(name, ready_since=self.cluster.state.stamp)

    def _put_node(self, name: str, ready_since: datetime | None) -> None:
        """Let a node become Ready or not, with the taint that the node lifecycle controller gives it."""
        nodes = self.cluster.state.store.nodes
        node = nodes.get(name)
        assert node is not None
        taints = (*(taint for taint in node.taints if taint != NOT_READY), *(() if ready_since else (NOT_READY,)))
        nodes.put(structs.replace(node, ready=ready_since is not None, ready_since=ready_since, taints=taints))

    def _leave(self) -> None:
        """Begin to remove a node of a zone that is not at its smallest."""
        nodes = Counter(node.labels[ZONE] for node in self._nodes)
        names = [node.name for node in self._nodes if nodes[node.labels[ZONE]] > self._fewest]
        self._at(60, self._leave)
        if not names:
            return
        name = self.random.choice(names)
        self.left += 1
        self.cluster.nodes.taint(name, TAINT)
        removal, begins = Span(20, 40).draw(self.random), Span(0, 10).draw(self.random)
        for later in (0, 3, 6, 9):
            self._at(begins + later, lambda: self.cluster.drain(name))
        self._at(removal - 5, lambda: self.cluster.delete_pods(name))
        self._at(removal, lambda: self.cluster.nodes.remove(name))

    @property
    def _nodes(self) -> list[Node]:
        """The nodes that the autoscaler is not removing."""
        return [node for node in self.cluster.snapshot(self.cluster.now).nodes if TAINT not in node.taints]

    def _breathe(self) -> None:
        """Change the replicas of the first Deployment that is not laid out violated, or of the first one."""
        name = next((name for name in self.replicas if name not in self.violated), next(iter(self.replicas)))
        namespace, _, short = name.partition("/")
        replicas = self.random.randint(self.replicas[name], self.most_replicas(name))
        self.cluster.scale(namespace, "Deployment", short, replicas)
        self._at(Span(60, 120).draw(self.random), self._breathe)

    def most_replicas(self, name: str) -> int:
        """Return how many replicas a Deployment may be scaled to, by namespace/name."""
        return self.replicas[name] + max(2, self.replicas[name] // 3)

    def _draw_restarts(self) -> None:
        """Draw when single pods are deleted within the next ten minutes, and replaced by their owners."""
        number = round(RESTARTED * len(self.cluster.snapshot(self.cluster.now).pods))
        for _ in range(number):
            self._at(Span(0, 600).draw(self.random), self._restart_pod)
        self._at(600, self._draw_restarts)

    def _restart_pod(self) -> None:
        pods = [pod for pod in self.cluster.snapshot(self.cluster.now).pods if not pod.terminating]
        self.restarted += 1
        self.cluster.state.delete(self.random.choice(pods))

    # What is seen

    def _observe(self) -> None:
        """Note after a cycle which workloads are violated, and why their repairs wait."""
        self.watched += bool(self.simulation.runner.state.memory.node_changes)
        cycle = self.simulation.runner.state.cycle
        assert cycle is not None
        violated = {workload for group in cycle.assessment.violated for workload in group.workloads}
        for workload in violated - self._open.keys():
            first = self.cluster.now == self.start
            self._open[workload] = _Open(began=self.cluster.now, evicted=len(self.cluster.evicted), at_first=first)
        for workload in list(self._open):
            replicas = self.cluster.count_replicas(workload)
            if workload not in violated and replicas.ready >= replicas.wanted:
                self._end(workload, self.cluster.now)
        self._reasons = {}
        for group in cycle.plan.components:
            for workload in group.workloads:
                if group.refusal is not None:
                    self._reasons[workload] = f"{group.refusal.reason}/{type(group.refusal).__name__}"
        for waiting in cycle.fates.kept:
            refusal = waiting.refusal
            self._reasons[waiting.eviction.workload] = f"{refusal.reason}/{type(refusal).__name__}"
        moving = Counter(move.workload for move in cycle.memory.in_flight)
        for workload, number in moving.items():
            self.most_moving[workload] = max(self.most_moving[workload], number)

    def _end(self, workload: Reference, ended: datetime | None) -> None:
        known = self._open.pop(workload)
        evicted = sum(move.workload == workload for move in self.cluster.evicted[known.evicted :])
        self.violations.append(
            Violation(
                workload=workload,
                began=known.began,
                ended=ended,
                evictions=evicted,
                at_first=known.at_first,
                reasons=dict(known.reasons),
            )
        )


def check(run: Run) -> list[str]:
    """Return what does not hold of a run that was played."""
    wrong = [f"beyond budgets.maxUnavailable: {beyond}" for beyond in run.cluster.beyond]
    for workload, number in run.most_moving.items():
        if number > max(1, run.most_replicas(f"{workload.namespace}/{workload.name}") // 10):
            wrong.append(f"beyond budgets.perWorkload: {number} moves of {workload} at once")
    if {f"{one.workload.namespace}/{one.workload.name}" for one in run.violations if one.at_first} != run.violated:
        wrong.append("the first cycle does not find the violations that are laid out")
    for violation in run.violations:
        lasted = violation.lasted(run.cluster.now)
        if lasted > LONGEST:
            wrong.append(f"{violation.workload} was violated for {lasted}: {violation.reasons}")
    return wrong


def main() -> None:
    """Play the runs of some seeds and print what does not hold, and how long the repairs took."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    first = int(sys.argv[1])
    last = int(sys.argv[2]) if len(sys.argv) > 2 else first
    runs = []
    for seed in range(first, last + 1):
        run = Run(seed=seed).play()
        runs.append(run)
        wrong = check(run)
        if wrong:
            print(seed, run.policy.nodes.settle, *wrong, sep="\n  ", flush=True)
        if first == last:
            print(*run.violations, sep="\n")
    print(describe(runs))


def describe(runs: Sequence[Run]) -> str:
    """Return how many repairs there were, and how long they took."""
    joined, left = sum(run.joined for run in runs), sum(run.left for run in runs)
    restarted, evicted = sum(run.restarted for run in runs), sum(len(run.cluster.evicted) for run in runs)
    lines = [f"{len(runs)} runs: {joined} nodes joined, {left} left, {restarted} pods restarted, {evicted} evictions"]
    for at_first, title in ((True, "violated at first"), (False, "violated later")):
        some = [(one, run) for run in runs for one in run.violations if one.at_first == at_first]
        seconds = sorted(one.lasted(run.cluster.now).total_seconds() for one, run in some)
        if seconds:
            ours = sum(one.evictions > 0 for one, _ in some)
            lines.append(
                f"{title}: {len(some)} ({ours} with evictions of ours), median {median(seconds):.0f} s, "
                f"90% {seconds[len(seconds) * 9 // 10]:.0f} s, longest {seconds[-1]:.0f} s"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
