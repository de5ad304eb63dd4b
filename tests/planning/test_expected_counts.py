"""Counts after the decided evictions: exact where each replacement has one domain, else an upper bound or unknown."""

import pytest
from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.assessment.limits.result import EvaluatedLimit
from rebalancer.model.moves import NO_MEMORY, Reference, Target
from rebalancer.model.reasons import Cause, State
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import WhenUnsatisfiable
from rebalancer.planning.eviction import Eviction, Outlook, Repair
from rebalancer.planning.expected_counts import expected_counts, expected_worst
from rebalancer.planning.plan import ComponentPlan
from rebalancer.planning.scope.components import Component, Counts, find_components
from rebalancer.scheduling.view import View
from rebalancer.simulator import ZONE
from tests.build import a_cluster
from tests.planning.build import limit, policy


class GivenTargets:
    """An outlook with the domains of one key as targets; without counts."""

    def __init__(self, *domains: str) -> None:
        self._domains = domains

    def targets(self) -> tuple[Target, ...]:
        return (Target(ZONE, self._domains),)

    def counts(self) -> Counts | None:
        return None

    def landings(self, nodes: frozenset[str]) -> frozenset[str]:
        return nodes


def four_and_one() -> Snapshot:
    """Return one workload with four pods in zone a and one in zone b."""
    return a_cluster("ab", 1, {"a-1": 4, "b-1": 1}).snapshot()


def evaluated(snapshot: Snapshot, bound: str) -> EvaluatedLimit:
    """Return one limit over the zones, as it is evaluated."""
    (result,) = assess(View(snapshot), policy(limit(bound, key=ZONE)), NO_MEMORY).limits
    return result


def evict_first(snapshot: Snapshot, *domains: str, cause: Cause = Cause.SHARE_LIMIT_VIOLATED) -> Eviction:
    """Return the eviction of a pod in zone a whose replacement may be placed in any of these zones."""
    repair = Repair(step=1, group="g", cause=cause, outlook=Outlook(GivenTargets(*domains)))
    pod = next(pod for pod in snapshot.pods if pod.node == "a-1")
    return Eviction(repair=repair, pod=pod, workload=Reference("default", "Deployment", "web"))


@pytest.mark.parametrize(
    ("bound", "domains", "worst"),
    [
        pytest.param("maxPods: 3", ("b",), (3, True), id="the fullest domain"),
        pytest.param("minPods: 2", ("b",), (2, True), id="the emptiest domain"),
        pytest.param("maxSkew: 1", ("b",), (1, True), id="the difference of both"),
        pytest.param("maxPods: 3", ("a", "b"), (4, False), id="an upper bound of the fullest domain"),
        pytest.param("maxSkew: 1", ("a", "b"), None, id="a difference that is not known"),
        pytest.param("maxPods: 3", (), None, id="no target that is known"),
        pytest.param("maxSkew: 1", ("elsewhere",), (2, True), id="a target that the limit does not count"),
    ],
)
def test_the_worst_domain_of_a_limit(bound: str, domains: tuple[str, ...], worst: tuple[int, bool] | None) -> None:
    """Of 4 and 1 pods, one of the four being evicted: the number after it, and whether that is exact."""
    snapshot = four_and_one()
    assert expected_worst(evaluated(snapshot, bound), [evict_first(snapshot, *domains)], snapshot) == worst


def test_a_pod_whose_node_no_longer_exists_leaves_no_domain() -> None:
    """It was counted nowhere, so only its replacement changes a count."""
    snapshot = four_and_one()
    eviction = evict_first(snapshot, "b")
    gone = structs.replace(eviction, pod=structs.replace(eviction.pod, node="gone"))
    assert expected_worst(evaluated(snapshot, "maxSkew: 1"), [gone], snapshot) == (2, True)


def test_nothing_is_expected_of_an_eviction_that_frees_a_pending_pod() -> None:
    """The pending pod is placed too, and its domain is not known; nor without any eviction that counts."""
    snapshot = four_and_one()
    rule = evaluated(snapshot, "maxPods: 3")
    assert expected_worst(rule, [evict_first(snapshot, "b", cause=Cause.PLACEMENT_DEADLOCK)], snapshot) is None
    assert expected_worst(rule, [], snapshot) is None


def test_counts_after_the_repair_of_a_deadlock_are_unknown() -> None:
    """The pending pod is placed too, and nobody knows where."""
    snapshot = four_and_one()
    group = planned(component_of(snapshot))
    evictions = [evict_first(snapshot, "b", cause=Cause.PLACEMENT_DEADLOCK)]
    assert expected_counts(group, evictions, snapshot) == {}


def test_a_limit_counts_its_own_pods_alone() -> None:
    """An eviction of a pod that it does not count changes none of its numbers."""
    snapshot = four_and_one()
    component = component_of(snapshot)
    group = planned(component)
    counted = evict_first(snapshot, "b")
    stranger = structs.replace(counted, pod=structs.replace(counted.pod, uid="stranger"))
    assert expected_counts(group, [counted], snapshot) == {ZONE: {"a": 3, "b": 2}}
    assert expected_counts(group, [stranger], snapshot) == {ZONE: {"a": 4, "b": 1}}


def planned(component: Component) -> ComponentPlan:
    return ComponentPlan(
        component=component,
        state=State.VIOLATED,
        refusal=None,
        evictions=1,
        lower_bound=1,
        optimal=True,
        outlook=Outlook(GivenTargets("b")),
    )


def test_a_constraint_counts_a_pod_that_moves() -> None:
    """One less where it was, one more where its replacement can only be placed."""
    snapshot = a_cluster("ab", 1, {"a-1": 4, "b-1": 1}, spread={ZONE: 1}).snapshot()
    assessment = assess(View(snapshot), policy(), NO_MEMORY)
    (component,) = find_components(assessment, frozenset(), (WhenUnsatisfiable.DO_NOT_SCHEDULE,))
    assert expected_counts(planned(component), [evict_first(snapshot, "b")], snapshot) == {ZONE: {"a": 3, "b": 2}}


def component_of(snapshot: Snapshot) -> Component:
    """Return the component of one limit over the zones."""
    view = View(snapshot)
    assessment = assess(view, policy(limit("maxSkew: 1", key=ZONE)), NO_MEMORY)
    (component,) = find_components(assessment, frozenset(), (WhenUnsatisfiable.DO_NOT_SCHEDULE,))
    return component
