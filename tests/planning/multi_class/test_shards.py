"""Clusters of shards that were skewed by lost nodes: proved, and repaired step by step by the proved number."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from benchmarks.component_states import shards
from rebalancer.policy import Spread
from rebalancer.scheduling.place import Choose
from rebalancer.simulator import SimulatedCluster, pick_most_crowded
from tests.controller.simulated import Simulation
from tests.planning.build import planned
from tests.planning.scenes import Scene


@dataclass(frozen=True)
class Outcome:
    """What a repair took, what is left, and what the last plan would still take."""

    evictions: int
    waiting: int
    left: int


def played(scene: Scene, *, choose: Choose | None = None) -> Outcome:
    """Let the controller repair a scene on the simulated cluster until it has evicted nothing for three minutes."""
    policy = scene.policy().model_copy(update={"spread": Spread(for_=timedelta(0))})
    cluster = SimulatedCluster(scene.snapshot(), choose=choose)
    simulation, idle = Simulation(cluster, policy), 0
    while idle < 3:
        before = simulation.evictions
        simulation.cycles(1, apart=60)
        idle = idle + 1 if simulation.evictions == before else 0
    after = cluster.snapshot(cluster.now)
    left = sum(group.evictions or 1 for group in planned(after, policy).components)
    return Outcome(simulation.evictions, sum(pod.node is None for pod in after.pods), left)


@pytest.mark.parametrize("skew", [(1, 1), (1, 2), (2, 1)])
@pytest.mark.parametrize("lost", ["z0", 5])
def test_shards_are_repaired_by_the_proved_number(skew: tuple[int, int], lost: int | str) -> None:
    """Twelve shards on 18 nodes, whichever feasible node the scheduler prefers: all evictions count, nothing waits."""
    scene = shards(1, sets=12, nodes=18, skew=skew, lost=lost)
    (group,) = planned(scene.snapshot(), scene.policy()).components
    assert group.optimal
    assert played(scene) == Outcome(group.evictions, 0, 0)
    assert played(scene, choose=pick_most_crowded) == Outcome(group.evictions, 0, 0)


@pytest.mark.parametrize("lost", ["z0", 12, 25])
def test_66_shards_have_a_step(lost: int | str) -> None:
    """On 100 nodes the least number is proved and a forced step found."""
    scene = shards(4, lost=lost)
    plan = planned(scene.snapshot(), scene.policy())
    (group,) = plan.components
    assert group.optimal
    assert [eviction.forced for eviction in plan.fates.going] == [True]
