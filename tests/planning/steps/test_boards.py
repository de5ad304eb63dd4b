"""What the search on real nodes is told: whom to let go first."""

from collections import Counter
from collections.abc import Hashable
from random import Random

from rebalancer.planning.multi_class.classes import MultiClassProblem
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.steps.boards import MultiClassBoard
from rebalancer.planning.steps.forced import SearchBudget
from tests.planning.multi_class.test_local_search import moved
from tests.planning.scenes import problems, several_kinds


def test_first_go_those_that_the_arrangement_lets_go() -> None:
    """Of every kind on every node that holds more than it does in the arrangement that is aimed at."""
    told = 0
    for seed in range(60):
        scene = several_kinds(Random(seed))
        for problem in problems(scene.snapshot(), scene.policy()):
            aim = solve(problem) if isinstance(problem, MultiClassProblem) else Unsolved.GIVEN_UP
            if not isinstance(problem, MultiClassProblem) or isinstance(aim, Unsolved):
                continue
            found = MultiClassBoard(problem, aim, SearchBudget()).candidates({}, frozenset())
            cells = [(problem.class_of(each.pod), each.pod.node or "") for each in found]
            assert len(set(cells)) == len(cells)
            leaves = [problem.classes[kind].counts[node] > aim.stand.get((kind, node), 0) for kind, node in cells]
            assert leaves == sorted(leaves, reverse=True), seed
            told += any(leaves) and not all(leaves)
    assert told > 5


def test_a_supposed_state_without_a_change_is_the_state() -> None:
    """As many pods stand and wait as before, so it takes as many evictions."""
    for seed in range(40):
        scene = several_kinds(Random(seed))
        for problem in problems(scene.snapshot(), scene.policy()):
            if isinstance(problem, MultiClassProblem):
                waiting = {number: kind.pending for number, kind in enumerate(problem.classes) if kind.pending}
                supposed = problem.supposed({}, waiting)
                assert [kind.pending for kind in supposed.classes] == [kind.pending for kind in problem.classes], seed
                assert [dict(kind.counts) for kind in supposed.classes] == [
                    dict(kind.counts) for kind in problem.classes
                ]
                assert solve(supposed) == solve(problem), seed


def test_what_is_not_found_near_the_arrangement_is_solved_once() -> None:
    """In haste it counts as farther; otherwise the program says how far it is, and is not asked again."""
    told = 0
    for seed in range(120):
        choice = Random(seed)
        scene = several_kinds(choice)
        for problem in problems(scene.snapshot(), scene.policy()):
            aim = solve(problem) if isinstance(problem, MultiClassProblem) else Unsolved.GIVEN_UP
            if not isinstance(problem, MultiClassProblem) or isinstance(aim, Unsolved):
                continue
            pending = [kind.sample for kind in problem.classes for _ in range(kind.pending)]
            there = moved(problem, choice)
            exact = solve(problem.supposed(there, Counter(map(problem.class_of, pending))))
            deltas: dict[Hashable, int] = dict(there.items())
            assert isinstance(exact, Solution)
            effort = SearchBudget(10**6)
            board = MultiClassBoard(problem, aim, effort)
            quick = board.within(deltas, pending, exact.evictions, hasty=True)
            spent = []
            for _ in range(2):
                before = effort.left
                assert board.within(deltas, pending, exact.evictions), seed
                assert not board.within(deltas, pending, exact.evictions - 1), seed
                spent.append(before - effort.left)
            assert quick or spent[0] > spent[1], seed
            told += not quick
    assert told > 2
