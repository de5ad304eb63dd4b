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
