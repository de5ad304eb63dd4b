"""Equal pods of several workloads are counted together only where the scheduler bounds them alike."""

from collections.abc import Callable

import pytest
from msgspec import structs

from rebalancer.model.pods import PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.spread import SpreadConstraint, WhenUnsatisfiable
from rebalancer.planning.search.report import Method
from rebalancer.simulator import HOSTNAME, ZONE
from tests.build import a_cluster, change_specs
from tests.planning.clusters import planned, sharing

Spread = tuple[SpreadConstraint, ...]


def two_workloads(change: Callable[[Spread], Spread]) -> Snapshot:
    """Return two Deployments under one selector, all of them in one zone; the second one's constraints are changed."""
    blueprint = a_cluster("abc", 2)
    for name in ("one", "two"):
        blueprint.deployment(name, on={"a-1": 2, "a-2": 2, "b-1": 1, "b-2": 1}, spread={ZONE: 1, HOSTNAME: 1})

    def change_second(app: str, spec: PodSpec) -> PodSpec:
        return structs.replace(spec, spread=change(spec.spread)) if app == "two" else spec

    return change_specs(sharing(blueprint.snapshot()), change_second)


def soft(constraints: Spread) -> Spread:
    more = structs.replace(constraints[0], when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY)
    return (*constraints, more)


def looser(constraints: Spread) -> Spread:
    return tuple(structs.replace(one, max_skew=2) if one.topology_key == HOSTNAME else one for one in constraints)


@pytest.mark.parametrize(
    ("change", "counted"),
    [(tuple, True), (lambda constraints: constraints[::-1], True), (soft, True), (looser, False)],
)
def test_only_other_hard_bounds_need_the_real_nodes(change: Callable[[Spread], Spread], counted: bool) -> None:
    """Neither order nor soft constraints matter; a pod whose own bound is looser may come back to where it was."""
    (component,) = planned(two_workloads(change)).components
    assert (component.method in {Method.CERTIFICATE, Method.CONTINGENT, Method.FORCED}) == counted
