"""What is stored: what the next leader reads of the last one's memory, and how large the status is."""

from functools import lru_cache

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from structlog.testing import capture_logs

from rebalancer.controller.status import read_memory, status_document, status_documents
from rebalancer.documents.document import to_json
from rebalancer.documents.map import MoveKind
from rebalancer.documents.memory import memory_text
from rebalancer.documents.status import StatusDocument, fit_status
from rebalancer.model.moves import NO_MEMORY, Memory, SentRequest
from rebalancer.policy import Amount, Budgets, Mode
from rebalancer.ports import MEMORY_KEY, PLAN_KEY, STATUS_KEY
from rebalancer.reporting.text.status import status_text
from rebalancer.simulator import HOSTNAME, START, ZONE, SimulatedCluster
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager
from tests.drawing import examples
from tests.planning.clusters import returned

POLICY = eager(budgets=Budgets(per_minute=Amount(value=3)))


def test_a_memory_that_cannot_be_read_holds_everything_for_a_minute() -> None:
    """Nobody knows what was evicted in the last minute; the log says so."""
    with capture_logs() as logs:
        assert read_memory("{garbage", POLICY, START).sent == (SentRequest(START),) * 3
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("memory cannot be read", "warning")


def test_a_memory_that_can_be_read_is_what_was_saved() -> None:
    """None at all is one, too: this process is the first to lead."""
    saved = Memory(sent=(SentRequest(START),))
    with capture_logs() as logs:
        assert read_memory(memory_text(saved), POLICY, START) == saved
        assert read_memory("", POLICY, START) == NO_MEMORY
    assert logs == []


def test_in_a_large_cluster_status_and_proposed_plan_fit_into_one_config_map() -> None:
    """Hundreds of nodes that may take a replacement are counted, not listed; the plan to approve comes before it."""
    builder = a_cluster("abc", 60)
    for number in range(40):
        on = {f"{zone}-{1 + (3 * number + place) % 60}": 1 for zone in "ab" for place in range(3)}
        builder.deployment(f"web-{number}", on=on, spread={ZONE: 1, HOSTNAME: 1})
    simulation = Simulation(SimulatedCluster(builder.snapshot()), eager(Mode.APPROVE))
    with capture_logs():
        simulation.cycles(1)
    state = simulation.runner.state
    documents = status_documents(state, "one", "test")
    assert [document.key for document in documents] == [MEMORY_KEY, PLAN_KEY, STATUS_KEY]
    status = msgspec.json.decode(documents[-1].text, type=StatusDocument)
    assert status.approval is not None
    assert (len(status.approval.evictions), len(status.waits)) == (20, 20)
    assert status.approval.evictions[0].domains[HOSTNAME].more > 50
    assert len(documents[-1].text) < 60_000
    assert status.map is not None
    assert len(status.map.lanes) + status.map.more == 40
    shorter = fit_status(structs.replace(status, map=None), status.map, len(documents[-1].text) - 1)
    assert msgspec.json.decode(shorter, type=StatusDocument) == structs.replace(status, map=None)


@examples(50)
@given(st.floats(0, 1), st.integers(0, 300))
def test_a_status_that_would_be_too_large_loses_rows_and_says_so(share: float, moves: int) -> None:
    """It fits into whatever there is, its longest list loses rows first, and those that are left out are counted."""
    status = small_status(moves)
    whole, least = len(to_json(status)), len(to_json(structs.replace(status, last_moves=(), waits=())))
    most = least + 60 + round(share * whole)
    text = fit_status(status, None, most)
    assert len(text.encode()) <= most
    stored = msgspec.json.decode(text, type=StatusDocument)
    assert len(stored.last_moves) + stored.left_out.get("lastMoves", 0) == moves
    assert stored.last_moves == status.last_moves[: len(stored.last_moves)]
    assert bool(stored.left_out) == (whole > most)
    shown = status_text(stored, START)
    assert ("Rows left out" in shown) == bool(stored.left_out)


def test_a_status_without_rows_is_stored_as_it_is() -> None:
    """Where even that does not fit, the ConfigMap decides."""
    status = small_status(0)
    assert fit_status(status, None, 1) == to_json(status).decode()


@lru_cache
def small_status(moves: int) -> StatusDocument:
    simulation = Simulation(SimulatedCluster(returned(), seed=1), eager())
    with capture_logs():
        simulation.cycles(1)
    status = status_document(simulation.runner.state, "one", "test")
    entry = status.in_flight[0]
    rows = tuple(structs.replace(entry, pod=f"{entry.pod}-{number}") for number in range(moves))
    return structs.replace(status, in_flight=(), waits=(), holds=(), refused_evictions=(), last_moves=rows)


def test_the_stored_map_has_the_moves_of_the_cycle() -> None:
    """It is made once, before they are sent: they keep their step until the next cycle, and then they are under way."""
    simulation = Simulation(SimulatedCluster(returned(), seed=1), eager())
    with capture_logs():
        simulation.cycles(1)
    cycle = simulation.runner.state.cycle
    assert cycle is not None
    assert cycle.stored_map is not None
    moving = {one.pod: one.step for one in cycle.stored_map.lanes[0].moves if one.kind is MoveKind.MOVING}
    assert moving == {one.pod.name: one.step for one in cycle.fates.going}
    assert moving
