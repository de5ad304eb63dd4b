"""What the commands that read know of the controller: what it remembers, also where it was killed in a batch."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from rebalancer.capacity.evaluated import evaluate_once
from rebalancer.cli.acting import Acting
from rebalancer.model.moves import Memory, Move, MoveState
from rebalancer.model.snapshot import Snapshot
from rebalancer.scheduling.profile import DEFAULT_PROFILE
from rebalancer.simulator import SimulatedCluster
from tests.controller.simulated import Simulation, eager
from tests.planning.clusters import returned

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)


def stored() -> tuple[Snapshot, Memory]:
    """Return a cluster, and what a leader has stored of the evictions that it is about to request there."""
    simulation = Simulation(SimulatedCluster(returned(), seed=1), eager())
    with capture_logs():
        simulation.cycles(1)
    assert simulation.runner.state.cycle is not None
    before = simulation.runner.state.cycle.evaluation.inputs.snapshot
    memory = simulation.runner.state.memory
    moves = tuple(structs.replace(move, state=MoveState.PLANNED) for move in memory.moves)
    assert moves
    return before, structs.replace(memory, moves=moves)


def needed(snapshot: Snapshot, memory: Memory) -> int:
    return evaluate_once(snapshot, eager(), DEFAULT_PROFILE, memory).plan.lower_bound


def acting(memory: Memory, *, led: bool) -> Acting:
    return Acting(str, memory=memory, is_led=lambda: led)


@pytest.mark.caught("a stored eviction of a killed leader counted as carried out until the next one led")
def test_where_nobody_leads_what_is_stored_and_not_carried_out_is_to_be_done() -> None:
    """As the next leader will find; while one leads, it is about to request it."""
    snapshot, memory = stored()
    whole = needed(snapshot, Memory())
    assert needed(snapshot, acting(memory, led=False).remember(snapshot)) == whole
    assert acting(memory, led=True).remember(snapshot) == memory
    assert needed(snapshot, memory) < whole


def test_a_stored_eviction_whose_pod_has_gone_stays_under_way() -> None:
    """Its replacement is still to come; nothing says that nobody has carried it out."""
    snapshot, memory = stored()
    gone = {move.uid for move in memory.moves}
    without = replace(snapshot, pods=tuple(pod for pod in snapshot.pods if pod.uid not in gone))
    ending = replace(snapshot, pods=tuple(structs.replace(pod, deleted=NOW) for pod in snapshot.pods))
    for left in (without, ending):
        assert acting(memory, led=False).remember(left) == memory


def test_the_lease_is_read_only_where_a_stored_eviction_may_not_have_been_carried_out() -> None:
    """Reading it may take seconds."""

    def lease() -> bool:
        raise AssertionError("the Lease was read")

    snapshot, memory = stored()

    def evict(move: Move) -> Move:
        return structs.replace(move, state=MoveState.EVICTED)

    for known in (Memory(), structs.replace(memory, moves=tuple(map(evict, memory.moves)))):
        assert Acting(str, memory=known, is_led=lease).remember(snapshot) == known
