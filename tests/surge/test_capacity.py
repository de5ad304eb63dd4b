"""Capacity first, then surges: a zone without nodes gets nodes before any pod is added, and none is ever missing."""

import pytest

from rebalancer.simulator import HOSTNAME, ZONE
from rebalancer.surge.record import Ending
from tests.closed_loop.test_capacity_first import QUICK, REQUEST, by_zone, events, placeholders, two_zones
from tests.surge.play import Play, Watched, surging


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("spread", [{ZONE: 1}, {ZONE: 1, HOSTNAME: 1}])
def test_the_nodes_of_added_pods_are_requested_from_an_autoscaler(most: int, spread: dict[str, int]) -> None:
    """Nothing is added before they are there."""
    cluster = Watched(two_zones(spread), autoscaling=QUICK)
    played = Play(cluster, surging(most).model_copy(update={"capacity": REQUEST}))
    while not played.records:
        assert by_zone(cluster) == {"a": 6, "b": 6}
        played.seconds(1, cycle=5)
    assert len(events(cluster, "CapacityRequested")) == 1
    assert "c" in {node.labels[ZONE] for node in cluster.snapshot(cluster.now).nodes}
    played.seconds(600, cycle=5)
    assert by_zone(cluster) == {"a": 4, "b": 4, "c": 4}
    assert {one.ending for one in played.ended} == {Ending.DONE}
    assert played.least_ready >= 12
    assert played.simulation.observer.answers == []
    assert not placeholders(cluster)
