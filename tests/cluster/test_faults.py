"""Schedules of faults on the real API server: whatever goes wrong, the invariants of tests/faults/checker.py hold."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.control_plane.plane import ControlPlane
from tests.faults.scenario import Outcome, run_schedules, summarize
from tests.faults.schedule import draw_quick

LANES = 6
"""How many repairs run side by side: most of the time each waits for something."""


def check(outcomes: Sequence[Outcome], seconds: float, folder: Path) -> None:
    """Fail with the seeds of all breaches, what they were, and the commands that repeat them."""
    for outcome in outcomes:
        if outcome.breaches:
            outcome.save(folder)
    print(f"\n{summarize(outcomes, seconds)}")
    assert any(outcome.evictions for outcome in outcomes), "nothing was evicted: no schedule tests anything"
    failed = [str(outcome) for outcome in outcomes if outcome.breaches]
    assert failed == [], "\n".join([summarize(outcomes, seconds), *failed, f"logs and histories are in {folder}"])


@pytest.mark.invariant("no-second-eviction")
def test_ten_schedules_of_faults(cluster: ControlPlane, tmp_path: Path) -> None:
    """A repair goes on through faults of requests and watches, pauses and pods that become unready, and then ends."""
    began = time.monotonic()
    outcomes = run_schedules(cluster, draw_quick(10), lanes=LANES)
    check(outcomes, time.monotonic() - began, tmp_path)
