"""Early cycles: what calls for one, and what does not."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import msgspec
import pytest

from rebalancer.controller.runner import EARLY_SECONDS
from rebalancer.controller.state import Leading, LoopState, PauseRead, PolicyRefused, Stopping
from rebalancer.controller.triggers import Awaited, calls_for_cycle, find_awaited
from rebalancer.model.pods import Pod
from rebalancer.policy import Amount, Policy
from rebalancer.simulator import SimulatedCluster
from tests.controller.simulated import Simulation, Watching, eager, skewed
from tests.controller.test_loop import BUDGETS, CYCLE, SNAPSHOT, after, led, two_workloads
from tests.scheduling.build import node, taint

AWAITED = Awaited(frozenset({"owner"}), frozenset({"shop"}))
NODE = node("n1")
WEB = next(workload for workload in SNAPSHOT.workloads if workload.kind == "ReplicaSet")
BUDGET = msgspec.structs.replace(next(iter(skewed([[1], [1]], 1, 1).snapshot().budgets)), namespace="shop", allowed=0)


def pod(**fields: object) -> Pod:
    sample = SNAPSHOT.pods[0]
    assert sample.owner is not None
    return msgspec.structs.replace(sample, owner=msgspec.structs.replace(sample.owner, uid="owner"), **fields)


def changed(item: msgspec.Struct, **fields: object) -> msgspec.Struct:
    return msgspec.structs.replace(item, **fields)


ROLLING = changed(WEB, updated=0)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(NODE, changed(NODE, ready=False), True, id="a node is lost"),
        pytest.param(NODE, None, True, id="a node is deleted"),
        pytest.param(None, NODE, True, id="a node joins"),
        pytest.param(changed(NODE, unschedulable=True), NODE, True, id="a node is uncordoned"),
        pytest.param(NODE, changed(NODE, taints=(taint("ToBeDeletedByClusterAutoscaler"),)), True, id="an autoscaler"),
        pytest.param(NODE, changed(NODE, taints=(taint("gpu"),)), False, id="a node is tainted"),
        pytest.param(None, changed(NODE, ready=False), False, id="a node registers"),
        pytest.param(NODE, NODE, False, id="a node's heartbeat"),
        pytest.param(WEB, changed(WEB, replicas=WEB.replicas - 1), True, id="a scale-down"),
        pytest.param(WEB, changed(WEB, replicas=WEB.replicas + 1), False, id="a scale-up"),
        pytest.param(ROLLING, WEB, True, id="a rollout ends"),
        pytest.param(WEB, ROLLING, False, id="a rollout begins"),
        pytest.param(
            changed(ROLLING, revision="b", current_revision="a", partition=WEB.replicas - 1),
            changed(WEB, revision="b", current_revision="a", partition=WEB.replicas - 1, updated=1),
            True,
            id="a rollout ends at its partition",
        ),
        pytest.param(WEB, None, False, id="a workload is deleted"),
        pytest.param(None, WEB, False, id="a workload is created"),
        pytest.param(pod(ready=False), pod(), True, id="a replacement is Ready"),
        pytest.param(pod(), None, True, id="a victim is gone"),
        pytest.param(pod(), pod(ready=False), True, id="a sibling becomes unready"),
        pytest.param(None, pod(ready=False), False, id="a replacement is created"),
        pytest.param(pod(), pod(resource_version="2"), False, id="a change of no interest"),
        pytest.param(SNAPSHOT.pods[0], None, False, id="a pod of another owner"),
        pytest.param(pod(ready=False), changed(pod(), owner=None), False, id="a pod that was orphaned"),
        pytest.param(BUDGET, changed(BUDGET, allowed=1), True, id="a budget allows more"),
        pytest.param(changed(BUDGET, allowed=1), BUDGET, False, id="a budget allows less"),
        pytest.param(None, changed(BUDGET, allowed=1), False, id="a new budget"),
        pytest.param(
            changed(BUDGET, namespace="b"), changed(BUDGET, namespace="b", allowed=1), False, id="another namespace"
        ),
        pytest.param(None, None, False, id="an object that could not be read"),
    ],
)
def test_what_calls_for_a_cycle(before: object, after: object, expected: bool) -> None:  # a column
    """Only what a decision waits for, or what may have broken the spread."""
    assert calls_for_cycle(before, after, AWAITED) is expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(pod(ready=False, node=None), pod(ready=False), id="it is bound"),
        pytest.param(None, pod(ready=False), id="it is seen bound at once"),
        pytest.param(pod(ready=False), pod(ready=False, start_failure="ErrImagePull"), id="something is wrong with it"),
    ],
)
def test_while_evictions_wait_for_replacements_to_arrive_more_calls_for_a_cycle(before: object, after: object) -> None:
    assert calls_for_cycle(before, after, AWAITED._replace(arrivals=True))
    assert not calls_for_cycle(before, after, AWAITED)
    assert not calls_for_cycle(pod(ready=False), pod(ready=False), AWAITED._replace(arrivals=True))


def test_an_owner_that_says_that_it_cannot_create_a_replacement_calls_for_a_cycle() -> None:
    """Once, and only where a replacement is awaited."""
    owner = changed(WEB, uid="owner")
    refused = changed(owner, creation_failure="exceeded quota")
    assert calls_for_cycle(owner, refused, AWAITED)
    assert not calls_for_cycle(refused, refused, AWAITED)
    assert not calls_for_cycle(WEB, changed(WEB, creation_failure="exceeded quota"), AWAITED)


@pytest.mark.parametrize(
    ("policy", "due"),
    [
        (eager(budgets=BUDGETS), None),
        (eager(budgets=BUDGETS.model_copy(update={"per_cycle": Amount(value=1)})), 60),
        (eager(budgets=BUDGETS, slow_start=True), 10),
    ],
    ids=["nothing waits", "for a rate", "for replacements"],
)
def test_what_time_alone_admits_waits_no_interval_besides(policy: Policy, due: int | None) -> None:
    """A cycle is due when a rate frees, or a replacement is overdue at the latest."""
    simulation = Simulation(SimulatedCluster(two_workloads()), policy)
    simulation.runner.tick()
    seconds = simulation.runner.time_to_cycle()
    assert (round(seconds) if seconds is not None else None) == due


def test_what_is_awaited() -> None:
    """The owners of moves in flight and the namespaces of evictions that wait; who does not lead awaits nothing."""
    state, _ = after(led(policy=eager()), *CYCLE)
    (move,) = state.memory.in_flight
    assert find_awaited(state) == Awaited(frozenset({move.owner_uid}), frozenset({"default"}))
    assert find_awaited(replace(state, leadership=replace(state.leadership, leads=False))) == Awaited()
    assert find_awaited(led()) == Awaited()


def wait_until(holds: Callable[[], bool]) -> float:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < 10
        time.sleep(0.01)
    return time.monotonic() - began


def test_an_early_cycle_in_a_running_loop() -> None:
    """Changes that come together make one cycle, a second later; nothing else wakes the loop."""
    cluster = SimulatedCluster(skewed([[2, 2], [2, 2]], 1, 1).snapshot())
    cycles: list[float] = []
    began = time.monotonic()
    simulation = Simulation(cluster, eager(), cycle_ended=lambda: cycles.append(time.monotonic() - began))
    runner = simulation.runner
    runner.thread.start()
    runner.tell(Leading(leads=True))
    time.sleep(0.1)
    assert cycles == []
    for _ in range(20):
        threading.Thread(target=runner.observe, args=(NODE, None)).start()
    wait_until(lambda: bool(cycles))
    assert cycles[0] >= 0.1 + 0.9 * EARLY_SECONDS
    time.sleep(0.3)
    assert len(cycles) == 1
    runner.tell(Stopping())
    wait_until(lambda: not runner.thread.is_alive())


def test_a_change_during_a_cycle_has_another_one_follow() -> None:
    """What the cycle's snapshot does not have must not wait for the interval."""
    cluster = SimulatedCluster(skewed([[2, 2], [2, 2]], 1, 1).snapshot())

    class Changing(Watching):
        @contextmanager
        def phase(self, name: str) -> Iterator[None]:
            yield
            if name == "plan" and simulation.runner.state.turn == 0:
                simulation.runner.observe(NODE, None)

    simulation = Simulation(cluster, eager(), telling=Changing())
    simulation.runner.tick()
    assert simulation.runner.state.turn == 1
    due = simulation.runner.time_to_cycle()
    assert due is not None
    assert due <= EARLY_SECONDS
    cluster.advance(due)
    simulation.runner.ask_cycle()
    simulation.runner.drain()
    assert simulation.runner.state.turn == 2
    assert simulation.runner.time_to_cycle() is None


def test_what_is_told_together_with_a_cycle_is_known_to_one() -> None:
    """Told while the loop handles other events, it comes after the cycle that these asked for; another one follows."""

    class Telling(Watching):
        events = 0

        def changed(self, state: LoopState) -> None:
            self.events += 1
            if self.events == 2:
                simulation.runner.tell(PolicyRefused(message="trouble"))
                simulation.runner.ask_cycle()

    simulation = Simulation(SimulatedCluster(SNAPSHOT), eager(), telling=Telling())
    for _ in range(2):
        simulation.runner.tell(PauseRead(pause=None))
    simulation.runner.tick()
    assert (simulation.runner.state.in_force.policy_error, simulation.runner.state.turn) == ("trouble", 2)


def test_a_cycle_that_waits_for_answers_does_not_spin() -> None:
    """An early cycle that is due while requests hang runs after them; until then the loop sleeps."""
    cluster = SimulatedCluster(SNAPSHOT)
    hanging: list[Callable[[], None]] = []
    simulation = Simulation(cluster, eager(budgets=BUDGETS), spawn=hanging.append)
    runner = simulation.runner
    runner.tick()
    assert hanging
    assert runner.state.queue.evictions
    runner.ask_cycle_within(0)
    assert runner.time_to_cycle() == 0
    runner.tick()
    assert runner.time_to_cycle() is None
