"""Integer programs: a simplified program has the same answers, and no search goes on for ever."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import product
from math import inf
from random import Random

import pytest

from benchmarks.component_states import hundred_nodes
from rebalancer.planning.multi_class import milp
from rebalancer.planning.multi_class.milp import Program, minimize
from rebalancer.planning.multi_class.outcomes import Outcome, Outcomes, Unsolved
from rebalancer.planning.multi_class.solve import Solution, solve
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.search.limits import SearchBudget, SearchLimits
from tests.planning.scenes import problems
from tests.planning.states import LIMITS


def drawn(choice: Random) -> Program:
    """Draw a small program: sums of some columns, parts of other sums, differences, fixed columns, unequal weights."""
    program = Program()
    for _ in range(choice.randint(2, 4)):
        low = choice.choice([0, 0, 0, 1])
        program.add_column(low, low + choice.choice([0, 1, 2, 3]), choice.choice([-2, -1, 0, 1]))
    columns = range(len(program.costs))
    for _ in range(choice.randint(1, 6)):
        chosen = choice.sample(columns, choice.randint(1, len(columns)))
        weights = choice.choice([(1.0,), (1.0,), (1.0, -1.0), (1.0, 0.5, 2.0)])
        least, most = choice.choice([-inf, -1, 0, 2, 3]), choice.choice([inf, 0, 1, 2, 4])
        program.add_row(least, most, {column: choice.choice(weights) for column in chosen})
    return program


def least_cost(program: Program) -> float | None:
    """Try every value of every column."""
    ranges = [range(int(low), int(high) + 1) for low, high in zip(program.lower, program.upper, strict=True)]
    costs = [
        cost_of(program, values)
        for values in product(*ranges)
        if all(
            least <= sum(factor * values[column] for column, factor in row.items()) <= most
            for least, most, row in program.rows
        )
    ]
    return min(costs, default=None)


def cost_of(program: Program, values: tuple[float, ...]) -> float:
    return sum(cost * value for cost, value in zip(program.costs, values, strict=True))


def test_simplified_programs_have_the_same_answers() -> None:
    """Of 800 random programs the least cost is that of a search through all values, or both find none."""
    solved = 0
    for seed in range(800):
        program = drawn(Random(seed))
        best, answer = least_cost(program), minimize(program, LIMITS, LIMITS.solve_work)
        if isinstance(answer, Unsolved):
            assert (answer, best) == (Unsolved.INFEASIBLE, None), seed
        else:
            values, bound = answer
            assert cost_of(program, tuple(values)) == best, seed
            assert best - 1 < bound <= best, seed
            solved += 1
    assert 200 < solved < 600


class Doubting(Program):
    """A program for which no answer holds."""

    def holds(self, _: Sequence[float]) -> bool:
        return False


def test_an_answer_that_does_not_hold_is_none() -> None:
    """The solver is not taken at its word."""
    answers = []
    for made in (Program, Doubting):
        program = made()
        first, second = program.add_column(0, 3, -1), program.add_column(0, 3, -2)
        program.add_row(-inf, 4, {first: 1, second: 1})
        program.add_row(-inf, 5, {first: 2, second: 1})
        answers.append(minimize(program, LIMITS, LIMITS.solve_work))
    assert not isinstance(answers[0], Unsolved)
    assert answers[0][0] == [1, 3]
    assert answers[1] is Unsolved.LIMIT_REACHED


def test_a_search_is_bounded_by_its_work() -> None:
    """Without an answer within the work, the limit is reported, not infeasibility; equal work gives equal answers."""
    scene = hundred_nodes(0, (23, 27))
    (problem,) = problems(scene.snapshot(), scene.policy())
    assert isinstance(problem, MultiClassProblem)
    assert solve(problem.classes, LIMITS, work=0) is Unsolved.LIMIT_REACHED
    answers = [solve(problem.classes, LIMITS, work=400_000) for _ in range(2)]
    assert answers[0] == answers[1]
    assert isinstance(answers[0], Solution)
    assert 0 < answers[0].bound < answers[0].evictions


def test_the_programs_of_a_namespace_share_its_work() -> None:
    """What one has taken another does not have; with nothing left a hard one is not solved, and nothing is counted."""
    scene = hundred_nodes(0, (23, 27))
    (problem,) = problems(scene.snapshot(), scene.policy())
    assert isinstance(problem, MultiClassProblem)
    left = SearchBudget(400_000)
    first = solve(problem.classes, replace(LIMITS, namespace_work=left))
    assert first == solve(problem.classes, LIMITS, work=400_000)
    assert 0 <= left.left < 100_000  # what is left is less than a report's numbers
    assert solve(problem.classes, replace(LIMITS, namespace_work=left)) is Unsolved.LIMIT_REACHED


def test_the_programs_of_a_namespace_have_little_work_while_others_have_repairs_but_in_turn() -> None:
    """Alone it has the whole; of three namespaces another one has it each minute, the others a sixth of it."""
    scene = hundred_nodes(0, (23, 27))
    snapshot = scene.snapshot()
    limits = SearchLimits()

    def granted(minute: int, *namespaces: str) -> int:
        moment = replace(snapshot, taken_at=snapshot.taken_at + timedelta(minutes=minute))
        (problem,) = problems(moment, scene.policy(), namespaces=namespaces)
        assert isinstance(problem, MultiClassProblem)
        assert problem.cache.limits.namespace_work is not None
        return problem.cache.limits.namespace_work.left

    (namespace,) = {pod.namespace for pod in snapshot.pods}
    assert granted(0) == granted(1, namespace) == limits.work_of_namespace
    turns = [granted(minute, namespace, "others", "others-2") for minute in range(6)]
    assert sorted(turns) == [limits.work_among_others] * 4 + [limits.work_of_namespace] * 2
    assert turns[:3] == turns[3:]


def test_a_hard_program_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until something of it or of its limits changes; its outcome and what it took are the same the second time."""
    scene = hundred_nodes(0, (23, 27))
    (problem,) = problems(scene.snapshot(), scene.policy())
    assert isinstance(problem, MultiClassProblem)
    outcomes, solved = Outcomes(), []
    run = milp._solve  # counted, and as it is

    def count(program: Program, limits: SearchLimits, work: int) -> Outcome:
        solved.append(work)
        return run(program, limits, work)

    monkeypatch.setattr(milp, "_outcomes", outcomes)
    monkeypatch.setattr(milp, "_solve", count)
    budgets = [SearchBudget(400_000), SearchBudget(400_000)]
    first, second = (solve(problem.classes, replace(LIMITS, namespace_work=budget)) for budget in budgets)
    assert first == second
    assert budgets[0].left == budgets[1].left < 400_000
    assert solved == [400_000]
    solve(problem.classes, LIMITS, work=200_000)
    solve(problem.classes, replace(LIMITS, solver_nodes=1), work=200_000)
    assert solved == [400_000, 200_000, 200_000]


def test_the_outcomes_that_were_used_last_are_stored() -> None:
    """Of more than 32 the one that was not used for the longest goes; easy programs are solved again."""
    outcomes = Outcomes()
    hard = Outcome(Unsolved.LIMIT_REACHED, 50_000)
    for number in range(32):
        outcomes.store(bytes([number]), 50_000, hard)
    assert outcomes.find(bytes([0]), 50_000) is hard
    outcomes.store(b"new", 50_000, hard)
    outcomes.store(b"easy", 50_000, Outcome(Unsolved.INFEASIBLE, 49_999))
    found = [outcomes.find(key, 50_000) for key in (bytes([0]), bytes([1]), b"new", b"easy")]
    assert found == [hard, None, hard, None]


def test_what_was_not_interrupted_holds_for_any_work_that_suffices() -> None:
    """An interrupted program may have another outcome with more work, and has with less."""
    outcomes = Outcomes()
    whole = Outcome(Unsolved.INFEASIBLE, 60_000)
    part = Outcome(Unsolved.LIMIT_REACHED, 70_000, interrupted=True)
    outcomes.store(b"whole", 100_000, whole)
    outcomes.store(b"part", 70_500, part)
    assert [outcomes.find(b"whole", work) for work in (59_999, 60_000, 200_000)] == [None, whole, whole]
    assert [outcomes.find(b"part", work) for work in (70_000, 70_500, 80_000)] == [None, part, None]
