"""Where the replacements of a step that was searched on the real nodes may be placed."""

from rebalancer.simulator import ZONE
from tests.build import a_cluster
from tests.planning.build import limit, planned, policy


def test_a_key_that_no_node_has_is_no_target() -> None:
    """A limit with a misspelt topology key does not stop the plan for the constraints."""
    plan = planned(
        a_cluster("abc", 2, {"a-1": 2, "a-2": 1, "b-1": 1, "b-2": 2}, spread={ZONE: 1}).snapshot(),
        policy(limit("maxPods: 1", key="zone")),
    )
    assert plan.fates.going
    assert {target.topology_key for eviction in plan.fates.going for target in eviction.targets} == {ZONE}
