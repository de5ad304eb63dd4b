"""Requests that were begun and not sent yet: what the loop has learned meanwhile holds them back."""

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from rebalancer.admission.pause import Pause
from rebalancer.controller.state import LoopEvent, PauseRead, PolicyLoaded
from rebalancer.documents.memory import memory_text, parse_memory
from rebalancer.model.moves import Memory
from rebalancer.policy import Mode
from rebalancer.ports import MEMORY_KEY
from rebalancer.simulator import SimulatedCluster
from tests.controller.simulated import Simulation, eager, skewed
from tests.tracking.build import move


@pytest.mark.parametrize(
    ("event", "why"),
    [
        pytest.param(PauseRead(pause=Pause(reason="an upgrade")), "an upgrade", id="a pause"),
        pytest.param(PolicyLoaded(policy=eager(Mode.OBSERVE)), "the mode is Observe now", id="the mode Observe"),
    ],
)
def test_a_request_that_is_about_to_be_sent_is_held_back(event: LoopEvent, why: str) -> None:
    """A pause that its watch has reported, whatever the last read of the object said; the mode Observe."""
    hanging: list[Callable[[], None]] = []
    cluster = SimulatedCluster(skewed([[4], [0]], 1, 1).snapshot())
    simulation = Simulation(cluster, eager(), spawn=hanging.append)
    simulation.runner.tick()
    (request,) = hanging
    simulation.runner.tell(event)
    simulation.runner.drain()
    with capture_logs() as logs:
        request()
    assert simulation.evictions == 0
    (held,) = (entry["why"] for entry in logs)
    assert why in held
    simulation.runner.drain()
    assert simulation.runner.state.memory.in_flight == ()


def test_what_another_process_has_stored_is_not_stored_over_without_the_lease() -> None:
    """Nothing is sent either, however often it is tried: it may be the next leader's."""
    cluster = SimulatedCluster(skewed([[4], [0]], 1, 1).snapshot())
    simulation = Simulation(cluster, eager())
    theirs = {MEMORY_KEY: memory_text(Memory(moves=(move("theirs", cluster.now),)))}
    cluster.documents = theirs
    simulation.cycles(3)
    assert simulation.evictions == 0
    assert cluster.documents == theirs
    assert simulation.runner.state.memory.moves == ()


def test_what_a_stranger_has_stored_is_stored_over_by_who_holds_the_lease() -> None:
    """The repair goes on in the same cycle, and nothing of it is taken for a move of ours."""
    cluster = SimulatedCluster(skewed([[4], [0]], 1, 1).snapshot())
    simulation = Simulation(cluster, eager(), holds_lease=True)
    cluster.documents = {MEMORY_KEY: memory_text(Memory(moves=(move("theirs", cluster.now),)))}
    simulation.runner.tick()
    assert simulation.evictions == 1
    (own,) = parse_memory(cluster.load(MEMORY_KEY)).moves
    assert own.uid != "theirs"


def test_a_stranger_who_writes_between_all_cycles_stops_no_repair() -> None:
    """As many evictions as without it, and the last memory is stored in the end."""
    numbers = []
    for disturbs in (False, True):
        cluster = SimulatedCluster(skewed([[4, 4], [0, 4], [0, 0]], 1, 9).snapshot(), seed=3)
        simulation = Simulation(cluster, eager(), holds_lease=True)
        for _ in range(30):
            if disturbs:
                cluster.documents = {MEMORY_KEY: "of a stranger"}
            simulation.cycles(1)
        numbers.append(simulation.evictions)
        assert simulation.runner.state.queue.unsaved == ""
    assert numbers[0] == numbers[1] > 1
