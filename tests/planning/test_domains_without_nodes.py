"""Planning where a domain exists without nodes: what the nodes that exist allow is repaired, and nothing more."""

from dataclasses import replace

from rebalancer.assessment.assess import assess
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.reasons import Reason, State
from rebalancer.model.snapshot import Fault, Snapshot
from rebalancer.planning.scope.requirements import requirement_for_count, requirement_of_limit
from rebalancer.policy import Policy
from rebalancer.scheduling.view import View
from rebalancer.simulator import ZONE
from tests.build import a_cluster
from tests.planning.build import limit, planned, policy


def knowing(bound: str) -> Policy:
    return policy(f"topology: {{domains: {{{ZONE}: [a, b, c]}}}}\n{limit(bound, key=ZONE)}")


def two_zones(**on: int) -> Snapshot:
    return a_cluster("ab", 1, {f"{zone}-1": pods for zone, pods in on.items()}).snapshot()


def test_evictions_go_as_far_as_the_nodes_allow() -> None:
    """MaxSkew 1 over three zones would be two in each; with nodes in two, three in each is the nearest."""
    plan = planned(two_zones(a=5, b=1), knowing("maxSkew: 1"))
    (group,) = plan.components
    assert (group.state, group.evictions, plan.lower_bound) == (State.VIOLATED, 2, 2)
    assert plan.fates.going


def test_nothing_is_planned_where_only_a_node_is_missing() -> None:
    """Nor is the workload a component whose repair is refused: the limit itself says what it lacks."""
    for bound in ("maxSkew: 1", 'maxShare: "<=1/3"', "minPods: 1"):
        rules = knowing(bound)
        assert not planned(two_zones(a=3, b=3), rules).components
        (evaluated,) = assess(View(two_zones(a=3, b=3)), rules, NO_MEMORY).limits
        assert (evaluated.state, evaluated.reason) == (State.UNFIXABLE, Reason.NO_CAPACITY)


def test_what_more_pods_would_require_is_not_known_while_a_domain_has_no_node() -> None:
    view = View(two_zones(a=5, b=1))
    (evaluated,) = assess(view, knowing("maxSkew: 1"), NO_MEMORY).limits
    requirement = requirement_of_limit(evaluated, view)
    assert (requirement.domains, requirement.bound.cap, requirement.bound.max_skew) == (2, 3, None)
    assert requirement_for_count(requirement, 1) is None


def test_an_unreadable_node_pool_refuses_no_repair() -> None:
    """It says where nodes may be created, not where pods may be placed."""
    fault = Fault(kind="NodePool", namespace="", name="general", message="malformed")
    broken = replace(two_zones(a=5, b=1), faults=(fault,))
    assert planned(broken, knowing("maxSkew: 1")).fates.going
