"""Integer programs: what is made simpler has the same answers, and no search goes on for ever."""

from itertools import product
from math import inf
from random import Random

from benchmarks.component_states import hundred_nodes
from rebalancer.planning.multi_class.classes import MultiClassProblem
from rebalancer.planning.multi_class.milp import Model, Unsolved, minimize
from rebalancer.planning.multi_class.solve import Solution, solve
from tests.planning.scenes import problems


def drawn(choice: Random) -> Model:
    """Draw a small program: sums of some columns, parts of other sums, differences, fixed columns, unequal weights."""
    model = Model()
    for _ in range(choice.randint(2, 4)):
        low = choice.choice([0, 0, 0, 1])
        model.column(low, low + choice.choice([0, 1, 2, 3]), choice.choice([-2, -1, 0, 1]))
    columns = range(len(model.costs))
    for _ in range(choice.randint(1, 6)):
        of = choice.sample(columns, choice.randint(1, len(columns)))
        weights = choice.choice([(1.0,), (1.0,), (1.0, -1.0), (1.0, 0.5, 2.0)])
        least, most = choice.choice([-inf, -1, 0, 2, 3]), choice.choice([inf, 0, 1, 2, 4])
        model.row(least, most, {column: choice.choice(weights) for column in of})
    return model


def least_cost(model: Model) -> float | None:
    """Try every value of every column."""
    ranges = [range(int(low), int(high) + 1) for low, high in zip(model.lower, model.upper, strict=True)]
    found = [
        sum(cost * each for cost, each in zip(model.costs, values, strict=True))
        for values in product(*ranges)
        if all(
            least <= sum(factor * values[column] for column, factor in row.items()) <= most
            for least, most, row in model.rows
        )
    ]
    return min(found, default=None)


def test_programs_made_simpler_have_the_same_answers() -> None:
    """Of 800 random programs the least cost is that of a search through all values, or both find none."""
    solved = 0
    for seed in range(800):
        model = drawn(Random(seed))
        best, found = least_cost(model), minimize(model)
        if isinstance(found, Unsolved):
            assert (found, best) == (Unsolved.INFEASIBLE, None), seed
        else:
            values, bound = found
            assert sum(cost * each for cost, each in zip(model.costs, values, strict=True)) == best, seed
            assert best - 1 < bound <= best, seed
            solved += 1
    assert 200 < solved < 600


def test_a_search_has_its_bound() -> None:
    """What is not found within the effort is told as such, and not as impossible; the same effort finds the same."""
    scene = hundred_nodes(0, (23, 27))
    (mixed,) = problems(scene.snapshot(), scene.policy())
    assert isinstance(mixed, MultiClassProblem)
    assert solve(mixed, effort=0) is Unsolved.GIVEN_UP
    some = [solve(mixed, effort=400_000) for _ in range(2)]
    assert some[0] == some[1]
    assert isinstance(some[0], Solution)
    assert 0 < some[0].bound < some[0].evictions
