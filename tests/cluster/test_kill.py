"""Killed at any moment and started again, the controller ends where it would have, with the same evictions."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.control_plane.plane import ControlPlane
from tests.faults.cases import CASES, Case
from tests.faults.scenario import Outcome, run_all, summarize
from tests.faults.schedule import Schedule, kill_after

LANES = 6
WRITES = 30
"""Later writes are renewals of the Lease and statuses after the repair."""


def run(plane: ControlPlane, folder: Path, jobs: Sequence[tuple[Schedule, Case]]) -> list[Outcome]:
    """Carry out the schedules and fail with every breach; the folder has logs and histories then."""
    began = time.monotonic()
    outcomes = run_all(plane, jobs, lanes=LANES, report=lambda outcome: print(outcome, flush=True))
    print(summarize(outcomes, time.monotonic() - began))
    failed = [outcome for outcome in outcomes if outcome.breaches]
    for outcome in failed:
        outcome.save(folder)
    assert not failed, "\n".join([*map(str, failed), f"logs and histories are in {folder}"])
    return outcomes


def check_killed(outcomes: Sequence[Outcome]) -> None:
    """Fail where the controller was not killed: then the run proves nothing."""
    assert [str(outcome) for outcome in outcomes if not any("-9" in note for note in outcome.notes)] == []


def test_without_a_kill_the_repair_takes_its_minimum(cluster: ControlPlane, tmp_path: Path) -> None:
    """The reference: as many evictions as were counted by hand."""
    outcomes = run(cluster, tmp_path, [(Schedule(seed=0, rules=(), seconds=1.0), case) for case in CASES])
    assert [outcome.evictions for outcome in outcomes] == [case.minimum for case in CASES]


def test_killed_after_a_write(cluster: ControlPlane, tmp_path: Path) -> None:
    """After the first of all, which takes the Lease, and in the middle of the repair."""
    outcomes = run(cluster, tmp_path, [(kill_after(writes), case) for case in CASES[1:3] for writes in (1, 9)])
    check_killed(outcomes)


@pytest.mark.thorough
@pytest.mark.timeout(4 * 3600)
def test_killed_after_every_write(cluster: ControlPlane, tmp_path: Path) -> None:
    """In each kind of workload, after each of its first writes: the same end, and no eviction more."""
    outcomes = run(cluster, tmp_path, [(kill_after(writes), case) for writes in range(1, WRITES + 1) for case in CASES])
    check_killed(outcomes)
