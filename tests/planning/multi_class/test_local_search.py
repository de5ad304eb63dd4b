"""Placements near a known one: what is found without solving anew is true, and mostly is what solving finds."""

from collections import Counter
from random import Random

import pytest

from rebalancer.planning.multi_class.classes import PodClasses
from rebalancer.planning.multi_class.local_search import LocalSearch
from rebalancer.planning.multi_class.model import PlacementModel
from rebalancer.planning.multi_class.solve import Unsolved, solve
from rebalancer.planning.search.limits import SearchBudget
from tests.planning.scenes import multi_class_problems, several_classes
from tests.planning.states import LIMITS


def moved(classes: PodClasses, choice: Random) -> dict[tuple[int, str], int]:
    """Suppose that one to three pods have gone, and that each has come back on any node."""
    deltas: Counter[tuple[int, str]] = Counter()
    cells = [(number, node) for number, pod_class in enumerate(classes.classes) for node in pod_class.movable]
    for number, node in choice.sample(cells, min(len(cells), choice.randint(1, 3))):
        deltas[number, node] -= 1
        deltas[number, choice.choice(sorted(classes.classes[number].cap))] += 1
    return {cell: change for cell, change in deltas.items() if change}


def compare_with_solving(seeds: range) -> Counter[str]:
    """Count for how many supposed states the local search needs as many evictions as solving, and for how many more."""
    counted: Counter[str] = Counter()
    for seed in seeds:
        choice = Random(seed)
        scene = several_classes(choice)
        for problem in multi_class_problems(scene.snapshot(), scene.policy()):
            classes = problem.classes
            target = solve(classes, LIMITS)
            if isinstance(target, Unsolved):
                continue
            counted["components"] += 1
            local = LocalSearch(PlacementModel(classes), target.placed, SearchBudget(10**6), LIMITS)
            pending = {number: pod_class.pending for number, pod_class in enumerate(classes.classes)}
            for _ in range(3):
                deltas = moved(classes, choice)
                exact = solve(classes.supposed(deltas, pending), LIMITS)
                assert not isinstance(exact, Unsolved), seed
                near = local.min_evictions(deltas, 0)
                assert near >= exact.evictions, (seed, deltas)
                counted["as few as solving finds" if near == exact.evictions else "more"] += 1
                # Once the goal is reached, nothing better is searched.
                assert local.min_evictions(deltas, near) <= near, seed
    return counted


def test_local_search_never_claims_fewer_evictions_than_solving_proves() -> None:
    """Of supposed states; and mostly it finds as few."""
    counted = compare_with_solving(range(120))
    print(f"local search against solving: {dict(counted)}")
    assert counted["as few as solving finds"] > 3 * counted["more"] > 0


@pytest.mark.thorough
def test_local_search_never_claims_fewer_evictions_than_solving_proves_thorough() -> None:
    """The same for more than 1,000 components."""
    counted = compare_with_solving(range(10**6, 10**6 + 4_000))
    print(f"local search against solving: {dict(counted)}, never fewer")
    assert counted["components"] > 1_000
