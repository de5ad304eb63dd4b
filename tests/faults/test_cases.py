"""The workloads that are repaired while faults go on, counted by hand."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.faults.cases import CASES, Case

NODES = ["a-0", "a-1", "b-0", "b-1", "c-0", "c-1"]


def placements(pods: int, nodes: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to divide pods among nodes."""
    if nodes == 1:
        yield (pods,)
        return
    for first in range(pods + 1):
        for rest in placements(pods - first, nodes - 1):
            yield (first, *rest)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_minimum_is_that_of_all_placements(case: Case) -> None:
    """Of every placement that counts as repaired, the nearest is as many moves away as the case says."""
    before = Counter(NODES[index] for index in case.placement)
    repaired = [
        counts
        for counts in (dict(zip(NODES, numbers, strict=True)) for numbers in placements(case.replicas, len(NODES)))
        if case.is_repaired(counts, NODES)
    ]
    moves = [sum(max(0, before[name] - counts[name]) for name in NODES) for counts in repaired]
    assert min(moves) == case.minimum > 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_missing_pod_is_no_repair(case: Case) -> None:
    assert not case.is_repaired({}, NODES)


def test_names_are_unique() -> None:
    """They select a case on the command line."""
    assert len({case.name for case in CASES}) == len(CASES)
