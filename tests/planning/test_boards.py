"""What the search on real nodes is told: whom to let go first."""

from collections import Counter
from collections.abc import Hashable
from random import Random

from rebalancer.planning.boards import MixedBoard
from rebalancer.planning.mixture import Mixed
from rebalancer.planning.program import Solution, Unsolved, solve
from rebalancer.planning.reach import Effort
from tests.planning.scenes import problems, several_kinds
from tests.planning.test_nearby import moved


def test_first_go_those_that_the_arrangement_lets_go() -> None:
    """Of every kind on every node that holds more than it does in the arrangement that is aimed at."""
    told = 0
    for seed in range(60):
        scene = several_kinds(Random(seed))
        for problem in problems(scene.snapshot(), scene.policy()):
            aim = solve(problem) if isinstance(problem, Mixed) else Unsolved.GIVEN_UP
            if not isinstance(problem, Mixed) or isinstance(aim, Unsolved):
                continue
            found = MixedBoard(problem, aim, Effort()).candidates({}, frozenset())
            cells = [(problem.kind_of(each.pod), each.pod.node or "") for each in found]
            assert len(set(cells)) == len(cells)
            leaves = [problem.kinds[kind].counts[node] > aim.stand.get((kind, node), 0) for kind, node in cells]
            assert leaves == sorted(leaves, reverse=True), seed
            told += any(leaves) and not all(leaves)
    assert told > 5


def test_a_supposed_state_without_a_change_is_the_state() -> None:
    """As many pods stand and wait as before, so it takes as many evictions."""
    for seed in range(40):
        scene = several_kinds(Random(seed))
        for problem in problems(scene.snapshot(), scene.policy()):
            if isinstance(problem, Mixed):
                waiting = {number: kind.pending for number, kind in enumerate(problem.kinds) if kind.pending}
                supposed = problem.supposed({}, waiting)
                assert [kind.pending for kind in supposed.kinds] == [kind.pending for kind in problem.kinds], seed
                assert [dict(kind.counts) for kind in supposed.kinds] == [dict(kind.counts) for kind in problem.kinds]
                assert solve(supposed) == solve(problem), seed


def test_what_is_not_found_near_the_arrangement_is_solved_once() -> None:
    """In haste it counts as farther; otherwise the program says how far it is, and is not asked again."""
    told = 0
    for seed in range(120):
        choice = Random(seed)
        scene = several_kinds(choice)
        for problem in problems(scene.snapshot(), scene.policy()):
            aim = solve(problem) if isinstance(problem, Mixed) else Unsolved.GIVEN_UP
            if not isinstance(problem, Mixed) or isinstance(aim, Unsolved):
                continue
            pending = [kind.sample for kind in problem.kinds for _ in range(kind.pending)]
            there = moved(problem, choice)
            exact = solve(problem.supposed(there, Counter(map(problem.kind_of, pending))))
            deltas: dict[Hashable, int] = dict(there.items())
            assert isinstance(exact, Solution)
            effort = Effort(10**6)
            board = MixedBoard(problem, aim, effort)
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
