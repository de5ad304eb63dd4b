"""A cluster whose nodes join or flap all the time: a repair waits for `nodes.settle` once, not for each of them."""

from collections.abc import Callable
from datetime import timedelta

from msgspec import structs

from rebalancer.model.labels import Labels
from rebalancer.model.nodes import Node
from rebalancer.policy import Mode
from rebalancer.policy.sections import Nodes
from rebalancer.simulator import HOSTNAME, ZONE, SimulatedCluster
from tests.build import a_cluster
from tests.controller.simulated import Simulation, eager

SETTLE = timedelta(seconds=30)


def zone_returned() -> tuple[Simulation, Node]:
    """Twelve pods in two of three zones of three nodes that have settled; and one of zone c's, to add more like it."""
    snapshot = a_cluster("abc", 3, {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}, spread={ZONE: 1}).snapshot()
    simulation = Simulation(SimulatedCluster(snapshot), eager(Mode.EVICT, nodes=Nodes(settle=SETTLE)))
    return simulation, snapshot.node["c-1"]


def seconds_to_first_eviction(simulation: Simulation, every: int, happens: Callable[[int], None]) -> float:
    """Run a cycle every 5 seconds for at most five minutes; `happens` is called every so many seconds."""
    began = simulation.cluster.now
    for second in range(0, 300, 5):
        if second % every == 0:
            happens(second)
        simulation.cycles(1, apart=5.0)
        if simulation.evictions:
            return (simulation.cluster.now - began).total_seconds() - 5
    return float("inf")


def joining(simulation: Simulation, node: Node, zone: str) -> Callable[[int], None]:
    def join(second: int) -> None:
        name = f"{zone}-new-{second}"
        labels = Labels({**node.labels, HOSTNAME: name, ZONE: zone})
        simulation.cluster.nodes.add(structs.replace(node, name=name, labels=labels))

    return join


def test_a_node_that_joins_the_zone_that_is_filled_every_20_seconds() -> None:
    """The first eviction follows within 40 seconds: the wait is 30 in all."""
    simulation, node = zone_returned()
    assert 30 <= seconds_to_first_eviction(simulation, 20, joining(simulation, node, "c")) <= 40


def test_a_node_that_joins_another_zone_every_20_seconds() -> None:
    """Nothing can land there, so nothing waits."""
    simulation, node = zone_returned()
    assert seconds_to_first_eviction(simulation, 20, joining(simulation, node, "a")) == 0


def test_a_node_that_flaps() -> None:
    """It is a node of the zone that is filled; each time that it is back its time begins anew, the wait does not."""
    simulation, _ = zone_returned()

    def flap(_: int) -> None:
        simulation.cluster.nodes.remove("c-2")
        simulation.cluster.nodes.restore("c-2")

    assert 30 <= seconds_to_first_eviction(simulation, 20, flap) <= 40


def test_a_restart_does_not_begin_the_wait_anew() -> None:
    """The time is stored."""
    simulation, node = zone_returned()
    join = joining(simulation, node, "c")

    def join_and_restart(second: int) -> None:
        join(second)
        simulation.restart()

    assert 30 <= seconds_to_first_eviction(simulation, 20, join_and_restart) <= 40


def test_the_repair_is_the_same() -> None:
    """With nodes that join all the time four evictions restore four pods in each zone, once the wait is over."""
    simulation, node = zone_returned()
    join = joining(simulation, node, "c")
    for second in range(0, 300, 20):
        join(second)
        simulation.cycles(4, apart=5.0)
    cycle = simulation.runner.state.cycle
    assert cycle is not None
    (group,) = cycle.assessment.groups
    assert dict(group.hard[0].counts.by_domain) == {"a": 4, "b": 4, "c": 4}
    assert simulation.evictions == 4
    assert simulation.runner.state.memory.settling == ()
