"""Pods of workloads without a constraint count for the constraints of others, and do not move for them."""

from collections.abc import Sequence
from typing import Any

from rebalancer.model.reasons import Reason
from tests.control_plane.manifests import HOSTNAME
from tests.control_plane.resources import Manifest
from tests.known_states.build import State, cluster, deployment, make, over_zones

TEAM = {"team": "shop"}
SHARED = [over_zones(TEAM)]


def state(on: Sequence[str], beside: Sequence[str], theirs: Sequence[Manifest] = (), **fields: Any) -> State:
    """Return `web`, whose constraint counts the pods of `near` too, which has these constraints."""
    # Services are read, so that the scheduler's default constraints of `near` are known.
    service = make("v1", "Service", "web", spec={"selector": {"app": "web"}})
    near = deployment("near", beside, labels=TEAM, topologySpreadConstraints=list(theirs), **fields)
    return cluster(deployment("web", on, labels=TEAM, topologySpreadConstraints=SHARED), near, [service])


def test_a_neighbour_without_the_constraint_does_not_pay() -> None:
    said = state(("b-0", "c-0"), ("a-0",) * 4).plan().assert_kept(Reason.NOT_EVICTABLE)
    assert "and its pods are not moved for them. Give it the same constraint" in said


def test_a_soft_constraint_that_is_not_acted_on_is_none() -> None:
    soft = [over_zones(TEAM, whenUnsatisfiable="ScheduleAnyway")]
    state(("b-0", "c-0"), ("a-0",) * 4, soft).plan().assert_kept(Reason.NOT_EVICTABLE)


def test_whose_constraint_it_is_moves() -> None:
    assert state(("a-0", "b-0"), ("a-0", "a-0")).plan().evicted == ["shop/web-0"]


def test_a_neighbour_with_the_same_constraint_moves() -> None:
    assert state(("b-0", "c-0"), ("a-0",) * 4, SHARED).plan().evicted == ["shop/near-0", "shop/near-1"]


def test_a_neighbour_with_a_constraint_of_its_own_moves_as_part_of_one_repair() -> None:
    own = [{**over_zones({"app": "near"}, maxSkew=9), "topologyKey": HOSTNAME}]
    assert state(("b-0", "c-0"), ("a-0",) * 4, own).plan().evicted == ["shop/near-0"]


def test_a_neighbour_under_a_limit_of_the_policy_moves() -> None:
    limits = "{name: third, topologyKey: topology.kubernetes.io/zone, maxShare: <=1/2, action: Evict}"
    groups = f"groups: [{{name: teams, selector: {{matchLabels: {{team: shop}}}}, limits: [{limits}]}}]\n"
    assert state(("a-0", "a-0"), ("a-0", "b-0")).plan(groups).evicted
