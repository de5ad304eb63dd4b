"""A scale-down takes pods first that stand together although anti-affinity keeps them apart."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from rebalancer.assessment.assess import assess
from rebalancer.model.affinity import PodAffinity, PodAffinityTerm, PreferredPodTerm
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.pods import PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.policy import Policy
from rebalancer.prevention.groups import find_pod_groups
from rebalancer.prevention.order import find_order
from rebalancer.scheduling.view import View
from tests.build import a_cluster, a_policy, away_from, change_specs, with_anti_affinity


def steering(kinds: str) -> Policy:
    return a_policy(f"prevention: {{scaleDown: Steer}}\ngroups: []\nantiAffinity: {{actOn: [{kinds}]}}")


def first_nodes(snapshot: Snapshot, rules: Policy, app: str, number: int) -> Sequence[str | None]:
    """Return the nodes of the pods that a scale-down takes first."""
    view = View(snapshot)
    found = find_pod_groups(view, assess(view, rules, NO_MEMORY), rules, NO_MEMORY)
    group = next(one for one in found if one.member.reference.name == app)
    return [group.pods[place].node for place in find_order(group.problem).pods[:number]]


def own(on: dict[str, int], term: PodAffinityTerm, weight: int = 0) -> Snapshot:
    snapshot = a_cluster("abcd", 1, on).snapshot()
    if not weight:
        return with_anti_affinity(snapshot, {"web": [term]})

    def prefer(_: str, spec: PodSpec) -> PodSpec:
        affinity = PodAffinity(anti_preferred=(PreferredPodTerm(weight, term),))
        return structs.replace(spec, pod_affinity=affinity)

    return change_specs(snapshot, prefer)


@pytest.mark.parametrize(("weight", "kinds"), [(0, "Required"), (10, "Preferred")])
def test_pods_that_share_a_node_go_first(weight: int, kinds: str) -> None:
    snapshot = own({"a-1": 1, "b-1": 3, "c-1": 1}, away_from("web"), weight)
    assert first_nodes(snapshot, steering(kinds), "web", 2) == ["b-1", "b-1"]


def test_those_beside_pods_that_they_avoid_go_first() -> None:
    """Of the side that declares the term, and of the other one."""
    builder = a_cluster("abc", 1, {"a-1": 1, "b-1": 2})
    builder.deployment("batch", on={"b-1": 1, "c-1": 2})
    snapshot = with_anti_affinity(builder.snapshot(), {"batch": [away_from("web")]})
    assert first_nodes(snapshot, steering("Required"), "batch", 1) == ["b-1"]
    assert first_nodes(snapshot, steering("Required"), "web", 2) == ["b-1", "b-1"]


def test_a_policy_that_does_not_act_on_it_steers_nothing() -> None:
    snapshot = own({"a-1": 1, "b-1": 3}, away_from("web"))
    rules = steering("")
    view = View(snapshot)
    assert not list(find_pod_groups(view, assess(view, rules, NO_MEMORY), rules, NO_MEMORY))
