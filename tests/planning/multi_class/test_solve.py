"""The integer program: what a node has left bounds all kinds of pods together."""

from dataclasses import replace

import pytest
from msgspec import structs

from rebalancer.adapters.simulator import ZONE, ClusterBuilder
from rebalancer.model.pods import Pod, PodSpec, Resources
from rebalancer.planning.multi_class.solve import Solution, Unsolved, solve
from tests.planning.multi_class.test_classes import changed, together
from tests.planning.test_corners import problem
from tests.scheduling.build import pod

NAMED = ("cpu", "memory", "ephemeral_storage")


def solved(resource: str, has: int) -> Solution | Unsolved:
    """Ask for six pods of two kinds, all on one of two nodes; the other has so much, of which a stranger takes 10."""
    blueprint = ClusterBuilder()
    blueprint.zones("ab", 1)
    blueprint.deployment("one", on={"a-1": 3}, spread={ZONE: 1})
    blueprint.deployment("two", on={"a-1": 3}, spread={ZONE: 1})

    def holding(amount: int) -> Resources:
        return structs.replace(Resources(), **{resource: amount}) if resource in NAMED else Resources()

    def asking(app: str, spec: PodSpec) -> PodSpec:
        requests = holding(10 if app == "one" else 11)
        # Of equal pods there would be one kind.
        return structs.replace(together(app, spec), requests=requests, images=(app,), priority=app == "one")

    def summed(each: Pod) -> Pod:
        return structs.replace(each, requests=each.spec.requests)

    snapshot = changed(blueprint.snapshot(), asking, cluster="r")
    stranger = structs.replace(pod({"app": "other"}, on="b-1"), requests=holding(10))
    full, free = snapshot.nodes
    if resource in NAMED:
        free = structs.replace(free, allocatable=structs.replace(free.allocatable, **{resource: has}))
    else:
        free = structs.replace(free, pods=has)
    pods = (*map(summed, snapshot.pods), stranger)
    return solve(problem(replace(snapshot, nodes=(full, free), pods=pods))[1])


@pytest.mark.parametrize(("resource", "enough"), [*((name, 40) for name in NAMED), ("pods", 4)])
def test_room_is_for_all_kinds_together(resource: str, enough: int) -> None:
    """Three must move, the smaller ones; with a unit less there is no way, though two of either kind have room."""
    found = solved(resource, enough)
    assert isinstance(found, Solution)
    assert found.evictions == 3
    assert solved(resource, enough - 1) is Unsolved.INFEASIBLE
