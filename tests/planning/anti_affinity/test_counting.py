"""What is counted of exclusions, and of an even spread, against every placement and by hand."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.assessment.anti_affinity.excess import Part
from rebalancer.assessment.assess import assess
from rebalancer.model.affinity import PodAffinity
from rebalancer.model.moves import NO_MEMORY, Reference
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.anti_affinity.exclusions import Exclusion
from rebalancer.planning.anti_affinity.unplanned import NotModelledApart
from rebalancer.planning.formulation import ProblemBuilder
from rebalancer.planning.preferred import find_even_spread
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.scope.capacity import CapacityIndex
from rebalancer.planning.scope.components import find_preferring
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ClusterBuilder
from tests.build import change_specs
from tests.drawing import examples
from tests.planning.anti_affinity.drawn import Drawn, Term
from tests.planning.anti_affinity.test_preferred import acting
from tests.planning.states import CACHE

SPREAD = Drawn({}, {"a": "x"}, (), (Term("a", HOSTNAME, "a", everywhere=False, weight=10),))


def count_moves(held: list[int], places: list[int]) -> int:
    """Return how many pods move at least to a placement of the least weight: of all placements."""
    total = sum(held)
    layouts = [one for one in product(*[range(most + 1) for most in places]) if sum(one) == total]
    least = min(sum(number * (number - 1) for number in one) for one in layouts)
    even = [one for one in layouts if sum(number * (number - 1) for number in one) == least]
    return min(sum(max(0, now - then) for now, then in zip(held, one, strict=True)) for one in even)


def counted(held: list[int], places: list[int]) -> int:
    """Return the same as it is counted of a cluster."""
    builder = ClusterBuilder()
    for number, most in enumerate(places):
        builder.node(f"n{number}", cpu=1_000 * most, memory=2**40)
    on = {f"n{number}": many for number, many in enumerate(held) if many}
    builder.deployment("a", on=on, namespace="x", cpu=1_000)
    problem = preferring_problem(change_specs(builder.snapshot(), SPREAD._declare))
    even = find_even_spread(problem.classes) if problem is not None else None
    return even.above if even is not None else 0


def preferring_problem(snapshot: Snapshot) -> MultiClassProblem | None:
    """Return the problem of the first component that prefers another placement."""
    view, rules = View(snapshot), acting()
    preferring = find_preferring(assess(view, rules, NO_MEMORY), (), apart=True)
    if not preferring:
        return None
    ledger = BudgetLedger(view, rules, NO_MEMORY)
    problem = ProblemBuilder(view, rules, ledger, CapacityIndex(view), CACHE).problem(preferring[0])
    assert isinstance(problem, MultiClassProblem)
    return problem


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=2, max_size=4).filter(
        lambda one: any(map(min, one))
    )
)
@examples(80)
def test_an_even_spread_keeps_as_many_pods_as_any_placement_of_the_least_weight(nodes: list[tuple[int, int]]) -> None:
    held = [min(pair) for pair in nodes]
    places = [most for _, most in nodes]
    assert counted(held, places) == count_moves(held, places)


@pytest.mark.parametrize(
    ("held", "places", "moves"),
    [([2, 1, 1], [2, 2, 2], 0), ([3, 1, 0], [3, 3, 3], 1), ([3, 0, 1], [3, 3, 3], 1), ([0, 3, 2], [1, 3, 2], 1)],
)
def test_of_equal_placements_the_one_counts_that_most_pods_are_in(
    held: list[int], places: list[int], moves: int
) -> None:
    """Nobody moves to have the second pod on another node."""
    assert counted(held, places) == moves


def test_of_pods_that_exclude_each_other_a_domain_keeps_one_of_two_sides_all_of_one() -> None:
    """In the order of `Part`: that declare it, that it selects, both."""
    exclusion = Exclusion(key=HOSTNAME, domain={"n": "n"}, parts={})
    excess = [exclusion.excess_in("n", counts) for counts in ((0, 0, 3), (2, 3, 0), (0, 2, 2), (3, 0, 1), (0, 0, 1))]
    assert excess == [2, 2, 2, 1, 0]


def test_a_term_is_mutual_where_all_of_its_pods_declare_it_and_are_selected() -> None:
    """One that only declares it, or is only selected, excludes the others, and none of its own."""
    parts = [{0: Part.BOTH}, {0: Part.BOTH, 1: Part.SELECTED}, {0: Part.DECLARES}]
    assert [Exclusion(key=HOSTNAME, domain={}, parts=one).is_mutual for one in parts] == [True, False, False]


def test_why_a_workload_is_not_moved_is_said_with_its_name() -> None:
    refusal = NotModelledApart(Reference("x", "StatefulSet", "db"), "its pods have host ports")
    assert str(refusal) == "x/db (StatefulSet) is not moved for podAntiAffinity: its pods have host ports"


def test_pods_of_nobody_stay_and_are_counted_one_by_one() -> None:
    """Two beside none of ours on a node: what comes there pairs with both."""
    builder = ClusterBuilder()
    builder.zones("abc", 1)
    builder.deployment("a", on={"a-1": 3}, namespace="x")
    snapshot = change_specs(builder.snapshot(), SPREAD._declare)
    bare = [
        structs.replace(pod, uid=f"bare-{pod.uid}", name=f"bare-{pod.name}", owner=None) for pod in snapshot.pods[:2]
    ]
    with_bare = replace(snapshot, pods=(*snapshot.pods, *(structs.replace(pod, node="b-1") for pod in bare)))
    problem = preferring_problem(with_bare)
    assert problem is not None
    assert problem.classes.preferences[0].staying == {"b-1": (0, 0, 2)}
    plain = [structs.replace(pod, spec=structs.replace(pod.spec, pod_affinity=PodAffinity())) for pod in bare]
    selected = replace(snapshot, pods=(*snapshot.pods, *(structs.replace(pod, node="b-1") for pod in plain)))
    problem = preferring_problem(selected)
    assert problem is not None
    assert problem.classes.preferences[0].staying == {"b-1": (0, 2, 0)}
