"""Drawn autoscaled clusters: a violated workload is not starved by nodes and pods that come and go all the time."""

import pytest

from rebalancer.tracking import track
from tests.closed_loop.autoscaled_runs import Run, check, describe
from tests.drawing import scaled


def play(first: int, last: int) -> list[Run]:
    runs = []
    for seed in range(first, last + 1):
        runs.append(Run(seed=seed).play())
        wrong = check(runs[-1])
        assert not wrong, f"python -m tests.closed_loop.autoscaled_runs {seed}: {wrong}"
    return runs


@pytest.mark.parametrize("first", [11, 21])
def test_drawn_runs(first: int) -> None:
    """Every violation is over within ten minutes, and no budget is exceeded."""
    runs = play(first, first + scaled(10) - 1)
    assert all(run.joined >= run.minutes - 1 and run.left >= run.minutes - 1 for run in runs)
    assert sum(len(run.cluster.evicted) for run in runs) > 0
    assert all(run.failed and run.watched for run in runs), "no change of a node had to be waited for"


@pytest.mark.parametrize("seed", range(1, 6))
def test_an_autoscalers_routine_is_no_motion(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rules for changed nodes and for domains in motion everything happens at the same time."""
    run = Run(seed=seed, fails=False).play()
    assert not run.watched
    monkeypatch.setattr(track, "observe_nodes", lambda memory, *_: memory)
    assert Run(seed=seed, fails=False).play().violations == run.violations


@pytest.mark.thorough
@pytest.mark.timeout(0)
def test_a_hundred_drawn_runs() -> None:
    """Print how long the repairs took."""
    print(f"\n{describe(play(1, 100))}")
