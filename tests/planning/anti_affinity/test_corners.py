"""What becomes of anti-affinity while pods are to come, nodes are relabelled, predictions fail, budgets are small."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from rebalancer.assessment.anti_affinity.excess import Part
from rebalancer.assessment.assess import assess
from rebalancer.model.labels import Labels
from rebalancer.model.motion import NodeChange, NodeEvent
from rebalancer.model.moves import NO_MEMORY, FailedPrediction, Memory, MoveState, Reference
from rebalancer.model.pods import PodPhase
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.anti_affinity.exclusions import Exclusion
from rebalancer.planning.anti_affinity.unplanned import NobodyRecreates, NotModelledApart
from rebalancer.planning.decision import FailedPredictions, PredictionUnverified, StepSearchLimit
from rebalancer.planning.formulation import OthersPending, ProblemBuilder
from rebalancer.planning.multi_class.local_search import _CellRows
from rebalancer.planning.planner import find_relaxations, plan
from rebalancer.planning.preferred import EvenSpread
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.scope.budgets import BudgetLedger
from rebalancer.planning.scope.capacity import CapacityIndex
from rebalancer.planning.scope.components import Component, find_components
from rebalancer.planning.scope.lasting import CountsInMotion
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.policy import Nodes
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster, away_from, with_anti_affinity, with_cpu
from tests.planning.anti_affinity.drawn import Drawn, Term
from tests.planning.anti_affinity.test_minimum import acting, going
from tests.planning.anti_affinity.test_preferred import acting as preferring
from tests.planning.anti_affinity.test_preferred import own
from tests.planning.build import planned
from tests.planning.states import CACHE
from tests.tracking.build import move


def together(pods: int = 2, nodes: str = "abc") -> Snapshot:
    builder = a_cluster(nodes, 1, {"a-1": pods})
    return with_anti_affinity(builder.snapshot(), {"web": [away_from("web")]})


def test_pods_that_stay_leave_one_side_or_none() -> None:
    exclusion = Exclusion(
        key=HOSTNAME,
        domain={},
        parts={},
        staying={"one of each": (1, 1, 0), "both": (0, 0, 1), "declares": (2, 0, 0), "selected": (0, 1, 0)},
    )
    sides = [list(exclusion.find_sides(domain)) for domain in ("one of each", "both", "declares", "selected", "none")]
    assert sides == [[], [], [Part.DECLARES], [Part.SELECTED], list(Part)]


def test_too_few_domains_name_no_relaxation_and_reasons_can_be_hashed() -> None:
    made = planned(together(3, "ab"), acting())
    assert str(next(iter(find_relaxations(made).values()))) == ""
    assert len({eviction.repair.apart for eviction in made.fates.going}) == 1


@pytest.mark.parametrize(
    ("app", "namespace", "waits"), [("web", "default", True), ("api", "default", False), ("web", "other", False)]
)
def test_it_waits_for_a_pod_that_the_term_concerns(app: str, namespace: str, *, waits: bool) -> None:
    """Of another owner: it may take the free domain."""
    snapshot = together()
    pod = snapshot.pods[0]
    labels = Labels({"app": app, "other": "yes"})
    spec = (
        pod.spec
        if app == "web"
        else structs.replace(pod.spec, pod_affinity=structs.replace(pod.spec.pod_affinity, anti_required=()))
    )
    late = structs.replace(
        pod,
        uid="late",
        name="late",
        namespace=namespace,
        labels=labels,
        spec=spec,
        node=None,
        owner=None,
        phase=PodPhase.PENDING,
        ready=False,
    )
    made = planned(replace(snapshot, pods=(*snapshot.pods, late)), acting())
    kinds = {type(component.refusal) for component in made.components}
    assert (kinds == {OthersPending}) is waits
    assert bool(going(made)) is not waits


def test_it_does_not_wait_for_a_pod_of_its_own() -> None:
    snapshot = together(3, "abcd")
    late, *others = (structs.replace(pod, labels=pod.labels) for pod in snapshot.pods)
    late = structs.replace(late, node=None, phase=PodPhase.PENDING, ready=False)
    made = planned(replace(snapshot, pods=(late, *others)), acting())
    assert not any(isinstance(component.refusal, OthersPending) for component in made.components)


def two_sided_problem() -> MultiClassProblem:
    builder = a_cluster("ab", 1)
    builder.deployment("batch", on={"a-1": 2})
    builder.deployment("api", on={"a-1": 1})
    snapshot, rules = with_anti_affinity(builder.snapshot(), {"batch": [away_from("api")]}), acting()
    view = View(snapshot)
    assessment = assess(view, rules, NO_MEMORY)
    ledger = BudgetLedger(view, rules, NO_MEMORY, assessment.pod_groups)
    (component,) = find_components(assessment, frozenset(), rules.spread.act_on, apart=True)
    problem = ProblemBuilder(view, rules, ledger, CapacityIndex(view), CACHE).problem(component)
    assert isinstance(problem, MultiClassProblem)
    return problem


def test_an_exchange_that_puts_two_sides_together_does_not_hold() -> None:
    problem = two_sided_problem()
    rows = _CellRows(problem.model)
    batch = next(number for number, one in enumerate(problem.classes.classes) if one.sample.labels["app"] == "batch")
    placed = {(batch, "a-1"): 2, (1 - batch, "b-1"): 1}
    assert rows.hold({(batch, "a-1"): 0}, placed, rows.sums(placed))
    assert not rows.hold({(batch, "a-1"): -1, (batch, "b-1"): 1}, placed, rows.sums(placed))


def test_a_component_of_terms_alone_is_of_their_namespace() -> None:
    component = two_sided_problem().component
    alone = Component.of((), (), component.terms)
    assert alone.namespace == "default"
    assert alone.name == component.name


def test_of_many_workloads_those_are_planned_together_that_conflict() -> None:
    builder = a_cluster("ab", 1, {"a-1": 1})
    for number in range(40):
        builder.deployment(f"other-{number:02}", on={"b-1" if number else "a-1": 1})
    snapshot = builder.snapshot()
    everybody = structs.replace(away_from("web"), selector=away_from("web").selector.of({}))  # type: ignore[union-attr]
    (component,) = planned(with_anti_affinity(snapshot, {"web": [everybody]}), acting()).components
    assert {member.reference.name for member in component.component.members} == {"web", "other-00"}


def test_a_plan_of_one_workload_has_what_terms_join_with_it() -> None:
    """Also in another namespace."""
    drawn = Drawn(
        {"n0": "a", "n1": "a"},
        {"a": "x", "b": "y"},
        (("a", "n0"), ("b", "n0")),
        (Term("a", HOSTNAME, "b", everywhere=True),),
    )
    snapshot = drawn.snapshot()
    view, rules = View(snapshot), acting()
    assessment = assess(view, rules, NO_MEMORY)
    for chosen, number in (({Reference("y", "Deployment", "b")}, 1), ({Reference("z", "Deployment", "c")}, 0)):
        assert len(plan(view, assessment, rules, NO_MEMORY, only=chosen).components) == number


@pytest.mark.parametrize(("seconds", "waits"), [(60, True), (400, False)])
def test_a_label_that_has_just_been_changed_moves_no_pod_apart(seconds: int, *, waits: bool) -> None:
    builder = a_cluster("abc", 2, {"a-1": 1, "b-1": 1})
    snapshot = with_anti_affinity(builder.snapshot(), {"web": [away_from("web", ZONE)]})
    nodes = tuple(
        structs.replace(node, labels=Labels({**node.labels, ZONE: "a"})) if node.name == "b-1" else node
        for node in snapshot.nodes
    )
    at = snapshot.taken_at - timedelta(seconds=seconds)
    memory = Memory(node_changes=(NodeChange(at, "b-1", NodeEvent.RELABELLED, ZONE, "b"),))
    rules = acting().model_copy(update={"nodes": Nodes(settle=timedelta(minutes=5))})
    made = planned(replace(snapshot, nodes=nodes), rules, memory)
    assert (type(made.components[0].refusal) is CountsInMotion) is waits
    assert bool(going(made)) is not waits


def test_terms_of_pods_that_nobody_creates_or_predicts_say_so() -> None:
    snapshot = together()
    bare = replace(snapshot, pods=tuple(structs.replace(pod, owner=None) for pod in snapshot.pods), workloads=())
    other = tuple(
        structs.replace(pod, spec=structs.replace(pod.spec, unpredictable=("a feature",))) for pod in snapshot.pods
    )
    owners = tuple(
        structs.replace(
            one,
            template=structs.replace(
                one.template, spec=structs.replace(one.template.spec, unpredictable=("a feature",))
            ),
        )
        if one.template is not None
        else one
        for one in snapshot.workloads
    )
    for state, kind in ((bare, NobodyRecreates), (replace(snapshot, pods=other, workloads=owners), NotModelledApart)):
        assert kind in {type(row.refusal) for row in planned(state, acting()).refusals}


def uneven() -> Snapshot:
    return own([3, 0]).snapshot()


def test_predictions_that_failed_or_are_not_verified_are_waited_for() -> None:
    (component,) = planned(uneven(), preferring()).components
    at = uneven().taken_at
    flying = move("gone", at, namespace="x", group=component.name, state=MoveState.EVICTED)
    for memory, kind in (
        (Memory(failed_predictions=(FailedPrediction(component.name, 3, at),)), FailedPredictions),
        (Memory(moves=(flying,)), PredictionUnverified),
    ):
        (left,) = planned(uneven(), preferring(), memory).components
        assert type(left.refusal) is kind


def test_a_plan_without_budget_left_moves_nothing_for_preferred_terms() -> None:
    made = planned(uneven(), preferring(), limits=SearchLimits(preferred_nodes_of_plan=10))
    assert {type(row.refusal) for row in made.refusals} == {StepSearchLimit}


def counted(snapshot: Snapshot) -> Sequence[int | None]:
    """Return how many evictions the plan counts for each component, None where it counts none."""
    found = planned(snapshot, preferring()).components
    return [one.proof.above if isinstance(one.proof, EvenSpread) else None for one in found]


def test_the_number_of_moves_is_counted_where_counting_knows_it() -> None:
    """As far as nodes have places; not where two terms weigh against each other."""
    assert counted(with_cpu(own([4, 0, 0]).snapshot(), 100, "n2")) == [2]
    drawn = own([3, 0, 0])
    more = replace(drawn, terms=(*drawn.terms, Term("a", ZONE, "a", everywhere=False, weight=5)))
    assert counted(more.snapshot()) == [None]
    zoned = (Term("a", ZONE, "a", everywhere=False, weight=5),)
    keyless = Drawn({"n0": "a", "n1": None}, {"a": "x"}, (("a", "n0"),) * 3, zoned)
    assert counted(keyless.snapshot()) == [None]


def test_in_a_large_cluster_nodes_that_weigh_the_same_are_tried_once() -> None:
    builder = ClusterBuilder()
    builder.zones("ab", 60)
    drawn = own([2])
    builder.deployment("a", on={"a-1": 2}, namespace="x")
    snapshot = replace(drawn, zones={"a-1": "a"}, pods=(("a", "a-1"),) * 2).snapshot()
    declared = {pod.labels["app"]: pod.spec.pod_affinity for pod in snapshot.pods}

    def prefer(app: str, spec: object) -> object:
        return structs.replace(spec, pod_affinity=declared[app])  # type: ignore[type-var]

    from tests.build import change_specs  # noqa: PLC0415

    made = planned(change_specs(builder.snapshot(), prefer), preferring())  # type: ignore[arg-type]
    assert len(going(made)) == 1
