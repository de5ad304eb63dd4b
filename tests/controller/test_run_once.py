"""`run --once` on the simulated cluster: it repairs without idle waiting, and without a busy loop."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from rebalancer.admission.guards import Verdict
from rebalancer.controller.run_once import RunOnce, time_to_next_cycle
from rebalancer.controller.state import InForce, Leadership, LoopState
from rebalancer.policy import Guard, Guards, Mode, Prometheus, RepairBy, RepairMethod
from rebalancer.simulator import SimulatedCluster
from tests.controller.simulated import Simulation, eager, skewed
from tests.controller.test_guards import PLENTY, Asked
from tests.controller.test_guards import skewed as without_budgets

INTERVAL = timedelta(minutes=10)


def run_once(mode: Mode, interval: timedelta = INTERVAL, ready: int = 0) -> tuple[Simulation, float, int]:
    """Run until it is done; return the simulation, how many seconds it took, and how many cycles."""
    snapshot = skewed([[3, 3], [3, 3], [0, 0]], 1, 1).snapshot()
    workloads = tuple(structs.replace(workload, min_ready_seconds=ready) for workload in snapshot.workloads)
    cluster = SimulatedCluster(replace(snapshot, workloads=workloads), seed=1)
    simulation = Simulation(cluster, eager(mode, interval=interval))
    began, once, cycles = cluster.now, RunOnce(), 0
    while True:
        simulation.runner.tick()
        cycles += 1
        state = simulation.runner.state
        if once.is_done(state):
            return simulation, (cluster.now - began).total_seconds(), cycles
        cluster.advance(time_to_next_cycle(state).total_seconds())


def test_a_repair_takes_as_long_as_its_replacements_not_an_interval_for_each() -> None:
    """Four evictions, one after the other, end long before the first interval does, at most one cycle in 2 seconds."""
    simulation, seconds, cycles = run_once(Mode.EVICT)
    assert simulation.evictions == 4
    assert 0 < seconds < INTERVAL.total_seconds()
    assert cycles <= seconds / 2 + 1


@pytest.mark.parametrize("ready", [10, 30, 60])
def test_a_repair_waits_for_pods_that_count_as_available_late(ready: int) -> None:
    """With minReadySeconds a replacement is unavailable for a while after it is Ready, and the next eviction waits."""
    simulation, _, _ = run_once(Mode.EVICT, timedelta(minutes=1), ready)
    assert simulation.evictions == 4
    cycle = simulation.runner.state.cycle
    assert cycle is not None
    assert not cycle.assessment.violated


def test_a_violation_that_cannot_be_repaired_is_looked_at_three_times_seconds_apart() -> None:
    """In Observe nothing can be done: the third cycle is the last one."""
    simulation, seconds, cycles = run_once(Mode.OBSERVE)
    assert (simulation.evictions, seconds, cycles) == (0, 10.0, 3)


def test_what_is_to_be_repaired_by_adding_pods_first_is_left_to_a_controller_that_stays() -> None:
    """Nothing is evicted instead, and no workload is scaled by a process that ends before its pods are Ready."""
    cluster = SimulatedCluster(skewed([[3, 3], [3, 3], [0, 0]], 1, 1).snapshot(), seed=1)
    before = {workload.uid: workload.replicas for workload in cluster.snapshot(cluster.now).workloads}
    repair = RepairBy(method=RepairMethod.SURGE, namespaces=("*",), over_budget=("*",))
    simulation, once = Simulation(cluster, eager(interval=INTERVAL, repair=repair)), RunOnce()
    simulation.runner.tick()
    while not once.is_done(simulation.runner.state):
        cluster.advance(time_to_next_cycle(simulation.runner.state).total_seconds())
        simulation.runner.tick()
    assert simulation.evictions == 0
    assert {workload.uid: workload.replicas for workload in cluster.snapshot(cluster.now).workloads} == before


def test_it_never_waits_longer_than_the_interval() -> None:
    """A policy with a short interval is followed."""
    _, seconds, cycles = run_once(Mode.OBSERVE, timedelta(seconds=1))
    assert (seconds, cycles) == (2.0, 3)


@pytest.mark.parametrize("leads", [True, False])
def test_before_the_first_cycle_it_waits_for_the_lease(leads: bool) -> None:
    """Whoever wins the lease is woken, so there is no reason to look before."""
    policy = eager(interval=INTERVAL)
    state = LoopState(
        leadership=Leadership(leads=leads),
        in_force=InForce(policy=policy, policy_since=SimulatedCluster(skewed([[1]], 1, 1).snapshot()).now),
    )
    assert time_to_next_cycle(state) == INTERVAL


@pytest.mark.parametrize("verdict", list(Verdict))
def test_it_waits_for_guards_as_long_as_they_are_good(verdict: Verdict) -> None:
    """Then each step has its time; where one is not good, two intervals and no eviction."""
    query = Guard(name="errors", query="errors > 5", present="up == 1", for_=timedelta(seconds=150))
    guards = Guards(prometheus=Prometheus(url="http://prometheus:9090"), queries=(query,))
    cluster = without_budgets()
    asked = Asked(cluster.seconds)
    asked.verdict = verdict
    policy = eager(Mode.EVICT, interval=timedelta(minutes=1), guards=guards, budgets=PLENTY)
    simulation, once, began = Simulation(cluster, policy, monitoring=asked), RunOnce(), cluster.now
    while True:
        simulation.runner.tick()
        if once.is_done(simulation.runner.state):
            break
        cluster.advance(time_to_next_cycle(simulation.runner.state).total_seconds())
    seconds = (cluster.now - began).total_seconds()
    if verdict is Verdict.GOOD:
        assert simulation.evictions == 9
        assert 9 * 150 <= seconds < 9 * 180
    else:
        assert simulation.evictions == 0
        assert 120 <= seconds <= 130
