"""Why a component cannot be repaired; what was not proved is not called impossible."""

from rebalancer.model.reasons import Reason, State
from rebalancer.planning.diagnosis.closed_nodes import NodesTakeNoMore
from rebalancer.planning.diagnosis.obstacles import MinimumSearchLimit, diagnose_multi_class
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.search.cache import SearchCache
from rebalancer.planning.search.limits import SearchLimits
from tests.build import with_nodes
from tests.planning.build import cause_of, first_problem, joined, planned, two_classes
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
    snapshot = joined(two_classes())
    none = with_nodes(snapshot, {name: {"pods": 0} for name in snapshot.node})
    (diagnosed,) = planned(none).components
    assert (diagnosed.state, diagnosed.reason) == (State.UNFIXABLE, Reason.NO_CAPACITY)
    limits = SearchLimits(solve_work=0)
    _, problem = first_problem(none, cache=SearchCache(limits))
    assert isinstance(problem, MultiClassProblem)
    assert problem.solution is Unsolved.INFEASIBLE, "the limit is reached afterwards"
    (limited,) = planned(none, limits=limits).components
    assert (limited.state, limited.reason) == (State.VIOLATED, Reason.NOT_FORCED)
    assert cause_of(limited) == MinimumSearchLimit()
