"""How long planning takes where pods are of several classes. Run: `python -m pytest benchmarks/test_components.py -s`.

100 components of 100 nodes and 200 pods, each from its seed; of few classes and of many. What is not proved within
the search limits is printed with its bound. And clusters of 66 shards, played to their end on the simulated cluster.
"""

import time
from statistics import median

import pytest

from benchmarks.component_states import hundred_nodes, shards
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.problem.multi_class import MultiClassProblem
from tests.planning.build import decided, planned
from tests.planning.multi_class.test_shards import Outcome, played
from tests.planning.scenes import problems
from tests.planning.states import LIMITS


@pytest.mark.parametrize("sets", [(3, 6), (23, 27)])
def test_a_hundred_components(sets: tuple[int, int]) -> None:
    """At least nine of ten are proved, the least or that there is none, half of them within two seconds each."""
    solving, deciding, proved, none, steps, open_ = [], [], 0, 0, 0, []
    for seed in range(100):
        scene = hundred_nodes(seed, sets)
        (problem,) = problems(scene.snapshot(), scene.policy())
        assert isinstance(problem, MultiClassProblem), problem
        start = time.process_time()
        solution = solve(problem.classes, LIMITS)
        solving.append(time.process_time() - start)
        none += solution is Unsolved.INFEASIBLE
        start = time.process_time()
        steps += decided(problem, problem.view, lookahead=LIMITS.lookahead_nodes_of_component).step is not None
        deciding.append(time.process_time() - start)
        if solution is Unsolved.INFEASIBLE or (isinstance(solution, Solution) and solution.evictions == solution.bound):
            proved += 1
        else:
            bound = f"{solution.evictions}, at least {solution.bound}" if isinstance(solution, Solution) else ""
            open_.append(f"seed {seed}: {bound or solution}")
    of = f"{sets[0]} to {sets[1]} StatefulSets: proved {proved} of 100, {none} of them to be infeasible"
    print(f"\n{of}; median {median(solving):.2f} s, longest {max(solving):.2f} s of processor time")
    print("\n".join(open_))
    print(f"a step for {steps}; proof and step: median {median(deciding):.2f} s, longest {max(deciding):.2f} s")
    assert proved >= 90
    assert median(solving) <= 2
    assert max(solving) <= 20


@pytest.mark.parametrize("lost", ["z0", 5, 12, 25])
@pytest.mark.parametrize("skew", [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_shards(skew: tuple[int, int], lost: int | str) -> None:
    """66 shards on 100 nodes: the least is proved, a step is found, and the repair takes that number."""
    scene = shards(1, skew=skew, lost=lost)
    start = time.process_time()
    (group,) = planned(scene.snapshot(), scene.policy()).components
    first = time.process_time() - start
    start = time.process_time()
    outcome = played(scene)
    took = (time.process_time() - start) / (outcome.evictions + 3)
    of = f"maxSkew {skew[0]} and {skew[1]}, {f'{lost} nodes' if isinstance(lost, int) else 'a zone'} lost"
    proof = "proved" if group.optimal else f"at least {group.lower_bound}"
    done = f"{outcome.evictions} evictions, {outcome.waiting} waiting, {outcome.left} left"
    print(f"\n{of}: {group.evictions} {proof}; first plan {first:.1f} s, a cycle {took:.1f} s; {done}")
    assert group.optimal
    assert outcome == Outcome(group.evictions, 0, 0)
