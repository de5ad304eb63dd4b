"""The placement of one group on its real nodes."""

from rebalancer.planning.problem.single_class import SingleClassProblem
from tests.planning.build import on_one_node, policy
from tests.planning.scenes import problems


def test_a_pod_on_a_node_that_does_not_count_changes_nothing() -> None:
    """A supposed state is the same, as far as a group is concerned, wherever else one of its pods stands."""
    (problem,) = problems(on_one_node(), policy())
    assert isinstance(problem, SingleClassProblem)
    assert problem.layout.shifted({"elsewhere": 1}) == problem.layout.root
    assert problem.layout.shifted({"b-1": 1}) != problem.layout.root
