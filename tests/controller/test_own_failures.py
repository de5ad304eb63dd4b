"""A namespace's own failure holds that namespace: one tenant's images do not hold up the workloads of all others."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from rebalancer.model.breaker import BreakerCause
from rebalancer.model.moves import OwnFailure
from rebalancer.model.pods import PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy, default_policy
from rebalancer.simulator import ZONE, SimulatedCluster
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager
from tests.controller.test_uncreated import evicted
from tests.drawing import scaled

SHIPPED = eager(slow_start=True, budgets=default_policy().budgets, interval=timedelta(seconds=5))
TENANTS = 3
HONEST = 12


def skewed(tenant: str, *, workloads: int = 1) -> Snapshot:
    """Return workloads of two honest and a tenant's three namespaces, each with its own image, one eviction each."""
    blueprint = a_cluster("abc", 24)
    spaces = [(f"{tenant}-{number}", f"web-{one}") for number in range(TENANTS) for one in range(workloads)]
    spaces += [(f"shop-{number % 4}", f"web-{number}") for number in range(HONEST)]
    for number, (namespace, name) in enumerate(spaces, start=1):  # few on a node: its rate must not hold them back
        on = {f"{zone}-{number + further}": 1 for zone in "ab" for further in (0, 1)}
        blueprint.deployment(name, namespace=namespace, on=on, spread={ZONE: 1})
    snapshot = blueprint.snapshot()

    def with_image(spec: PodSpec, namespace: str) -> PodSpec:
        return structs.replace(spec, images=(f"registry.example/{namespace}:1",))

    pods = tuple(structs.replace(pod, spec=with_image(pod.spec, pod.namespace)) for pod in snapshot.pods)
    workloads_with = tuple(
        structs.replace(one, template=structs.replace(one.template, spec=with_image(one.template.spec, one.namespace)))
        if one.template is not None
        else one
        for one in snapshot.workloads
    )
    return replace(snapshot, pods=pods, workloads=workloads_with)


def started(snapshot: Snapshot, seed: int, *missing: str, policy: Policy = SHIPPED) -> Simulation:
    cluster = SimulatedCluster(snapshot, seed=seed)
    cluster.state.missing_images.update(missing)
    return Simulation(cluster, policy)


def unrepaired(simulation: Simulation) -> set[str]:
    """Return the honest workloads without a Ready pod in zone c."""
    there = {
        (pod.namespace, pod.labels["app"])
        for pod in simulation.cluster.state.store.pods
        if pod.ready and (pod.node or "").startswith("c")
    }
    return {f"shop-{n % 4}/web-{n}" for n in range(HONEST) if (f"shop-{n % 4}", f"web-{n}") not in there}


@pytest.mark.parametrize("tenant", ["aaa", "zzz"], ids=["probed first", "probed last"])
@pytest.mark.parametrize(("workloads", "seconds", "each"), [(1, 60, 1), (3, 75, 2)])
def test_a_tenants_missing_images_do_not_hold_up_the_workloads_of_others(
    tenant: str, workloads: int, seconds: int, each: int
) -> None:
    """All of them are repaired in a minute; the tenant loses a pod of one workload in each of its namespaces.

    Where it has several workloads, the second one shows that it is the namespace. A restart changes nothing.
    """
    missing = [f"registry.example/{tenant}-{number}:1" for number in range(TENANTS)]
    for seed in range(scaled(5)):
        simulation = started(skewed(tenant, workloads=workloads), seed, *missing)
        simulation.cycles(seconds, apart=1)
        assert not unrepaired(simulation)
        for _ in range(3):
            simulation.restart()
            simulation.cycles(30, apart=5)
        lost = evicted(simulation)
        assert sum(number for namespace, number in lost.items() if namespace.startswith("shop")) == HONEST
        assert all(lost[f"{tenant}-{number}"] <= each for number in range(TENANTS))
        own = [one.own_failure for one in simulation.runner.state.memory.moves if one.overdue]
        assert OwnFailure.IMAGE in own


def test_a_registry_that_serves_nobody_holds_the_cluster() -> None:
    """Each namespace has images of its own, so that it may be their failure: the probes soon say that it is not."""
    for seed in range(scaled(5)):
        snapshot = skewed("zzz", workloads=3)
        images = {image for pod in snapshot.pods for image in pod.spec.images}
        simulation = started(snapshot, seed, *images)
        simulation.cycles(60, apart=1)
        assert 2 <= evicted(simulation).total() <= 6
        cycle = simulation.runner.state.cycle
        assert cycle is not None
        assert [known.cause for known in cycle.context.breaker.causes] == [BreakerCause.REPLACEMENTS]
        simulation.cycles(60, apart=10)
        assert evicted(simulation).total() <= 10
        simulation.cluster.state.missing_images.clear()
        simulation.cycles(60, apart=10)
        assert not unrepaired(simulation)
