"""Requests that were begun and not sent yet: what the loop has learned meanwhile holds them back."""

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from rebalancer.admission.pause import Pause
from rebalancer.controller.state import LoopEvent, PauseRead, PolicyLoaded
from rebalancer.model.moves import Memory
from rebalancer.policy import Mode
from rebalancer.ports import MEMORY_KEY
from rebalancer.reporting.documents.memory import memory_text, parse_memory
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


def test_what_another_process_has_stored_is_read_before_anything_is_stored_over_it() -> None:
    """Nothing is sent in the cycle that finds it; then its moves are known too, and the repair goes on."""
    cluster = SimulatedCluster(skewed([[4], [0]], 1, 1).snapshot())
    simulation = Simulation(cluster, eager())
    theirs = move("theirs", cluster.now, owner_uid="another", group="another")
    cluster.documents = {MEMORY_KEY: memory_text(Memory(moves=(theirs,)))}
    simulation.runner.tick()
    assert simulation.evictions == 0
    assert simulation.runner.state.memory.moves == (theirs,)
    simulation.cycles(1)  # stores it all
    assert simulation.runner.state.queue.unsaved == ""
    assert simulation.evictions == 0
    simulation.cycles(1)
    assert simulation.evictions == 1
    assert theirs.uid in {one.uid for one in parse_memory(cluster.load(MEMORY_KEY)).moves}
