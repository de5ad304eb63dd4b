"""Thousands of workloads that are violated at once: the repair goes on, and what must be stored stays storable."""

from datetime import timedelta

import pytest

from rebalancer.controller.status import status_documents
from rebalancer.documents.memory import parse_memory
from rebalancer.policy import Amount, Budgets
from rebalancer.ports import MEMORY_KEY, EvictionResult
from rebalancer.simulator import ZONE, SimulatedCluster
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager
from tests.drawing import scaled

LARGEST_OBJECT = 1024 * 1024
"""Bytes of a ConfigMap."""
CYCLES = 3
PER_CYCLE = 50
"""Evictions a cycle."""
BUDGETS = Budgets(per_cycle=Amount(value=PER_CYCLE), per_node=Amount(value=10))


def skewed(workloads: int, replicas: int) -> SimulatedCluster:
    """Return a cluster whose third zone is empty: a third of the pods of each workload has to go there."""
    nodes = -(-workloads * replicas // 60)
    blueprint = a_cluster("abc", nodes)
    for number in range(workloads):
        on: dict[str, int] = {}
        for index in range(replicas):
            name = f"{'ab'[index % 2]}-{(number + index // 2) % nodes + 1}"
            on[name] = on.get(name, 0) + 1
        blueprint.deployment(f"web-{number}", namespace=f"shop-{number % 50}", on=on, spread={ZONE: 1})
    return SimulatedCluster(blueprint.snapshot(), seed=1)


@pytest.mark.parametrize(
    ("workloads", "replicas"),
    [(scaled(2_500), 3), pytest.param(5_000, 30, marks=pytest.mark.thorough, id="150,000 pods")],
)
def test_however_many_are_violated_the_repair_goes_on(workloads: int, replicas: int) -> None:
    """Every cycle requests as many evictions as the rate allows; the stored objects fit their bounds."""
    simulation = Simulation(skewed(workloads, replicas), eager(budgets=BUDGETS))
    for cycle in range(1, CYCLES + 1):
        simulation.runner.tick()
        state = simulation.runner.state
        assert state.queue.unsaved == ""
        assert state.cycle is not None
        assert len(state.cycle.assessment.violated) >= workloads - cycle * PER_CYCLE
        assert simulation.observer.answers.count(EvictionResult.EVICTED) == cycle * PER_CYCLE
        assert parse_memory(simulation.cluster.load(MEMORY_KEY)).in_flight
        documents = status_documents(state, "test", "test")
        assert sum(len(document.text.encode()) for document in documents) < LARGEST_OBJECT
        simulation.cluster.advance(timedelta(minutes=1, seconds=5).total_seconds())
