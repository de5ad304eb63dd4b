"""A snapshot is a value: what it has found out about itself is no part of it."""

from dataclasses import replace
from datetime import timedelta

from rebalancer.simulator import ClusterBuilder
from tests.build import a_cluster


def small() -> ClusterBuilder:
    """Return two nodes with a workload of two pods."""
    return a_cluster("ab", 1, {"a-1": 1, "b-1": 1})


def test_a_later_snapshot_has_the_indexes_that_were_built() -> None:
    """A cycle in which nothing has changed builds none again."""
    snapshot = small().snapshot()
    pods, owners = snapshot.pod, snapshot.pods_of
    later = snapshot.at(snapshot.taken_at + timedelta(minutes=1))
    assert (later.pod, later.pods_of) == (pods, owners)
    assert later.pod is pods
    assert later.pods_of is owners
    assert later.taken_at == snapshot.taken_at + timedelta(minutes=1)
    assert later.holds_same(snapshot)


def test_a_snapshot_of_other_objects_has_indexes_of_its_own() -> None:
    """Also where it is made from one whose indexes were built."""
    snapshot = small().snapshot()
    assert len(snapshot.pod) == len(snapshot.node) == 2
    fewer = replace(snapshot, pods=snapshot.pods[:1])
    assert list(fewer.pod) == [snapshot.pods[0].uid]
    assert len(snapshot.pod) == 2
    assert not fewer.holds_same(snapshot)


def test_indexes_are_no_part_of_a_snapshot() -> None:
    """A snapshot is equal to one of equal objects, whichever of the two was asked."""
    snapshot, same = small().snapshot(), small().snapshot()
    assert snapshot.pod
    assert snapshot == same
    assert "indexes" not in repr(snapshot)
