"""The end that is said of a wait is when it ends: at that time, or with that event. Whole runs, simulated."""

import random
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from rebalancer.admission.pause import Pause
from rebalancer.controller.state import ApprovalRead, PauseRead
from rebalancer.controller.status import status_document
from rebalancer.documents.status import StatusDocument
from rebalancer.documents.waits import RepairWait
from rebalancer.model.moves import MoveState
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Amount, Budgets, Mode, Spread, Window
from rebalancer.policy.sections import Eligibility, Nodes
from rebalancer.simulator import START, ZONE, SimulatedCluster, Span, Timings
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager
from tests.drawing import scaled

INTERVAL = timedelta(seconds=10)
YOUNG = START - timedelta(seconds=5)
MANY = Amount(value=9)
WIDE = Budgets(max_unavailable=MANY, per_workload=MANY, per_node=MANY)


class Scene(NamedTuple):
    """A run: the kind of wait that it is about, the policy's changes, what happens in each cycle, and the cluster."""

    reason: str
    changes: dict[str, Any]
    act: Callable[[Simulation, int], None] = lambda _simulation, _number: None
    change: Callable[[Snapshot], Snapshot] = lambda snapshot: snapshot
    slow_start: bool = False


def pause(simulation: Simulation, number: int) -> None:
    if number == 0:
        until = simulation.cluster.now + timedelta(seconds=75)
        simulation.cluster.pause = Pause(until=until, reason="upgrade", by="ada")
        simulation.runner.tell(PauseRead(pause=simulation.cluster.pause))


def approve(simulation: Simulation, number: int) -> None:
    proposal = simulation.runner.state.memory.proposal
    if number % 5 == 4 and proposal is not None:
        simulation.runner.tell(ApprovalRead(approved=proposal.hash))


def with_young_nodes(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, nodes=tuple(structs.replace(node, ready_since=YOUNG) for node in snapshot.nodes))


def with_young_pods(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, pods=tuple(structs.replace(pod, created=YOUNG) for pod in snapshot.pods))


def draw_scenes(seed: int) -> list[Scene]:
    """Return a scene of each kind of wait."""
    rng = random.Random(seed)
    span = timedelta(seconds=rng.randrange(20, 300))
    opens = START + timedelta(minutes=rng.randrange(2, 6))
    window = Window(schedule=f"{opens.minute} {opens.hour} * * *", duration=timedelta(hours=1))
    rate = WIDE.model_copy(update={"per_minute": Amount(value=1)})
    single = WIDE.model_copy(update={"max_unavailable": Amount(value=1)})
    return [
        Scene("NotPersistent", {"spread": Spread(for_=span)}),
        Scene("NodeSettling", {"nodes": Nodes(settle=span)}, change=with_young_nodes),
        Scene("TooYoung", {"eligibility": Eligibility(min_age=span)}, change=with_young_pods),
        Scene("OutsideWindow", {"windows": (window,)}),
        Scene("Paused", {"budgets": single}, pause),
        Scene("RateLimited", {"budgets": rate}),
        Scene("AwaitingApproval", {"mode": Mode.APPROVE}, approve),
        Scene("BlockedByBudget", {"budgets": single}),
        Scene("SlowStart", {"budgets": WIDE}, slow_start=True),
    ]


class Seen(NamedTuple):
    """What the status of a cycle says, when, and what is known of moves and approvals then."""

    at: datetime
    status: StatusDocument
    verified: frozenset[str]
    in_flight: int
    arrived: int
    approved: bool


def play(scene: Scene, seed: int) -> list[Seen]:
    on = {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}
    builder = a_cluster("abc", 2, on, spread={ZONE: 1})
    for number in range(3):
        builder.deployment(f"db-{number}", on=on, spread={ZONE: 1}, namespace=f"shop-{number % 2}")
    timings = Timings(starting=Span(15, 40))
    cluster = SimulatedCluster(scene.change(builder.snapshot()), seed=seed, timings=timings)
    simulation = Simulation(cluster, eager(slow_start=scene.slow_start, **{"budgets": WIDE, **scene.changes}))
    seen = []
    for number in range(60):
        simulation.cycles(1, apart=0)
        state, proposal = simulation.runner.state, simulation.runner.state.memory.proposal
        moves = state.memory.moves
        seen.append(
            Seen(
                at=cluster.now,
                status=status_document(state, "one", "test"),
                verified=frozenset(move.pod for move in moves if move.state is MoveState.VERIFIED),
                in_flight=sum(move.in_flight for move in moves),
                arrived=sum(move.arrived for move in moves),
                approved=proposal is not None and proposal.approved,
            )
        )
        scene.act(simulation, number)
        cluster.advance(INTERVAL.total_seconds())
    return seen


def happened(event: str, before: Seen, after: Seen) -> bool:
    """Return whether an event that was said to end a wait has happened by then."""
    ready = re.fullmatch(r"when the replacements? of (.*) (?:is|are) Ready", event)
    if ready is not None:
        return set(re.split(", | and ", ready[1])) <= after.verified
    if " in flight has ended" in event:
        return after.verified > before.verified
    if " under way has arrived" in event:
        return after.arrived > before.arrived
    if " before it has arrived" in event:  # once these are sent, it is said that they are under way
        return after.in_flight > 0 or after.arrived > before.arrived
    if event.endswith(" allows it, too"):
        return after.in_flight > 0 or after.verified > before.verified
    if event.startswith("when somebody approves it: "):
        return after.approved or after.in_flight > 0 or after.verified > before.verified
    raise AssertionError(f"nobody checks: {event}")


@pytest.mark.parametrize("seed", range(scaled(6)))
@pytest.mark.parametrize("kind", range(9))
def test_a_wait_ends_when_it_was_said_to_end(kind: int, seed: int) -> None:
    """Within an interval of the time, or with the event; every wait says what follows."""
    scene = draw_scenes(seed)[kind]
    with capture_logs():
        seen = play(scene, seed)
    reasons = {wait.reason for one in seen for wait in one.status.waits}
    assert scene.reason in reasons
    ended = 0
    for before, after in pairwise(seen):
        for wait in before.status.waits:
            if is_same(wait, after.status.waits):
                if wait.until is not None:
                    assert after.at < wait.until + INTERVAL, "it is over, and is said to wait still"
                continue
            ended += wait.reason == scene.reason
            if wait.until is not None:
                assert before.at - INTERVAL <= wait.until <= after.at + INTERVAL
            else:
                assert wait.ends_with, f"{wait.reason} was said not to end by itself"
                assert happened(wait.ends_with, before, after)
            assert wait.then is not None or wait.reason == "TooYoung"
    assert ended


def is_same(wait: RepairWait, others: tuple[RepairWait, ...]) -> bool:
    """Return whether a wait of the same workload is among others with the same end, whatever ages its message has."""
    key = (wait.namespace, wait.workloads, wait.reason, wait.until, wait.ends_with)
    return any((one.namespace, one.workloads, one.reason, one.until, one.ends_with) == key for one in others)
