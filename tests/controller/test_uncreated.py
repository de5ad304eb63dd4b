"""A namespace in which replacements cannot be created: it stops, is reported, survives restarts, and goes on."""

from collections import Counter
from datetime import timedelta

import pytest
from msgspec import structs

from rebalancer.controller.status import status_document
from rebalancer.model.reasons import Reason
from rebalancer.policy import Amount, Budgets
from rebalancer.simulator import ZONE, SimulatedCluster, TraceKind
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager

QUOTA = "exceeded quota: pods"
WORKLOADS = 30


def skewed(*, stateful: bool = False) -> SimulatedCluster:
    """Return a cluster with workloads in two namespaces, each of which needs one eviction."""
    blueprint = a_cluster("abc", 2)
    for namespace, number in (("shop", WORKLOADS), ("other", 3)):
        for index in range(number):
            make = blueprint.stateful_set if stateful else blueprint.deployment
            make(f"web-{index}", namespace=namespace, on={"a-1": 2, "b-1": 2}, spread={ZONE: 1})
    return SimulatedCluster(blueprint.snapshot(), seed=1)


def accept_pods(cluster: SimulatedCluster, namespace: str) -> None:
    """Refuse no more pods of a namespace; its controllers, which have tried again and again, try now."""
    del cluster.state.refused_pods[namespace]
    workloads = cluster.state.store.workloads
    for workload in tuple(workloads):
        if workload.namespace == namespace:
            workloads.put(structs.replace(workload, observed=False))


def evicted(simulation: Simulation) -> Counter[str]:
    """Count the evictions by namespace."""
    events = [entry for entry in simulation.cluster.trace if entry.kind is TraceKind.EVICTED]
    return Counter(entry.object.removeprefix("Pod ").partition("/")[0] for entry in events)


def blocking_events(simulation: Simulation) -> list[str]:
    trace = simulation.cluster.trace
    return [entry.detail for entry in trace if entry.kind is TraceKind.EVENT and "EvictionBlocked" in entry.detail]


def blocked(simulation: Simulation) -> list[tuple[str, str]]:
    document = status_document(simulation.runner.state, "one", "policy.yaml")
    return [(entry.namespace, entry.failure) for entry in document.breaker.namespaces]


@pytest.mark.parametrize(
    ("stateful", "per_cycle", "most"), [(False, 4, 4), (True, 1, 14)], ids=["ReplicaSets", "StatefulSets"]
)
def test_a_namespace_without_replacements_stops_and_goes_on_once_they_are_created(
    stateful: bool, per_cycle: int, most: int
) -> None:
    """Few workloads lose a pod, for as long as it takes and whatever restarts; other namespaces are repaired.

    A StatefulSet does not say what is wrong, and has 30 seconds from when its pod is gone.
    """
    budgets = Budgets(per_namespace=Amount(value=per_cycle), per_node=Amount(value=50))
    policy = eager(budgets=budgets).model_copy(update={"interval": timedelta(seconds=5)})
    simulation = Simulation(skewed(stateful=stateful), policy)
    simulation.cluster.state.refused_pods["shop"] = QUOTA
    simulation.cycles(20, apart=5)
    lost = evicted(simulation)["shop"]
    for _ in range(4):
        simulation.restart()
        simulation.cycles(30, apart=10)
    assert 1 <= lost == evicted(simulation)["shop"] <= most
    assert evicted(simulation)["other"] == 3
    failure = "" if stateful else QUOTA
    assert blocked(simulation) == [("shop", failure)]
    events = blocking_events(simulation)
    assert len(events) == lost
    assert all(failure in event for event in events)
    cycle = simulation.runner.state.cycle
    assert cycle is not None
    assert {waiting.reason for waiting in cycle.fates.kept} <= {Reason.CANNOT_CREATE}
    accept_pods(simulation.cluster, "shop")
    simulation.cycles(40, apart=10)
    assert evicted(simulation) == {"shop": WORKLOADS, "other": 3}
    assert blocked(simulation) == []
