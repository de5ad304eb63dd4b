"""Nodes under several keys: which keys nest, and which sets of nodes are equal."""

from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.scope.topology import Topologies
from rebalancer.scheduling.view import View
from rebalancer.simulator import HOSTNAME, ZONE
from tests.planning.build import labelled
from tests.scheduling.build import NOW


def test_every_key_is_compared_with_the_next_finer_one() -> None:
    """Zone, row and host nest; rows and racks cross, and the first such pair is returned."""
    nodes = [
        labelled("n1", {ZONE: "a", "row": "1", "rack": "x"}),
        labelled("n2", {ZONE: "a", "row": "1", "rack": "y"}),
        labelled("n3", {ZONE: "b", "row": "2", "rack": "x"}),
    ]
    view = View(Snapshot(taken_at=NOW, nodes=nodes))
    topologies, names = Topologies(view), view.nodes.names
    assert topologies.crossing(names, (ZONE, "row", HOSTNAME)) is None
    assert topologies.crossing(names, (ZONE, "row", "rack")) == ("row", "rack")


def test_equal_sets_of_nodes_are_equal_whichever_objects_they_are() -> None:
    """Also where they were compared before."""
    view = View(Snapshot(taken_at=NOW, nodes=[labelled(name, {}) for name in ("n1", "n2", "n3")]))
    topologies, names = Topologies(view), view.nodes.names
    copy = frozenset(sorted(names))
    assert [topologies.equal(names, other) for other in (names, copy, copy)] == [True, True, True]
    assert not topologies.equal(names, copy - {"n1"})


def test_pods_are_counted_by_the_domains_above_the_last_key() -> None:
    """However many keys there are; where there is one, no domain lies above its own."""
    nodes = [labelled(name, {ZONE: name[0], "region": "r"}) for name in ("a1", "a2", "b1")]
    view = View(Snapshot(taken_at=NOW, nodes=nodes))
    topologies, counts = Topologies(view), {"a1": 2, "a2": 1, "b1": 1}
    counted = [
        topologies.topology(view.nodes.names, keys).count(counts)
        for keys in ((HOSTNAME,), (ZONE, HOSTNAME), ("region", ZONE, HOSTNAME))
    ]
    assert counted == [{(): 4}, {("a",): 3, ("b",): 1}, {("r", "a"): 3, ("r", "b"): 1}]
