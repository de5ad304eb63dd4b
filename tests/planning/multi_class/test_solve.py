"""The fewest evictions of several pod classes: capacity bounds all of them together, and the cheapest pods go."""

from dataclasses import replace

import pytest
from msgspec import structs

from rebalancer.model.pods import Pod, PodSpec, Resources
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.multi_class.solve import Solution, Unsolved, prefer_cheap_victims, solve
from rebalancer.planning.problem.multi_class import MultiClassProblem
from rebalancer.planning.search.limits import SearchLimits
from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder
from tests.build import a_cluster, change_specs
from tests.planning.build import DEADLOCK, first_problem, joined, planned, policy, shards, together
from tests.planning.scenes import multi_class_problems
from tests.planning.states import LIMITS
from tests.scheduling.build import pod

NAMED = ("cpu", "memory", "ephemeral_storage")


def solved(resource: str, has: int) -> Solution | Unsolved:
    """Ask for six pods of two classes, all on one of two nodes; the other has so much, of which a stranger takes 10."""
    blueprint = a_cluster("ab", 1)
    blueprint.deployment("one", on={"a-1": 3}, spread={ZONE: 1})
    blueprint.deployment("two", on={"a-1": 3}, spread={ZONE: 1})

    def holding(amount: int) -> Resources:
        return structs.replace(Resources(), **{resource: amount}) if resource in NAMED else Resources()

    def asking(app: str, spec: PodSpec) -> PodSpec:
        requests = holding(10 if app == "one" else 11)
        # Of equal pods there would be one class.
        return structs.replace(together(app, spec), requests=requests, images=(app,), priority=app == "one")

    def summed(pod: Pod) -> Pod:
        return structs.replace(pod, requests=pod.spec.requests)

    snapshot = change_specs(blueprint.snapshot(), asking, cluster="r")
    stranger = structs.replace(pod({"app": "other"}, on="b-1"), requests=holding(10))
    full, free = snapshot.nodes
    if resource in NAMED:
        free = structs.replace(free, allocatable=structs.replace(free.allocatable, **{resource: has}))
    else:
        free = structs.replace(free, pods=has)
    pods = (*map(summed, snapshot.pods), stranger)
    _, problem = first_problem(replace(snapshot, nodes=(full, free), pods=pods))
    assert isinstance(problem, MultiClassProblem)
    return solve(problem.classes, LIMITS)


@pytest.mark.parametrize(("resource", "enough"), [*((name, 40) for name in NAMED), ("pods", 4)])
def test_capacity_is_for_all_classes_together(resource: str, enough: int) -> None:
    """Three must move, the smaller ones; with a unit less there is no way, though two of either class have capacity."""
    result = solved(resource, enough)
    assert isinstance(result, Solution)
    assert result.evictions == 3
    assert solved(resource, enough - 1) is Unsolved.INFEASIBLE


def two_of_unequal_priority(first: int, second: int) -> Snapshot:
    """Return two workloads under one selector, of which one pod on a-0 must go, with their priorities."""
    blueprint = ClusterBuilder()
    for name in ("a-0", "a-1", "b-0", "b-1", "c-0"):
        blueprint.node(name, zone=name[0])
    both = {ZONE: 1, HOSTNAME: 1}
    blueprint.deployment("one", on={"a-0": 1, "a-1": 1}, spread=both, priority=first)
    blueprint.deployment("two", on={"a-0": 1, "b-1": 1, "c-0": 1}, spread=both, priority=second)
    return joined(blueprint)


@pytest.mark.parametrize("priorities", [(0, 1000), (1000, 0)])
def test_of_equal_repairs_the_one_that_spares_important_pods(priorities: tuple[int, int]) -> None:
    """Of two pods on one node that would do equally well, of different classes, the less important goes."""
    (eviction,) = planned(two_of_unequal_priority(*priorities)).fates.going
    assert (eviction.pod.node, eviction.pod.spec.priority) == ("a-0", 0)


@pytest.mark.parametrize("shard", ["s0", "s1"])
def test_victims_of_last_resort_stay_where_another_shard_can_give_one(shard: str) -> None:
    """Whichever shard's pods are to go last, the deadlock is freed by another's."""
    rules = policy(f"groups: [{{name: g, selector: {{}}, avoid: {{matchLabels: {{app: {shard}}}}}, limits: []}}]")
    (eviction,) = planned(shards(DEADLOCK), rules).fates.going
    assert eviction.pod.labels["app"] != shard


def test_a_search_for_the_cheapest_that_reaches_its_limit_returns_the_fewest() -> None:
    """What was proved first stays, with whichever pods."""
    (problem,) = multi_class_problems(two_of_unequal_priority(0, 1000), policy())
    solution = solve(problem.classes, LIMITS)
    assert not isinstance(solution, Unsolved)
    cheaper = prefer_cheap_victims(problem.classes, solution, LIMITS)
    assert cheaper.evictions == solution.evictions
    assert cheaper != solution
    none = SearchLimits(solve_work=0)
    assert prefer_cheap_victims(problem.classes, solution, none) == solution
