"""Drawn runs of the controller beside an autoscaler: no pod waits because of us, and no placeholder is left."""

import pytest

from tests.closed_loop.capacity_runs import Run, check
from tests.drawing import scaled


def play(first: int, last: int) -> None:
    for seed in range(first, last + 1):
        wrong = check(Run(seed=seed).play())
        assert not wrong, f"python -m tests.closed_loop.capacity_runs {seed}: {wrong}"


@pytest.mark.parametrize("first", range(1, 31, 10))
def test_drawn_runs(first: int) -> None:
    play(first, first + scaled(10) - 1)


@pytest.mark.thorough
@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(1_001, 11_001, 500))
def test_many_drawn_runs(first: int) -> None:
    play(first, first + 499)
