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
from tests.faults.replicas import FEW, MANY
from tests.faults.scenario import in_lanes
from tests.faults.schedule import Schedule


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
    run(cluster, FEW, tmp_path)


@pytest.mark.thorough
@pytest.mark.timeout(2 * 3600)
def test_another_replica_takes_over_in_any_way(cluster: ControlPlane, tmp_path: Path) -> None:
    """With two and three replicas, right and fast clocks, stops in several moments and of several processes."""
    run(cluster, MANY, tmp_path)
