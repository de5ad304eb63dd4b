"""What a new leader reads of the moves that the last one has stored, and what it does then."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from rebalancer.controller.runner import run_at_once
from rebalancer.controller.takeover import READ_SECONDS, find_remaining
from rebalancer.documents.memory import parse_memory
from rebalancer.model.moves import Memory, Move, MoveState
from rebalancer.ports import MEMORY_KEY, EvictionResult, ReadFailedError
from rebalancer.simulator import SimulatedCluster
from rebalancer.tracking.moves import ANSWER_TIMEOUT
from tests.controller.simulated import Simulation, eager, skewed
from tests.scheduling.build import NOW
from tests.tracking.build import move

UIDS = ["a", "b", "c"]


class Pods(SimulatedCluster):
    """A cluster in which some pods are as they were, and others cannot be read; each read takes a while."""

    def __init__(self, *, remain: set[str], unreadable: frozenset[str] = frozenset(), takes: float = 0.0) -> None:
        super().__init__(skewed([[3], [1], [1]], budget=None).snapshot())
        self._remain, self._unreadable, self._takes = remain, unreadable, takes
        self.read: list[str] = []

    def pod_remains(self, move: Move) -> bool:
        """Read the pod."""
        self.read.append(move.uid)
        self.advance(self._takes)
        if move.uid in self._unreadable:
            raise ReadFailedError("HTTP 500")
        return move.uid in self._remain


def test_the_pods_of_planned_moves_are_read() -> None:
    """No others: what was granted is followed anyway."""
    moves = [move(uid, NOW) for uid in UIDS]
    cluster = Pods(remain={"b", "granted"})
    memory = Memory(moves=(*moves, move("granted", NOW, state=MoveState.EVICTED)))
    assert find_remaining(cluster, memory, cluster.seconds) == {"b"}
    assert cluster.read == UIDS


def test_after_a_pod_that_cannot_be_read_no_other_is() -> None:
    """The Lease must be renewed meanwhile; those that were read before count."""
    cluster = Pods(remain={*UIDS}, unreadable=frozenset({"b"}))
    with capture_logs() as logs:
        remaining = find_remaining(cluster, Memory(moves=tuple(move(uid, NOW) for uid in UIDS)), cluster.seconds)
    assert remaining == {"a"}
    assert cluster.read == ["a", "b"]
    assert [(entry["pods"], entry["error"]) for entry in logs if entry["log_level"] == "warning"] == [(2, "HTTP 500")]


def test_reading_ends_after_a_while() -> None:
    cluster = Pods(remain={*UIDS}, takes=READ_SECONDS * 0.6)
    remaining = find_remaining(cluster, Memory(moves=tuple(move(uid, NOW) for uid in UIDS)), cluster.seconds)
    assert remaining == {"a", "b"}


def killed_before_its_request(cluster: SimulatedCluster) -> tuple[Simulation, list[Callable[[], None]]]:
    """Return a controller that was started anew, and the requests that the last one had stored and not yet sent."""
    requests: list[Callable[[], None]] = []
    simulation = Simulation(cluster, eager(), spawn=requests.append)
    simulation.runner.tick()
    (planned,) = parse_memory(cluster.load(MEMORY_KEY)).in_flight
    assert planned.state is MoveState.PLANNED
    cluster.advance(20)
    simulation._spawn = run_at_once
    simulation.restart()
    return simulation, requests


def test_what_was_never_requested_is_requested_in_the_first_cycle() -> None:
    """And counts as violated until then; with the first eviction all is repaired."""
    cluster = SimulatedCluster(skewed([[3], [1], [1]], budget=None).snapshot(), seed=1)
    simulation, _ = killed_before_its_request(cluster)
    simulation.runner.tick()
    assert simulation.runner.state.cycle is not None
    assert simulation.runner.state.cycle.assessment.violated
    assert simulation.evictions == 1
    simulation.cycles(20)
    assert simulation.evictions == 1
    assert not simulation.runner.state.cycle.assessment.violated


@pytest.mark.parametrize("seconds", [0.0, 30.0, 90.0])
def test_a_request_that_is_carried_out_late_costs_nothing_more(seconds: float) -> None:
    """Whenever it arrives within the time in which the API server may carry it out, one pod goes in all."""
    cluster = SimulatedCluster(skewed([[3], [1], [1]], budget=None).snapshot(), seed=1)
    (late,) = killed_by(cluster)
    simulation = Simulation(cluster, eager())
    simulation.runner._may_act = lambda _: False  # it plans, and sends nothing
    simulation.runner.tick()
    cluster.advance(seconds)
    cluster.evict(late)
    simulation.runner._may_act = lambda _: True
    simulation.cycles(30)
    gone = {pod.uid for pod in skewed([[3], [1], [1]], budget=None).snapshot().pods} - {
        pod.uid for pod in cluster.snapshot(cluster.now).pods
    }
    assert gone == {late.uid}
    assert EvictionResult.EVICTED not in simulation.observer.answers


def killed_by(cluster: SimulatedCluster) -> tuple[Move, ...]:
    """Return the planned moves that a killed process has left behind."""
    Simulation(cluster, eager(), spawn=lambda _: None).runner.tick()
    return parse_memory(cluster.load(MEMORY_KEY)).in_flight


def test_while_it_may_be_carried_out_no_other_pod_of_the_workload_goes() -> None:
    """Though the plan has changed to another pod, and until the two minutes are over."""
    cluster = SimulatedCluster(skewed([[4], [1], [1]], budget=None).snapshot(), seed=1)
    (planned,) = killed_by(cluster)
    stored = parse_memory(cluster.load(MEMORY_KEY))
    others = [pod for pod in cluster.snapshot(cluster.now).pods if pod.node == "a-1" and pod.uid != planned.uid]
    another = structs.replace(planned, uid=others[-1].uid, pod=others[-1].name)
    assert others[-1].uid != planned.uid
    simulation = Simulation(cluster, eager())
    simulation.runner.drain()
    memory = structs.replace(stored, moves=(structs.replace(another, unexecuted=True),))
    simulation.runner.state = replace(simulation.runner.state, memory=memory)
    while cluster.now < planned.requested_at + ANSWER_TIMEOUT:
        simulation.runner.tick()
        cycle = simulation.runner.state.cycle
        assert cycle is not None
        assert cycle.assessment.violated
        assert simulation.evictions == 0
        possible = cycle.plan.fates.going
        assert {str(one.reason) for one in cycle.fates.kept if one.eviction in possible} == {"GroupInFlight"}
        cluster.advance(10)
    simulation.runner.tick()
    assert simulation.evictions == 1
