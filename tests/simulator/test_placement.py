"""The scheduler and the nodes."""

from dataclasses import replace

import pytest
from msgspec import structs

from rebalancer.simulator import HOSTNAME, ZONE, ClusterBuilder, SimulatedCluster, Timings, TraceKind, pick_most_crowded
from tests.simulator.build import EVERYWHERE, PROMPT, cluster, happened, move, pods, spread_of, web, workload


def test_a_new_pod_is_placed_and_becomes_ready() -> None:
    simulated = cluster(lambda builder: builder.deployment("web", replicas=1))
    simulated.advance(0.13)
    (new,) = pods(simulated).values()
    assert new.node is not None
    assert not new.ready
    simulated.advance(1.0)
    (new,) = pods(simulated).values()
    assert new.ready
    assert new.ready_since == simulated.now.replace(microsecond=0)


def test_pods_are_placed_within_their_constraints() -> None:
    simulated = cluster(lambda builder: builder.deployment("web", replicas=12, spread={ZONE: 1, HOSTNAME: 1}))
    simulated.advance(60)
    assert spread_of(simulated, "web", ZONE) == {"a": 4, "b": 4, "c": 4}
    assert set(spread_of(simulated, "web", HOSTNAME).values()) == {2}


def test_an_adversary_may_choose_among_the_feasible_nodes() -> None:
    simulated = cluster(lambda builder: builder.deployment("web", replicas=6), choose=pick_most_crowded)
    simulated.advance(60)
    assert sorted(spread_of(simulated, "web", HOSTNAME).values()) == [0, 0, 0, 0, 0, 6]


def test_higher_priority_is_placed_first() -> None:
    def two(builder: ClusterBuilder) -> None:
        builder.deployment("low", replicas=1)
        builder.deployment("high", replicas=1, priority=100)

    simulated = cluster(two)
    simulated.advance(5)
    assert [name[:3] for name in happened(simulated, TraceKind.SCHEDULED)] == ["hig", "low"]


def test_a_pod_that_fits_nowhere_waits_until_something_changes() -> None:
    simulated = cluster(lambda builder: builder.deployment("big", replicas=1, cpu=16_000))
    simulated.advance(1)
    simulated.scale("default", "Deployment", "big", 7)
    simulated.advance(300)
    waiting = [pod for pod in pods(simulated).values() if pod.waiting]
    assert happened(simulated, TraceKind.UNSCHEDULABLE) == [pod.name for pod in waiting]
    assert len(waiting) == 1
    simulated.evict(move(next(pod for pod in pods(simulated).values() if pod.ready)))
    simulated.advance(30)
    assert waiting[0].name in happened(simulated, TraceKind.SCHEDULED)


def test_the_pod_that_waited_longest_comes_first() -> None:
    """A pod that could not be placed goes before the replacement of an evicted one, once its back-off is over."""
    simulated = cluster(lambda builder: builder.deployment("big", replicas=7, cpu=16_000))
    simulated.advance(60)
    (waiting,) = (pod for pod in pods(simulated).values() if pod.waiting)
    simulated.evict(move(next(pod for pod in pods(simulated).values() if pod.ready)))
    simulated.advance(60)
    assert happened(simulated, TraceKind.SCHEDULED)[6] == waiting.name


def test_a_pod_that_failed_often_is_not_tried_at_every_change() -> None:
    """Its back-off doubles from one second to ten; what changes meanwhile is noted, and tried when that is over."""
    simulated = cluster(lambda builder: builder.deployment("big", replicas=7, cpu=16_000))
    simulated.advance(5)
    (waiting,) = (pod for pod in pods(simulated).values() if pod.waiting)
    full = simulated.snapshot(simulated.now).node["a-1"]
    for name in ("a-1", "a-2", "b-1", "b-2"):
        simulated.advance(12)
        simulated.nodes.cordon(name)
    simulated.advance(0.1)
    simulated.nodes.add(structs.replace(full, name="new"))
    simulated.advance(7)
    assert pods(simulated)[waiting.name].waiting
    simulated.advance(4)
    assert pods(simulated)[waiting.name].node == "new"


def test_a_replacement_may_overtake_a_pod_that_backs_off() -> None:
    """Its own back-off is short, and the scheduler waits for nobody."""
    simulated = cluster(lambda builder: builder.deployment("big", replicas=7, cpu=16_000))
    simulated.advance(5)
    (waiting,) = (pod for pod in pods(simulated).values() if pod.waiting)
    for name in ("a-1", "a-2", "b-1", "b-2"):
        simulated.advance(12)
        simulated.nodes.cordon(name)
    simulated.advance(0.1)
    simulated.evict(move(next(pod for pod in pods(simulated).values() if pod.node == "c-1")))
    simulated.advance(20)
    assert pods(simulated)[waiting.name].waiting
    assert pods(simulated)[happened(simulated, TraceKind.SCHEDULED)[-1]].node == "c-1"


def test_pods_of_other_schedulers_are_left_alone() -> None:
    first = cluster(web)
    snapshot = first.snapshot(first.now)
    elsewhere = [structs.replace(pod, spec=structs.replace(pod.spec, scheduler="mine")) for pod in snapshot.pods]
    simulated = SimulatedCluster(replace(snapshot, pods=tuple(elsewhere)), timings=PROMPT)
    simulated.evict(move(elsewhere[0]))
    simulated.advance(60)
    assert len(happened(simulated, TraceKind.CREATED)) == 1
    assert not happened(simulated, TraceKind.SCHEDULED)


def test_pods_of_a_removed_node_are_collected_and_replaced_elsewhere() -> None:
    simulated = cluster(web)
    simulated.nodes.remove_domain(ZONE, "c")
    simulated.advance(39)
    assert len(pods(simulated)) == 12
    assert not happened(simulated, TraceKind.GONE)
    simulated.advance(20)
    assert len(happened(simulated, TraceKind.GONE)) == 4
    assert spread_of(simulated, "web", ZONE) == {"a": 6, "b": 6}
    assert workload(simulated, "Deployment").ready == 12


def test_nothing_is_lost_with_a_node_that_is_back_in_time() -> None:
    simulated = cluster(web)
    before = pods(simulated)
    simulated.nodes.remove("c-1")
    simulated.advance(30)
    simulated.nodes.restore("c-1")
    simulated.advance(60)
    assert pods(simulated) == before


def test_a_node_that_is_lost_again_has_its_full_time_again() -> None:
    simulated = cluster(web)
    simulated.nodes.remove("c-1")
    simulated.advance(30)
    simulated.nodes.restore("c-1")
    simulated.nodes.remove("c-1")
    simulated.advance(39)
    assert not happened(simulated, TraceKind.GONE)
    simulated.advance(2)
    assert len(happened(simulated, TraceKind.GONE)) == 2


def test_a_node_that_came_back_is_ready_since_then() -> None:
    simulated = cluster(web)
    simulated.nodes.remove("c-1")
    simulated.nodes.cordon("c-2")
    simulated.nodes.remove("c-2")
    simulated.advance(60)
    simulated.nodes.restore_domain(ZONE, "c")
    for name in ("c-1", "c-2"):
        node = simulated.snapshot(simulated.now).node[name]
        assert (node.ready_since, node.unschedulable, node.taints) == (simulated.now, False, ())


def test_a_removed_node_keeps_its_terminating_pods_until_they_are_collected() -> None:
    simulated = cluster(web)
    victim = next(pod for pod in pods(simulated).values() if pod.node == "c-1")
    simulated.evict(move(victim))
    simulated.nodes.remove("c-1")
    simulated.advance(30)
    assert pods(simulated)[victim.name].terminating
    simulated.advance(15)
    assert victim.name not in pods(simulated)


def test_a_cordoned_node_gets_no_new_pods() -> None:
    simulated = cluster(lambda builder: builder.deployment("web", on={"a-1": 1}))
    for name in EVERYWHERE:
        if name != "b-2":
            simulated.nodes.cordon(name)
    simulated.scale("default", "Deployment", "web", 5)
    simulated.advance(30)
    counts = spread_of(simulated, "web", HOSTNAME)
    assert (counts["a-1"], counts["b-2"]) == (1, 4)


@pytest.mark.parametrize(
    ("act", "arguments"),
    [
        ("remove", ("x",)),
        ("restore", ("a-1",)),
        ("cordon", ("x",)),
        ("remove_domain", (ZONE, "x")),
        ("restore_domain", (ZONE, "a")),
    ],
)
def test_nodes_that_do_not_exist_are_refused(act: str, arguments: tuple[str, ...]) -> None:
    simulated = cluster(web)
    with pytest.raises(ValueError, match=arguments[-1]):
        getattr(simulated.nodes, act)(*arguments)
    assert not simulated.trace


def test_a_second_node_of_the_same_name_is_refused() -> None:
    simulated = cluster(web)
    with pytest.raises(ValueError, match="node a-1 already exists"):
        simulated.nodes.add(simulated.snapshot(simulated.now).nodes[0])


def test_workloads_that_do_not_exist_cannot_be_scaled() -> None:
    simulated = cluster(web)
    with pytest.raises(ValueError, match="StatefulSet default/web not found"):
        simulated.scale("default", "StatefulSet", "web", 3)
    with pytest.raises(ValueError, match="replicas is -1; expected 0 or more"):
        simulated.scale("default", "Deployment", "web", -1)


def test_pods_that_start_on_a_node_that_is_gone_are_collected() -> None:
    """A snapshot of a cluster that has just lost a node goes on as that cluster would."""
    simulated = cluster(lambda builder: builder.deployment("web", on={"lost": 1}), timings=Timings())
    simulated.advance(60)
    (pod,) = pods(simulated).values()
    assert pod.node in EVERYWHERE


def full_of(priority: int) -> SimulatedCluster:
    """Return the cluster full of small pods, to which a large one of this priority has come."""

    def build(builder: ClusterBuilder) -> None:
        builder.deployment("low", on=dict.fromkeys(EVERYWHERE, 2), cpu=8_000)
        builder.deployment("high", replicas=1, cpu=9_000, priority=priority)

    return cluster(build)


def test_a_pod_that_no_node_admits_preempts_pods_of_lower_priority() -> None:
    """It is nominated for their node and bound once they are gone; their replacements do not take its place."""
    simulated = full_of(100)
    simulated.advance(60)
    victims = happened(simulated, TraceKind.PREEMPTED)
    (high,) = (pod for pod in pods(simulated).values() if pod.labels["app"] == "high")
    assert len(victims) == 2
    assert (high.ready, high.nominated_node) == (True, high.node)
    assert not {pod.name for pod in pods(simulated).values()} & set(victims)
    assert sum(pod.waiting for pod in pods(simulated).values()) == 2


def test_without_a_higher_priority_nothing_is_preempted() -> None:
    simulated = full_of(0)
    simulated.advance(60)
    assert happened(simulated, TraceKind.PREEMPTED) == []
    assert sum(pod.waiting for pod in pods(simulated).values()) == 1


def test_a_pod_that_is_deleted_while_it_is_nominated_leaves_the_place_to_others() -> None:
    simulated = full_of(100)
    simulated.advance(1.05)
    (high,) = (pod for pod in pods(simulated).values() if pod.labels["app"] == "high")
    assert (high.node, high.nominated_node) == (None, high.nominated_node or "a node")
    simulated.scale("default", "Deployment", "high", 0)
    simulated.advance(60)
    assert all(pod.ready for pod in pods(simulated).values())
