"""The memory of the process: what a cycle has made is freed with it."""

import gc
from collections.abc import Iterator
from weakref import ref

import pytest

from rebalancer.controller.page import StatusPage
from rebalancer.controller.runner import Identity
from rebalancer.controller.state import Leading, LoopState
from rebalancer.documents.overview import EVERYTHING, Selection
from rebalancer.engine import Evaluation
from rebalancer.locations import Address
from rebalancer.policy import Mode
from rebalancer.simulator import START, SimulatedCluster
from tests.controller.simulated import Simulation, Watching, eager, skewed
from tests.reports import all_findings


class Reading(Watching):
    """An observer that reads the page of every state, as browsers do, and notes the evaluations that exist."""

    def __init__(self, page: StatusPage) -> None:
        super().__init__()
        self.page = page
        self.evaluations: list[ref[Evaluation]] = []

    def changed(self, state: LoopState) -> None:
        cycle = state.cycle
        if cycle is None:
            return
        self.page.show(state, all_findings(cycle.view, cycle.assessment, cycle.context.policy))
        for selection in (EVERYTHING, EVERYTHING, Selection(search="web")):
            assert self.page.read(selection, with_report=True) is not None
        if not self.evaluations or self.evaluations[-1]() is not cycle.evaluation:
            self.evaluations.append(ref(cycle.evaluation))


@pytest.fixture
def reading() -> Iterator[Reading]:
    """Read the page while the older generations are left alone, as in the process: there they hardly ever fill."""
    page = StatusPage(Address("127.0.0.1", 0), Identity(name="test", policy_source="test"), now=lambda: START)
    page.start()
    gc.disable()
    yield Reading(page)
    gc.enable()
    page.stop()


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.EVICT])
def test_an_evaluation_is_freed_when_the_next_one_is_made(reading: Reading, mode: Mode) -> None:
    """Of twelve evaluations, each of which was shown on the page, two exist at most."""
    cluster = SimulatedCluster(skewed([[6, 6], [1, 1], [0, 0]]).snapshot())
    simulation = Simulation(cluster, eager(mode), reading)
    for number in range(12):
        cluster.scale("default", "Deployment", "web", 14 + number % 2)  # there is something new to evaluate
        simulation.cycles(1)
    assert len(reading.evaluations) >= 12
    assert sum(evaluation() is not None for evaluation in reading.evaluations) <= 2


class _Ring:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize("leads", [True, False])
def test_garbage_that_outlives_a_cycle_is_collected(*, leads: bool) -> None:
    """Within a hundred cycles, in a process that waits for the Lease as in one that leads."""
    simulation = Simulation(SimulatedCluster(skewed([[1], [1]]).snapshot()), eager(Mode.OBSERVE))
    simulation.runner.tell(Leading(leads=leads))
    gc.disable()
    try:
        ring = _Ring()
        simulation.cycles(2)
        left = ref(ring)
        del ring
        simulation.cycles(1)
        assert left() is not None, "it is of an older generation"
        simulation.cycles(97)
        assert left() is None
    finally:
        gc.enable()
