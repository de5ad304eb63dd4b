"""Nodes under several keys: which keys nest, and which sets of nodes are equal."""

from rebalancer.adapters.simulator import HOSTNAME, ZONE
from rebalancer.model.snapshot import Snapshot
from rebalancer.planning.scope.topology import Topologies
from rebalancer.scheduling.view import View
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
