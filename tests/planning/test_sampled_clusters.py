"""Repairs in clusters of which kube-scheduler scores a sample of nodes: predicted where every sample leads to them."""

from dataclasses import replace

import pytest
from msgspec import structs

from rebalancer.model.affinity import NodeAffinity, NodeSelectorTerm
from rebalancer.model.labels import Operator, SelectorRequirement
from rebalancer.model.pods import PodSpec
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.planning.decision import NoSafeEviction, SampleDecides, StepSearchLimit
from rebalancer.planning.plan import ComponentPlan, Plan
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.simulator import ZONE
from tests.build import a_cluster, change_specs
from tests.planning.build import limit, planned, policy, softly

SOFT = "spread: {actOn: [DoNotSchedule, ScheduleAnyway]}\n"


def returned_zone(nodes: int, *, closed: int = 0) -> Snapshot:
    """Return three equal zones; a soft constraint over zones counts 6, 6 and 0 pods. Of zone c so many are cordoned."""
    on = {f"{zone}-{number}": 1 for zone in "ab" for number in range(1, 7)}
    made = change_specs(a_cluster("abc", nodes // 3, on, spread={ZONE: 1}).snapshot(), _soften)
    there = {f"c-{number}" for number in range(1, closed + 1)}
    return replace(made, nodes=tuple(structs.replace(node, unschedulable=node.name in there) for node in made.nodes))


def _soften(_: str, spec: PodSpec) -> PodSpec:
    soft = WhenUnsatisfiable.SCHEDULE_ANYWAY
    return structs.replace(spec, spread=tuple(structs.replace(one, when_unsatisfiable=soft) for one in spec.spread))


def only(plan: Plan) -> ComponentPlan:
    (component,) = plan.components
    return component


def test_a_workload_that_names_its_nodes_is_planned_like_others() -> None:
    """Its nodes are a list of their own, in any order, so that too many are left out to be sure."""
    state = returned_zone(150)
    terms = tuple(
        NodeSelectorTerm(fields=(SelectorRequirement("metadata.name", Operator.IN, (node.name,)),))
        for node in state.nodes
    )
    named = change_specs(state, lambda _, spec: structs.replace(spec, node_affinity=NodeAffinity(required=terms)))
    plan = planned(named, policy(SOFT))
    assert (plan.fates.going, type(only(plan).refusal)) == ((), SampleDecides)


@pytest.mark.parametrize("nodes", [99, 150, 300, 1000, 5000])
def test_a_soft_constraint_is_repaired_where_every_sample_has_the_empty_zone(nodes: int) -> None:
    """One eviction at a time, each verified before the next, as in a cluster of which every node is scored."""
    plan = planned(returned_zone(nodes), policy(SOFT))
    assert (only(plan).evictions, only(plan).optimal) == (4, True)
    (eviction,) = plan.fates.going
    assert not eviction.repair.forced


def test_a_stricter_limit_is_repaired_likewise() -> None:
    plan = planned(returned_zone(300), policy(limit("maxSkew: 1", key=ZONE)))
    assert only(plan).evictions == 4
    assert len(plan.fates.going) == 1


def test_where_a_sample_may_lack_the_zone_the_refusal_says_what_scoring_all_would_cost() -> None:
    """Of 70 nodes of the empty zone 66 are cordoned: kube-scheduler may find 102 others before one of the four."""
    component = only(planned(returned_zone(210, closed=66), policy(SOFT)))
    assert component.refusal == SampleDecides(102, 210)
    assert (component.state, component.reason) == (State.UNFIXABLE, Reason.NOT_FORCED)


def test_where_scoring_all_would_not_help_either_the_sample_is_not_blamed() -> None:
    """Nothing prefers the empty zone: a limit alone is no score."""
    on = {f"{zone}-{number}": 1 for zone in "ab" for number in range(1, 7)}
    plain = softly(a_cluster("abc", 70, on, spread={}).snapshot())
    component = only(planned(plain, policy(limit("maxSkew: 1", key=ZONE))))
    assert component.refusal == NoSafeEviction()


def test_where_the_search_ends_early_the_sample_is_not_blamed() -> None:
    """Scoring all nodes gives a step here, and so does every sample: the search for it reached its limit."""
    limits = SearchLimits(lookahead_nodes_of_component=1_500, lookahead_nodes_of_component_least=1_500)
    component = only(planned(returned_zone(1000), policy(SOFT), limits=limits))
    assert component.refusal == StepSearchLimit()


def test_below_100_nodes_two_open_ones_are_enough() -> None:
    plan = planned(returned_zone(90, closed=28), policy(SOFT))
    assert len(plan.fates.going) == 1
