"""Whatever happens to a simulated cluster, it stays one."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling.place import Choose
from rebalancer.simulator import (
    HOSTNAME,
    ZONE,
    SimulatedCluster,
    TraceEntry,
    TraceKind,
    pick_most_crowded,
    pick_random_best,
)
from tests.build import a_cluster
from tests.drawing import examples
from tests.simulator.build import move

Act = Callable[[SimulatedCluster, Random], None]


def wait(simulated: SimulatedCluster, random: Random) -> None:
    simulated.advance(random.choice([0.01, 0.3, 2.0, 30.0]))


def evict(simulated: SimulatedCluster, random: Random) -> None:
    pods = simulated.snapshot(simulated.now).pods
    if pods:
        simulated.evict(move(random.choice(pods)))


def remove(simulated: SimulatedCluster, random: Random) -> None:
    nodes = simulated.snapshot(simulated.now).nodes
    if len(nodes) > 2:
        simulated.nodes.remove(random.choice(nodes).name)


def restore(simulated: SimulatedCluster, random: Random) -> None:
    there = simulated.snapshot(simulated.now).node
    missing = sorted({f"{zone}-{number}" for zone in "abc" for number in (1, 2)} - set(there))
    if missing:
        simulated.nodes.restore(random.choice(missing))


def scale(simulated: SimulatedCluster, random: Random) -> None:
    kind, name = random.choice([("Deployment", "web"), ("StatefulSet", "db")])
    simulated.scale("default", kind, name, random.randrange(9))


EVICTING: list[Act] = [wait, evict, evict]
EVERYTHING: list[Act] = [*EVICTING, remove, restore, scale]


def start(seed: int, choose: Choose | None) -> SimulatedCluster:
    builder = a_cluster("abc", 2)
    builder.deployment("web", on={"a-1": 2, "b-1": 2, "c-1": 1, "c-2": 1}, spread={ZONE: 1})
    builder.stateful_set("db", on={"a-2": 1, "b-2": 1, "c-2": 1}, spread={ZONE: 1, HOSTNAME: 2})
    builder.budget("web", max_unavailable="40%")
    builder.budget("db", min_available=2)
    return SimulatedCluster(builder.snapshot(), seed=seed, choose=choose)


def run(seed: int, acts: list[Act], choose: Choose | None = None) -> SimulatedCluster:
    simulated, random = start(seed, choose), Random(seed)
    for act in acts:
        act(simulated, random)
        whole(simulated.snapshot(simulated.now))
    return simulated


def whole(snapshot: Snapshot) -> None:
    """No two pods share a name or a UID, none is on an infeasible node, no budget is negative."""
    assert len({(pod.namespace, pod.name) for pod in snapshot.pods}) == len(snapshot.pods)
    assert len(snapshot.pod) == len(snapshot.pods)
    assert all(pod.node is not None for pod in snapshot.pods if pod.ready or pod.terminating)
    assert all(budget.allowed >= 0 for budget in snapshot.budgets)


seeds = st.integers(0, 2**32)
choices = st.sampled_from([None, pick_most_crowded])


@examples(60)
@given(seeds, st.lists(st.sampled_from(EVERYTHING), max_size=25), choices)
def test_every_workload_is_whole_again_when_it_is_left_in_peace(
    seed: int, acts: list[Act], choose: Choose | None
) -> None:
    """No pod is lost and none is too many, once all nodes are back and nothing more is due."""
    simulated = run(seed, acts, choose)
    for _ in range(6):
        restore(simulated, Random(0))
    simulated.advance(900)
    assert simulated.next_due is None
    snapshot = simulated.snapshot(simulated.now)
    whole(snapshot)
    for workload in snapshot.workloads:
        pods = snapshot.pods_of.get(workload.uid, ())
        assert (workload.current, workload.ready, workload.updated) == (workload.replicas,) * 3
        if workload.kind != "Deployment":
            assert sum(pod.ready and not pod.terminating for pod in pods) == len(pods) == workload.replicas
    assert len(snapshot.pods) == sum(
        workload.replicas for workload in snapshot.workloads if workload.kind != "Deployment"
    )


@examples(60)
@given(seeds, st.lists(st.sampled_from(EVICTING), max_size=60), choices)
def test_evictions_alone_never_overspend_a_budget(seed: int, acts: list[Act], choose: Choose | None) -> None:
    simulated, random = start(seed, choose), Random(seed)
    for act in acts:
        act(simulated, random)
        snapshot = simulated.snapshot(simulated.now)
        for budget in snapshot.budgets:
            assert budget.selector is not None
            healthy = sum(
                pod.ready and not pod.terminating for pod in snapshot.pods if budget.selector.matches(pod.labels)
            )
            assert healthy >= budget.desired_healthy


@examples(25)
@given(seeds, st.lists(st.sampled_from(EVERYTHING), max_size=20))
def test_the_same_seed_gives_the_same_history(seed: int, acts: list[Act]) -> None:
    first, second = run(seed, acts), run(seed, acts)
    assert first.trace == second.trace
    assert first.snapshot(first.now) == second.snapshot(second.now)


def test_another_seed_gives_another_history() -> None:
    acts: list[Act] = [evict, wait, evict, wait] * 5
    histories = [run(seed, acts).trace for seed in range(3)]
    assert histories[0] != histories[1] != histories[2]


def test_a_history_tells_of_each_pod_that_came_and_went() -> None:
    simulated = run(7, [evict, wait, remove, wait, wait, restore, scale, wait] * 5)
    names = {f"Pod {pod}" for pod in start(7, None).snapshot(simulated.now).pods}
    alive: dict[str, int] = dict.fromkeys(names, 1)
    for entry in simulated.trace:
        alive[entry.object] = alive.get(entry.object, 0) + _change(entry)
    there = sorted(f"Pod {pod}" for pod in simulated.snapshot(simulated.now).pods)
    assert sorted(name for name, number in alive.items() if name.startswith("Pod ") and number) == there


def _change(entry: TraceEntry) -> int:
    return {TraceKind.CREATED: 1, TraceKind.GONE: -1}.get(entry.kind, 0)


@pytest.mark.parametrize("seed", range(5))
def test_placement_never_breaks_a_hard_constraint(seed: int) -> None:
    """With all nodes present, each scale-up stays within the constraints, whatever the tie-break."""
    simulated = start(seed, pick_random_best(Random(seed)))
    simulated.scale("default", "Deployment", "web", 17)
    simulated.advance(120)
    snapshot = simulated.snapshot(simulated.now)
    counts = dict.fromkeys("abc", 0)
    for pod in snapshot.pods:
        if pod.labels["app"] == "web" and pod.node is not None:
            counts[snapshot.node[pod.node].labels[ZONE]] += 1
    assert max(counts.values()) - min(counts.values()) <= 1
