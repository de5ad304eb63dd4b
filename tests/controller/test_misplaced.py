"""A namespace in which something changes new pods unseen: it stops after the first move, ten minutes, others go on."""

from collections import Counter
from datetime import timedelta

import pytest
from msgspec import structs

from rebalancer.admission.misplaced import ReplacementMisplaced
from rebalancer.controller.status import status_document
from rebalancer.model.labels import Labels
from rebalancer.model.moves import Target
from rebalancer.model.pods import Pod
from rebalancer.model.reasons import Reason
from rebalancer.model.workloads import Workload
from rebalancer.simulator import ZONE, SimulatedCluster, TraceKind
from rebalancer.simulator.pod_factory import PodFactory
from rebalancer.tracking.misplaced import MISPLACED_WAIT
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager

WORKLOADS = 6
EVERY = 10
"""Seconds between two cycles."""


def skewed() -> SimulatedCluster:
    """Return a cluster with workloads in two namespaces, each of which needs one eviction."""
    blueprint = a_cluster("abc", 2)
    for namespace, number in (("shop", WORKLOADS), ("other", 3)):
        for index in range(number):
            blueprint.deployment(f"web-{index}", namespace=namespace, on={"a-1": 2, "b-1": 2}, spread={ZONE: 1})
    return SimulatedCluster(blueprint.snapshot(), seed=1)


def simulate() -> Simulation:
    policy = eager(slow_start=True).model_copy(update={"interval": timedelta(seconds=EVERY)})
    return Simulation(skewed(), policy)


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the namespaces in which the simulated API server lets new pods select the nodes of zone b."""
    namespaces: set[str] = set()
    make = PodFactory.next_pod

    def changed(factory: PodFactory, owner: Workload, name: str) -> Pod | None:
        pod = make(factory, owner, name)
        if pod is None or pod.namespace not in namespaces:
            return pod
        affinity = structs.replace(pod.spec.node_affinity, selector=Labels({ZONE: "b"}))
        return structs.replace(pod, spec=structs.replace(pod.spec, node_affinity=affinity))

    monkeypatch.setattr(PodFactory, "next_pod", changed)
    return namespaces


def evicted(simulation: Simulation) -> Counter[str]:
    """Count the evictions by namespace."""
    events = [entry for entry in simulation.cluster.trace if entry.kind is TraceKind.EVICTED]
    return Counter(entry.object.removeprefix("Pod ").partition("/")[0] for entry in events)


def refusals(simulation: Simulation) -> set[object]:
    cycle = simulation.runner.state.cycle
    assert cycle is not None
    return {waiting.refusal for waiting in cycle.fates.kept}


def test_after_its_first_ineffective_move_a_namespace_waits_ten_minutes_and_goes_on(webhook: set[str]) -> None:
    """Whatever restarts; others are repaired meanwhile, and it is said where the pod was expected and where it is."""
    webhook.add("shop")
    simulation = simulate()
    begun = simulation.cluster.now
    simulation.cycles(12, apart=EVERY)
    assert evicted(simulation) == {"shop": 1, "other": 3}
    (refusal,) = refusals(simulation)
    assert isinstance(refusal, ReplacementMisplaced)
    assert (refusal.workload.namespace, refusal.reason) == ("shop", Reason.BACK_OFF)
    assert (refusal.expected, refusal.landed) == ((Target(ZONE, ("c",)),), (Target(ZONE, ("b",)),))
    assert timedelta() < refusal.until - MISPLACED_WAIT - begun <= timedelta(minutes=1)
    assert "was expected in zone c and became Ready in zone b: " in str(refusal)
    (held,) = status_document(simulation.runner.state, "one", "policy.yaml").holds
    assert (held.scope, held.message, held.until) == ("namespace shop", str(refusal), refusal.until)
    webhook.clear()
    while simulation.cluster.now + timedelta(seconds=EVERY) < refusal.until:
        simulation.restart()
        simulation.cycles(1, apart=EVERY)
    assert evicted(simulation)["shop"] == 1
    simulation.cycles(40, apart=EVERY)
    assert refusals(simulation) == set()
    assert evicted(simulation)["shop"] >= WORKLOADS


def test_where_nothing_lands_elsewhere_nothing_waits(webhook: set[str]) -> None:
    """So that the promise above is about the webhook."""
    simulation = simulate()
    simulation.cycles(30, apart=EVERY)
    assert evicted(simulation) == {"shop": WORKLOADS, "other": 3}


def test_while_it_lasts_a_namespace_loses_one_pod_in_ten_minutes(webhook: set[str]) -> None:
    webhook.add("shop")
    simulation = simulate()
    simulation.cycles(3 * 66, apart=EVERY)
    assert evicted(simulation)["shop"] == 4
