"""What the search on real nodes is told: whom to let go first."""

from random import Random

from rebalancer.planning.boards import MixedBoard
from rebalancer.planning.mixture import Mixed
from rebalancer.planning.program import Unsolved, solve
from rebalancer.planning.reach import Effort
from tests.planning.scenes import problems, several_kinds


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
