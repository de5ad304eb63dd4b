"""Why a component cannot be repaired; what was not proved is not called impossible."""

from dataclasses import replace

from msgspec import structs

from rebalancer.model.reasons import Reason, State
from rebalancer.planning.diagnosis.closed_nodes import NodesTakeNoMore
from rebalancer.planning.diagnosis.obstacles import MinimumSearchLimit, diagnose_multi_class
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.simulator import ZONE
from tests.build import a_cluster, change_specs
from tests.planning.build import cause_of, first_problem, joined, planned, together, two_classes
from tests.planning.states import LIMITS


def test_an_unknown_minimum_is_not_called_impossible() -> None:
    """Where the program for the fewest evictions reached its limit, the component is not repaired now."""
    _, problem = first_problem(joined(two_classes()))
    assert isinstance(problem, MultiClassProblem)
    state, refusal = diagnose_multi_class(problem.classes, Unsolved.LIMIT_REACHED, LIMITS, None, NodesTakeNoMore)
    assert (state, refusal) == (State.VIOLATED, MinimumSearchLimit())
    assert isinstance(solve(problem.classes, LIMITS), Solution)


def test_a_diagnosis_that_reaches_its_limit_calls_nothing_infeasible() -> None:
    """Where it is not proved what forbids a placement, the component stays Violated."""
    blueprint = a_cluster("ab", 1)
    blueprint.deployment("one", on={"a-1": 3}, spread={ZONE: 1}, cpu=100)
    blueprint.deployment("two", on={"a-1": 3}, spread={ZONE: 1}, cpu=200)
    snapshot = change_specs(blueprint.snapshot(), together, cluster="r")
    full = replace(snapshot, nodes=tuple(structs.replace(node, pods=6) for node in snapshot.nodes))
    none = replace(full, nodes=tuple(structs.replace(node, pods=0) for node in full.nodes))
    (diagnosed,) = planned(none).components
    assert (diagnosed.state, diagnosed.reason) == (State.UNFIXABLE, Reason.NO_CAPACITY)
    limits = SearchLimits(solve_work=0)
    _, problem = first_problem(none, cache=SearchCache(limits))
    assert isinstance(problem, MultiClassProblem)
    assert problem.solution is Unsolved.INFEASIBLE, "the limit is reached afterwards"
    (limited,) = planned(none, limits=limits).components
    assert (limited.state, limited.reason) == (State.VIOLATED, Reason.NOT_FORCED)
    assert cause_of(limited) == MinimumSearchLimit()
