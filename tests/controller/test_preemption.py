"""Whole runs of repairs by preemption, on the simulated cluster: exactly the predicted pods go, and nothing is lost."""

from collections import Counter
from collections.abc import Iterator
from random import Random

from rebalancer.engine import evaluate
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.diagnosis.closed_nodes import NodesTakeNoMore
from rebalancer.policy import Permission, Policy
from rebalancer.policy.sections import Eligibility
from rebalancer.simulator import ZONE, ClusterBuilder, SimulatedCluster, TraceKind, pick_most_crowded
from tests.controller.simulated import NONE, Simulation, eager
from tests.drawing import scaled
from tests.simulator.build import happened, move


def allowing(permission: Permission = Permission.ALLOW) -> Policy:
    return eager(eligibility=Eligibility(min_age=NONE, preemption=permission))


def crowded(room: int = 3, batch: int = 300) -> ClusterBuilder:
    """Return six pods of web in two of three zones; the third one is full of batch, for which node d has room."""
    builder = ClusterBuilder()
    for zone in "abc":
        builder.node(f"{zone}-1", zone=zone, cpu=1000)
    builder.node("d-1", cpu=batch + batch * room)
    builder.deployment("web", on={"a-1": 3, "b-1": 3}, spread={ZONE: 1}, cpu=300, priority=10)
    builder.deployment("batch", on={"c-1": 1000 // batch, "d-1": 1}, cpu=batch)
    return builder


def zones_of(cluster: SimulatedCluster) -> dict[str, int]:
    """Count the pods of web by zone; node d has none."""
    state = cluster.snapshot(cluster.now)
    zone = {node.name: node.labels[ZONE] for node in state.nodes if ZONE in node.labels}
    counts = dict.fromkeys(zone.values(), 0)
    for pod in state.pods:
        if pod.labels["app"] == "web" and pod.node is not None and not pod.terminating:
            counts[zone[pod.node]] += 1
    return counts


def test_the_repair_preempts_one_pod_after_the_other() -> None:
    """Two moves, each with the pods that the event names, and all replacements find a node."""
    cluster = SimulatedCluster(crowded().snapshot())
    Simulation(cluster, allowing()).cycles(60)
    assert zones_of(cluster) == {"a": 2, "b": 2, "c": 2}
    pods = cluster.snapshot(cluster.now).pods
    assert all(pod.ready for pod in pods)
    preempted = happened(cluster, TraceKind.PREEMPTED)
    assert len(preempted) == len(happened(cluster, TraceKind.EVICTED)) == 2
    events = [entry.detail for entry in cluster.trace if entry.kind is TraceKind.EVENT and "Evicted:" in entry.detail]
    for name in preempted:
        assert any("kube-scheduler preempts" in note and f"default/{name} on c-1" in note for note in events)


def test_while_the_pods_that_went_are_not_back_nothing_else_is_preempted() -> None:
    """The second move is requested only once the first one's replacement and that of its victim are Ready."""
    cluster = SimulatedCluster(crowded().snapshot())
    simulation = Simulation(cluster, allowing())
    evicted: list[str] = []
    for _ in range(600):
        simulation.cycles(1, apart=1)
        now = happened(cluster, TraceKind.EVICTED)
        if len(now) == 2 and len(evicted) == 1:
            before = simulation.runner.state.memory.moves
            assert [move.state.over for move in before][:1] == [True]
            ready = [pod for pod in cluster.snapshot(cluster.now).pods if pod.labels["app"] == "batch" and pod.ready]
            assert len(ready) == 4
        evicted = now
    assert len(evicted) == 2


def test_by_default_nothing_is_evicted() -> None:
    cluster = SimulatedCluster(crowded().snapshot())
    Simulation(cluster, allowing(Permission.REFUSE)).cycles(60)
    assert not happened(cluster, TraceKind.EVICTED)


def test_it_ends_when_the_pods_that_would_go_find_no_further_place() -> None:
    cluster = SimulatedCluster(crowded(room=0, batch=450).snapshot())
    Simulation(cluster, allowing()).cycles(60)
    assert zones_of(cluster) == {"a": 3, "b": 3, "c": 0}
    assert all(pod.ready for pod in cluster.snapshot(cluster.now).pods)


def drawn(random: Random) -> ClusterBuilder:
    """Return a small cluster that is full in some zones, with budgets, and pods of two lower workloads."""
    builder = ClusterBuilder()
    zones = "abc" if random.random() < 0.7 else "ab"
    for zone in zones:
        for number in range(1, random.randint(1, 2) + 1):
            builder.node(f"{zone}-{number}", zone=zone, cpu=random.choice([800, 1000, 1200]))
    builder.node("d-1", cpu=random.choice([300, 700, 1500]))
    free = {node.name: node.allocatable.cpu for node in builder.snapshot().nodes}
    web, size = dict.fromkeys(free, 0), random.choice([200, 300, 400])
    for _ in range(random.randint(3, 6)):
        name = random.choice([name for name in free if name[0] in "ab"])
        if free[name] >= size:
            web[name] += 1
            free[name] -= size
    builder.deployment("web", on=web, spread={ZONE: 1}, cpu=size, priority=10)
    for app in ("batch", "low"):
        cpu = random.choice([150, 200, 300, 450])
        on = {name: left // cpu for name, left in free.items() if random.random() < 0.8}
        on = {name: min(number, 3) for name, number in on.items()}
        for name, number in on.items():
            free[name] -= number * cpu
        builder.deployment(app, on=on, cpu=cpu)
        if random.random() < 0.3:
            builder.budget(app, max_unavailable=random.choice([0, 1]))
    return builder


def outcomes_of(seed: int) -> Iterator[tuple[str, str]]:
    """Yield for a drawn cluster what is planned, and what comes of it under several schedulers."""
    first = drawn(Random(seed)).snapshot()
    evaluation = evaluate(first, allowing())
    steps = [eviction for eviction in evaluation.plan.fates.going if eviction.repair.preempts]
    for group in evaluation.plan.components:
        if isinstance(group.refusal, NodesTakeNoMore) and group.refusal.preemption is not None:
            yield type(group.refusal.preemption).__name__, _force(first)
    for eviction in steps:
        for choose in (None, pick_most_crowded):
            cluster = SimulatedCluster(first, seed=seed, choose=choose)
            before = zones_of(cluster)
            Simulation(cluster, allowing()).cycles(12)
            yield (
                "planned",
                _judge(
                    cluster, eviction.pod, before, {pod.name for one in eviction.repair.preempts for pod in one.pods}
                ),
            )


def _force(first: Snapshot) -> str:
    """Evict each pod of web all the same, under some schedulers; return the worst that it ends with."""
    results = set()
    for pod in first.pods:
        if pod.labels["app"] == "web":
            for seed in range(3):
                cluster = SimulatedCluster(first, seed=seed)
                cluster.evict(move(pod))
                cluster.advance(120)
                results.add(_describe(cluster))
    return max(results)


def _describe(cluster: SimulatedCluster) -> str:
    state = cluster.snapshot(cluster.now)
    return "all pods are back" if all(pod.ready for pod in state.pods) else "pods stay pending"


def _judge(cluster: SimulatedCluster, evicted: Pod, before: dict[str, int], predicted: set[str]) -> str:
    first = happened(cluster, TraceKind.EVICTED)
    preempted = happened(cluster, TraceKind.PREEMPTED)
    assert first[0] == evicted.name
    assert preempted
    assert preempted[0] in predicted
    after = zones_of(cluster)
    assert max(after.values()) - min(after.values()) < max(before.values()) - min(before.values())
    assert all(pod.ready for pod in cluster.snapshot(cluster.now).pods), "a pod stays pending"
    return "good"


def test_what_is_planned_comes_out_as_predicted_whatever_the_scheduler_picks() -> None:
    """Of drawn clusters: the predicted pods go, the placement improves, and no pod is left without a node."""
    seen = Counter(outcome for seed in range(scaled(150)) for outcome in outcomes_of(seed))
    print(seen)
    assert seen["planned", "good"] >= scaled(20)
    assert seen["PreemptedPodWithoutPlace", "pods stay pending"] >= scaled(3)
    assert seen["PreemptedPodWithoutPlace", "all pods are back"] == 0
