"""Arrangements near a known one: what is found without solving anew is true, and is what solving finds, mostly."""

from collections import Counter
from random import Random

import pytest

from rebalancer.planning.multi_class.classes import MultiClassProblem
from rebalancer.planning.multi_class.local_search import LocalSearch
from rebalancer.planning.multi_class.solve import Unsolved, solve
from rebalancer.planning.steps.forced import SearchBudget
from tests.planning.scenes import problems, several_kinds


def moved(mixed: MultiClassProblem, choice: Random) -> dict[tuple[int, str], int]:
    """Suppose that one to three pods have gone, and that each has come back on any node."""
    deltas: Counter[tuple[int, str]] = Counter()
    cells = [(number, node) for number, kind in enumerate(mixed.classes) for node in kind.movable]
    for kind, node in choice.sample(cells, min(len(cells), choice.randint(1, 3))):
        deltas[kind, node] -= 1
        deltas[kind, choice.choice(sorted(mixed.classes[kind].cap))] += 1
    return {cell: change for cell, change in deltas.items() if change}


def found_and_solved(seeds: range) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:
        choice = Random(seed)
        scene = several_kinds(choice)
        for problem in problems(scene.snapshot(), scene.policy()):
            aim = solve(problem) if isinstance(problem, MultiClassProblem) else Unsolved.GIVEN_UP
            if not isinstance(problem, MultiClassProblem) or isinstance(aim, Unsolved):
                continue
            found["components"] += 1
            nearby = LocalSearch(problem, aim.stand, SearchBudget(10**6))
            waiting = {number: kind.pending for number, kind in enumerate(problem.classes)}
            for _ in range(3):
                deltas = moved(problem, choice)
                exact = solve(problem.supposed(deltas, waiting))
                assert not isinstance(exact, Unsolved), seed
                near = nearby.fewest(deltas, 0)
                assert near >= exact.evictions, (seed, deltas)
                found["as few as solving finds" if near == exact.evictions else "more"] += 1
                # What is enough is enough: no better is looked for.
                assert nearby.fewest(deltas, near) <= near, seed
    return found


def test_what_is_found_nearby_is_true() -> None:
    """Never fewer evictions than the program proves for a supposed state, and mostly as few."""
    found = found_and_solved(range(120))
    print(f"nearby against solving: {dict(found)}")
    assert found["as few as solving finds"] > 3 * found["more"] > 0


@pytest.mark.thorough
def test_what_is_found_nearby_is_true_thorough() -> None:
    """The same for more than 1,000 components."""
    found = found_and_solved(range(10**6, 10**6 + 4_000))
    print(f"nearby against solving: {dict(found)}, never fewer")
    assert found["components"] > 1_000
