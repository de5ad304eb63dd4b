"""Two and three replicas: whoever is cut off, stopped or has a fast clock, the Lease lets one of them act.

Budgets are held, the memory stays the leader's, no pod is evicted twice, and of a process that was stopped at most the
one request comes late that had been checked already (tests/faults/checker.py).
"""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cluster.test_faults import LANES, check
from tests.control_plane.plane import ControlPlane
from tests.faults.scenario import in_lanes
from tests.faults.schedule import LEASE_SECONDS, Clock, Fault, Rule, Schedule, Start, Stop

SLOW = Rule(verb="create", resource="pods/eviction", fault=Fault.SLOW, probability=1.0)
"""Five seconds for each answer: evictions are under way whenever the lease goes over."""

CUT_OFF = tuple(Rule(verb="*", resource="*", fault=Fault.TIMEOUT, probability=1.0, process=number) for number in (0, 1))
WITHOUT_LEASE = tuple(
    Rule(verb="*", resource="leases", fault=Fault.TIMEOUT, probability=1.0, process=number) for number in (0, 1)
)
FAST = Clock(rate=1.4)
LONG = 1.5 * LEASE_SECONDS


def _schedule(
    controllers: int, *rules: Rule, stops: Sequence[Stop] = (), clocks: Sequence[Clock] = (), most: int = 1
) -> Schedule:
    return Schedule(
        seed=0,
        rules=(*rules, SLOW),
        start=Start.EVICTION,
        seconds=2 * LONG,
        max_unavailable=most,
        controllers=controllers,
        clocks=tuple(clocks),
        stops=tuple(stops),
    )


def _stops(*moments: float, process: int = 0, seconds: float = LONG) -> list[Stop]:
    return [Stop(process=process, at=moment, seconds=seconds) for moment in moments]


ORDINARY = (
    _schedule(2, CUT_OFF[0]),
    _schedule(2, WITHOUT_LEASE[0], clocks=[Clock(), FAST]),
    _schedule(3, stops=_stops(0.0), clocks=[Clock(), FAST, Clock(ahead=-60)]),
)
"""The leader is cut off; it cannot renew and the other's clock is fast; it is stopped while it evicts."""

THOROUGH = tuple(
    _schedule(controllers, *rules, stops=stops, clocks=clocks, most=most)
    for controllers in (2, 3)
    for clocks in ([], [Clock(), FAST, FAST], [FAST])
    for most in (1, 3)
    for rules, stops in (
        (CUT_OFF[:1], ()),
        (WITHOUT_LEASE[:1], ()),
        (WITHOUT_LEASE[: controllers - 1], ()),
        ((), _stops(0.0)),
        ((), _stops(0.3)),
        ((), _stops(0.0, seconds=LONG / 2)),
        ((), _stops(0.7) + _stops(LONG + 0.7, process=1)),
    )
)


def run(plane: ControlPlane, schedules: Sequence[Schedule], folder: Path) -> None:
    """Carry the schedules out; at least one other process must have led in the course of them."""
    began = time.monotonic()
    outcomes = in_lanes(plane, schedules, lambda lane, schedule: lane.run(schedule), lanes=LANES)
    for outcome in outcomes:
        print(outcome, flush=True)
    check(outcomes, time.monotonic() - began, folder)
    leaders = [
        {
            exchange.process
            for exchange in outcome.history.exchanges
            if exchange.target.resource == "leases" and exchange.target.writes and exchange.code in {200, 201}
        }
        for outcome in outcomes
    ]
    assert sum(len(names) > 1 for names in leaders) > len(schedules) // 2, leaders


def test_another_replica_takes_over(cluster: ControlPlane, tmp_path: Path) -> None:
    """From a leader that is cut off, one that cannot renew, and one that is stopped."""
    run(cluster, ORDINARY, tmp_path)


@pytest.mark.thorough
@pytest.mark.timeout(2 * 3600)
def test_another_replica_takes_over_in_any_way(cluster: ControlPlane, tmp_path: Path) -> None:
    """With two and three replicas, right and fast clocks, stops in several moments and of several processes."""
    run(cluster, THOROUGH, tmp_path)
