"""Of nodes that nothing tells apart a program needs few, and its answer is that of all of them."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm
from rebalancer.model.labels import LabelSelector
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.pods import PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.formulation import ProblemBuilder
from rebalancer.planning.multi_class.alike import AlikeNodes
from rebalancer.planning.multi_class.classes import PodClasses
from rebalancer.planning.multi_class.model import PlacementModel
from rebalancer.planning.multi_class.solve import Solution, solve
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.scope.capacity import CapacityIndex
from rebalancer.planning.scope.components import find_components
from rebalancer.scheduling.view import View
from rebalancer.simulator import ClusterBuilder
from tests.build import change_specs
from tests.drawing import examples
from tests.planning.anti_affinity.drawn import draw
from tests.planning.anti_affinity.test_minimum import acting, going
from tests.planning.build import planned
from tests.planning.states import CACHE, LIMITS

LARGE = 5_000


def with_terms(snapshot: Snapshot, terms: dict[str, list[PodAffinityTerm]]) -> Snapshot:
    """Return the cluster in which the pods of each app declare these terms, and ask for the CPU that it names."""

    def declare(app: str, spec: PodSpec) -> PodSpec:
        return structs.replace(spec, pod_affinity=PodAffinity(anti_required=tuple(terms.get(app, ()))))

    return change_specs(snapshot, declare)


def apart(app: str, key: str = HOSTNAME) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=key, selector=LabelSelector.of({"app": app}))


def draw_wide(seed: int) -> Snapshot:
    """Draw zones of many empty nodes, few of them large, with pods of two workloads on the first of each zone."""
    random = Random(seed)
    builder = ClusterBuilder()
    for zone in "abc":
        for number in range(random.randint(1, 12)):
            builder.node(f"{zone}-{number}", cpu=random.choice((1_000, 2_000, 9_000)), memory=2**36, zone=zone)
    for app in "pq":
        on = {f"{zone}-0": number for zone in "abc" if (number := random.randint(0, 3))} or {"a-0": 2}
        spread = random.choice(({}, {ZONE: 1}, {ZONE: 2}, {HOSTNAME: 1}, {ZONE: 1, HOSTNAME: 2}))
        builder.deployment(app, on=on, spread=spread, cpu=random.choice((100, 1_000, 1_500)))
    terms = {"p": [apart("p")]}
    if random.random() < 0.5:
        terms["q"] = [apart(random.choice("pq"), random.choice((HOSTNAME, ZONE)))]
    return with_terms(builder.snapshot(), terms)


@given(st.integers(0, 10**6))
@examples(60)
def test_the_fewest_evictions_are_those_of_all_nodes(seed: int) -> None:
    """With terms and constraints, of one class and of two, whole and where not all of it can hold."""
    snapshot, random = draw_wide(seed), Random(seed)
    for problem in problems(snapshot):
        classes = problem.classes
        for number, one in enumerate(classes.classes):
            if random.random() < 0.3:
                classes = keep(classes, number)
            elif random.random() < 0.3:
                cap = {node: max(one.counts.get(node, 0), random.choice((0, 0, 0, 1, 2))) for node in one.cap}
                classes = classes.with_cap(number, cap)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AlikeNodes, "find_needed", lambda self: sorted(self._classes.view.nodes.names))
            whole = [solve(classes, LIMITS, relaxed=relaxed) for relaxed in (False, True)]
        fewer = [solve(classes, LIMITS, relaxed=relaxed) for relaxed in (False, True)]
        assert list(map(numbers, fewer)) == list(map(numbers, whole))


def keep(classes: PodClasses, number: int) -> PodClasses:
    """Return the component of which no pod of a class may move."""
    one = classes.classes[number]
    kept = replace(one, movable={}, fixed=one.counts)
    return replace(classes, classes=tuple(kept if other is one else other for other in classes.classes))


def problems(snapshot: Snapshot) -> list[MultiClassProblem]:
    """Return the problems of a cluster's violated terms and constraints."""
    view, rules = View(snapshot), acting()
    assessment = assess(view, rules, NO_MEMORY)
    builder = ProblemBuilder(view, rules, BudgetLedger(view, rules, NO_MEMORY), CapacityIndex(view), CACHE)
    components = find_components(assessment, frozenset(), rules.spread.act_on, apart=True)
    made = [builder.problem(component) for component in components]
    return [problem for problem in made if isinstance(problem, MultiClassProblem)]


def numbers(solution: object) -> object:
    if not isinstance(solution, Solution):
        return solution
    return solution.evictions, solution.unplaced, solution.excess


@given(st.integers(0, 10**6))
@examples(30)
def test_the_minimum_among_many_nodes_is_that_of_a_search(seed: int) -> None:
    """Clusters with a dozen more empty nodes in each zone, and without a zone: against every choice of pods."""
    small = draw(seed)
    more = {f"m{zone}{number}": zone for zone in {*small.zones.values()} for number in range(12)}
    drawn = replace(small, zones={**small.zones, **more})
    plan = planned(drawn.snapshot(), acting())
    fewest = drawn.minimum()
    if fewest is not None:
        assert sum(one.evictions for one in plan.components) == fewest
        assert all(one.optimal for one in plan.components)


def large(nodes: int) -> Snapshot:
    """Return a cluster of nodes that all have another free capacity, two of its pods on one of them."""
    builder = ClusterBuilder()
    for number in range(nodes):
        builder.node(f"n{number}", cpu=16_000 + number, memory=2**36, zone="abc"[number % 3])
    builder.deployment("p", on={"n0": 2, **{f"n{number}": 1 for number in range(1, 9)}}, spread={ZONE: 1})
    return with_terms(builder.snapshot(), {"p": [apart("p")]})


@pytest.mark.caught("of 2,500 nodes and more the search reached its limit: no violated term was repaired")
def test_a_violated_term_among_5_000_nodes_is_repaired() -> None:
    """One pod goes, by force; the program has a column for some dozens of them."""
    plan = planned(large(LARGE), acting())
    assert [one.node for one in going(plan)] == ["n0"]
    (fate,) = plan.fates.going
    assert fate.forced
    (problem,) = problems(large(300))
    assert len(problem.model.placed) < 60
    assert len(PlacementModel(replace(problem.classes, exclusions=())).placed) == 300


def test_nodes_without_room_stand_for_none_that_have_some() -> None:
    """The last two of three hundred nodes take the pods; all before them are full."""
    (problem,) = problems(large(300))
    (pod_class,) = problem.classes.classes
    roomy = {f"n{number}": 1 for number in (298, 299)}
    cap = {node: pod_class.counts.get(node, 0) or roomy.get(node, 0) for node in pod_class.cap}
    solution = solve(problem.classes.with_cap(0, cap), LIMITS)
    assert isinstance(solution, Solution)
    assert solution.evictions == 1


def test_a_node_that_a_pod_leaves_is_as_one_that_has_none() -> None:
    """And one that takes a pod as one that has it; where the same pods leave and come, nothing changes."""
    (problem,) = problems(large(12))
    empty, held = "n9", "n3"
    nodes = AlikeNodes(replace(problem.classes, requirements=(), others=()))
    assert nodes.key(held, {(0, held): -1}) == nodes.key(empty, {}) == nodes.key(empty, {(0, held): -1})
    assert nodes.key(empty, {(0, empty): 1}) == nodes.key(held, {}) != nodes.key(empty, {})
