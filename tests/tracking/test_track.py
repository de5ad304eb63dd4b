"""What the memory says after a snapshot: all parts of it at once."""

from dataclasses import replace
from datetime import timedelta

from rebalancer.model.moves import Memory, MoveState, StartWindow
from rebalancer.simulator import ZONE
from rebalancer.tracking.track import track
from tests.build import a_cluster
from tests.controller.simulated import eager
from tests.tracking.build import move


def test_a_move_that_has_arrived_ends_and_its_window_grows() -> None:
    """The zones that nodes carry are remembered, by the keys of constraints and limits."""
    snapshot = a_cluster("ab", 1, {"a-1": 1, "b-1": 1}, spread={ZONE: 1}).snapshot()
    now = snapshot.taken_at
    arrived = snapshot.pods[1]
    assert arrived.owner is not None
    evicted = move(
        "old", now, state=MoveState.EVICTED, owner_uid=arrived.owner.uid, replicas=2, namespace=arrived.namespace
    )
    window = StartWindow(size=2, limited=True, moved_at=now)
    before = replace(snapshot, pods=tuple(pod for pod in snapshot.pods if pod.uid != arrived.uid))
    memory = track(Memory(moves=(evicted,), windows=(window,)), before, snapshot, eager(), now + timedelta(seconds=5))
    assert [(one.state, one.replacement) for one in memory.moves] == [(MoveState.VERIFIED, arrived.uid)]
    assert [one.size for one in memory.windows] == [3]
    assert {(zone.key, zone.zone) for zone in memory.zones} == {(ZONE, "a"), (ZONE, "b")}
