"""A label that is wrong, right and wrong again moves no pod before its last change has lasted."""

from datetime import timedelta

import pytest

from rebalancer.model.labels import Labels
from rebalancer.model.motion import NodeChange, NodeEvent
from rebalancer.model.moves import Memory
from rebalancer.model.reasons import Reason
from rebalancer.policy.sections import Nodes
from rebalancer.simulator import ZONE
from tests.build import a_cluster, with_node
from tests.planning.clusters import planned, policy

RULES = policy(nodes=Nodes(settle=timedelta(minutes=1)))
RIGHT, WRONG = "c", "a"


@pytest.mark.parametrize(
    "were",
    [{30: RIGHT}, {50: RIGHT, 45: WRONG, 30: RIGHT}, {45: WRONG, 30: RIGHT}],
    ids=["once", "all three", "the first one has lasted"],
)
def test_a_violation_that_only_the_last_change_has_made_waits(were: dict[int, str]) -> None:
    """Node c-1 is in zone a, where two pods of the workload are already; the zone that it had, seconds ago."""
    on = [f"{zone}-{number}" for zone in "abc" for number in (1, 2)]
    right = a_cluster("abc", 2, dict.fromkeys(on, 1), spread={ZONE: 1}, namespace="shop").snapshot()
    snapshot = with_node(right, "c-1", labels=Labels({**right.node["c-1"].labels, ZONE: WRONG}))
    changes = tuple(
        NodeChange(snapshot.taken_at - timedelta(seconds=ago), "c-1", NodeEvent.RELABELLED, ZONE, value)
        for ago, value in were.items()
    )
    assert {node.labels[ZONE] for node in snapshot.nodes} == {"a", "b", "c"}
    assert len(planned(snapshot, RULES).fates.going) == 1
    made = planned(snapshot, RULES, Memory(node_changes=changes))
    assert made.fates.going == ()
    (group,) = made.components
    assert group.refusal is not None
    assert group.refusal.reason is Reason.NODE_SETTLING
