"""What the lookahead asks of a component: who goes first, and how far a supposed state is from satisfied."""

from collections import Counter
from collections.abc import Hashable, Iterator
from random import Random

from rebalancer.planning.multi_class.classes import PodClasses
from rebalancer.planning.multi_class.model import PlacementModel
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.problem.single_class import SingleClassProblem
from rebalancer.planning.search.limits import SearchBudget
from rebalancer.planning.steps.lookahead_models import MultiClassModel
from rebalancer.simulator import ZONE
from tests.build import a_cluster
from tests.planning.build import first_problem
from tests.planning.multi_class.test_local_search import moved
from tests.planning.scenes import multi_class_problems, several_classes
from tests.planning.states import LIMITS


def solved_components(seeds: range) -> Iterator[tuple[int, Random, PodClasses, Solution]]:
    """Yield components of several pod classes that some placement satisfies: seed, draws, classes and solution."""
    for seed in seeds:
        choice = Random(seed)
        scene = several_classes(choice)
        for problem in multi_class_problems(scene.snapshot(), scene.policy()):
            target = solve(problem.classes, LIMITS)
            if not isinstance(target, Unsolved):
                yield seed, choice, problem.classes, target


def test_pods_that_leave_in_the_target_placement_go_first() -> None:
    """One candidate for each class on each node, those above their number in the target placement before the others."""
    tried = 0
    for seed, _, classes, target in solved_components(range(60)):
        candidates = MultiClassModel(PlacementModel(classes), target, SearchBudget(10**6), LIMITS).candidates(
            {}, frozenset()
        )
        cells = [(classes.class_of(victim.pod), victim.pod.node or "") for victim in candidates]
        assert len(set(cells)) == len(cells)
        leaves = [classes.classes[number].counts[node] > target.placed.get((number, node), 0) for number, node in cells]
        assert leaves == sorted(leaves, reverse=True), seed
        tried += any(leaves) and not all(leaves)
    assert tried > 5


def test_a_supposed_state_without_a_change_is_the_state() -> None:
    """As many pods are placed and pending as before, so it takes as many evictions."""
    for seed in range(40):
        scene = several_classes(Random(seed))
        for problem in multi_class_problems(scene.snapshot(), scene.policy()):
            now = problem.classes
            pending = {number: pod_class.pending for number, pod_class in enumerate(now.classes) if pod_class.pending}
            supposed = now.supposed({}, pending)
            assert [pod_class.pending for pod_class in supposed.classes] == [
                pod_class.pending for pod_class in now.classes
            ], seed
            assert [dict(pod_class.counts) for pod_class in supposed.classes] == [
                dict(pod_class.counts) for pod_class in now.classes
            ]
            assert solve(supposed, LIMITS) == solve(now, LIMITS), seed


def test_a_state_far_from_the_target_placement_is_solved_once() -> None:
    """A quick search counts it as farther; otherwise the program says how far it is, and is not asked again."""
    solved = 0
    for seed, choice, classes, target in solved_components(range(120)):
        pending = [pod_class.sample for pod_class in classes.classes for _ in range(pod_class.pending)]
        changes = moved(classes, choice)
        exact = solve(classes.supposed(changes, Counter(map(classes.class_of, pending))), LIMITS)
        deltas: dict[Hashable, int] = dict(changes.items())
        assert isinstance(exact, Solution)
        budget = SearchBudget(10**6)
        model = MultiClassModel(PlacementModel(classes), target, budget, LIMITS)
        near = model.is_within(deltas, pending, exact.evictions, quick=True)
        spent = []
        for _ in range(2):
            before = budget.left
            assert model.is_within(deltas, pending, exact.evictions, quick=False), seed
            assert not model.is_within(deltas, pending, exact.evictions - 1, quick=False), seed
            spent.append(before - budget.left)
        assert near or spent[0] > spent[1], seed
        solved += not near
    assert solved > 2


def test_a_model_of_equal_pods_tells_every_node_apart() -> None:
    """Scores may differ between nodes that hold as many pods."""
    _, problem = first_problem(a_cluster("ab", 2, {"a-1": 3}, spread={ZONE: 1}).snapshot())
    assert isinstance(problem, SingleClassProblem)
    model = problem.lookahead_model(SearchBudget(0))
    assert list(model.distinct_nodes({}, ["a-1", "a-2"])) == ["a-1", "a-2"]
