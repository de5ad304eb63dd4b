"""The whole loop on the simulated cluster: what it promises, whatever the scheduler and the network do."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.adapters.simulator import HOSTNAME, ZONE, Blueprint, Faults, SimulatedCluster, most_crowded
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.distance import distance
from rebalancer.policy import Mode
from rebalancer.ports import EvictionResult
from tests.controller.simulated import Simulation, eager
from tests.planning.states import bounds, state

ZONES = "abc"


def lopsided(counts: list[list[int]], zone: int, host: int, *, stateful: bool = False) -> Blueprint:
    """Build zones of nodes that hold so many pods of one workload, with a budget of one."""
    blueprint = Blueprint()
    on = {}
    for name, nodes in zip(ZONES, counts, strict=False):
        blueprint.zones([name], len(nodes))
        on.update({f"{name}-{number}": held for number, held in enumerate(nodes, start=1)})
    add = blueprint.stateful_set if stateful else blueprint.deployment
    add("web", on=on, spread={ZONE: zone, HOSTNAME: host})
    blueprint.budget("web", max_unavailable=1)
    return blueprint


def standing(snapshot: Snapshot, counts: list[list[int]]) -> list[list[int]]:
    """Count the workload's pods by node, in the shape of the layout."""
    held = Counter(pod.node for pod in snapshot.pods if not pod.terminating)
    return [[held[f"{name}-{n}"] for n in range(1, len(nodes) + 1)] for name, nodes in zip(ZONES, counts, strict=False)]


layout = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=2, max_size=3).filter(
    lambda counts: sum(map(sum, counts)) >= 2
)
skew = st.integers(1, 2)


@given(layout, skew, skew, st.integers(0, 2**32), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_repair(counts: list[list[int]], zone: int, host: int, seed: int, stateful: bool, crowded: bool) -> None:
    """Each eviction lowers the distance by one, nothing stays pending, no budget is overspent, and then it is quiet."""
    blueprint = lopsided(counts, zone, host, stateful=stateful)
    cluster = SimulatedCluster(blueprint.snapshot(), seed=seed, choose=most_crowded if crowded else None)
    simulation = Simulation(cluster, eager())
    before = distance(state(counts), bounds(zone, host), 0)
    simulation.cycles(3 * (before or 0) + 5, apart=30)
    cluster.advance(120)
    snapshot = cluster.snapshot(cluster.now)
    assert not [pod for pod in snapshot.pods if pod.waiting]
    assert len(snapshot.pods) == sum(map(sum, counts))
    assert set(simulation.observer.answers) <= {EvictionResult.EVICTED}, "planned within the budget: nothing is refused"
    after = distance(state(standing(snapshot, counts)), bounds(zone, host), 0)
    if before is None:
        assert simulation.evictions == 0
    else:
        assert after == before - simulation.evictions
    quiet = simulation.evictions
    simulation.cycles(5)
    assert simulation.evictions == quiet


@given(layout, st.integers(0, 2**32), st.floats(0, 0.5), st.floats(0, 20), st.lists(st.booleans(), max_size=12))
@settings(max_examples=60, deadline=None)
def test_restarts_lost_answers_and_stale_watches(
    counts: list[list[int]], seed: int, lost: float, delay: float, restarts: list[bool]
) -> None:
    """A restart at any cycle, lost answers and old views never cost an eviction too many, nor a budget."""
    faults = Faults(lost_answers=lost, watch_delay=delay)
    cluster = SimulatedCluster(lopsided(counts, 1, 1).snapshot(), seed=seed, faults=faults)
    simulation = Simulation(cluster, eager())
    before = distance(state(counts), bounds(1, 1), 0)
    for restart in restarts:
        if restart:
            simulation.restart()
        simulation.cycles(1, apart=15)
    simulation.cycles(2 * (before or 0) + 5, apart=60)
    cluster.advance(300)
    snapshot = cluster.snapshot(cluster.now)
    assert not [pod for pod in snapshot.pods if pod.waiting]
    gone = sum(1 for pod in lopsided(counts, 1, 1).snapshot().pods if pod.uid not in snapshot.pod)
    after = distance(state(standing(snapshot, counts)), bounds(1, 1), 0)
    if before is not None and after is not None:
        assert gone <= before - after


def test_a_zone_that_returns() -> None:
    """Twelve pods on two of three zones: four evictions, one each, and the cluster stands even."""
    cluster = SimulatedCluster(lopsided([[3, 3], [3, 3], [0, 0]], 1, 1).snapshot(), seed=1)
    simulation = Simulation(cluster, eager())
    simulation.cycles(20)
    assert simulation.evictions == 4
    assert standing(cluster.snapshot(cluster.now), [[0, 0]] * 3) == [[2, 2]] * 3


def test_observing() -> None:
    """In Observe nothing is evicted, and the plan says why."""
    cluster = SimulatedCluster(lopsided([[3, 3], [3, 3], [0, 0]], 1, 1).snapshot())
    simulation = Simulation(cluster, eager(Mode.OBSERVE))
    simulation.cycles(5)
    assert simulation.evictions == 0
    cycle = simulation.runner.state.cycle
    assert cycle is not None
    assert {each.reason for each in cycle.admission.waiting} == {"ObserveOnly"}
    assert cycle.plan.lower_bound == 4


def test_the_same_seed_gives_the_same_history() -> None:
    """A run can be replayed to the byte."""

    def history() -> list[object]:
        cluster = SimulatedCluster(lopsided([[4, 2], [3], [0, 0]], 1, 2).snapshot(), seed=7)
        Simulation(cluster, eager()).cycles(15)
        return list(cluster.history)

    assert history() == history()
