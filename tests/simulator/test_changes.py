"""Changes of a simulated cluster as flags and scenario files write them: what is not one is refused with its place."""

import pytest
from msgspec import structs

from rebalancer.admission.pause import Pause
from rebalancer.model.affinity import Taint, TaintEffect
from rebalancer.simulator import HOSTNAME, ZONE, SimulatedCluster
from rebalancer.simulator.changes import parse_change
from tests.build import a_cluster


def make_cluster() -> SimulatedCluster:
    return SimulatedCluster(a_cluster("ab", 2, namespace="shop", replicas=4, spread={ZONE: 1}).snapshot())


def node_names(cluster: SimulatedCluster) -> set[str]:
    return {node.name for node in cluster.snapshot(cluster.now).nodes}


def test_nodes_and_domains_are_lost_and_come_back() -> None:
    cluster = make_cluster()
    parse_change("remove-domain", f"{ZONE}=a").apply(cluster)
    assert node_names(cluster) == {"b-1", "b-2"}
    parse_change("remove-node", "b-1").apply(cluster)
    assert node_names(cluster) == {"b-2"}
    parse_change("restore-domain", f"{ZONE}=a").apply(cluster)
    assert node_names(cluster) == {"a-1", "a-2", "b-2"}
    parse_change("cordon", "a-1").apply(cluster)
    assert cluster.snapshot(cluster.now).node["a-1"].unschedulable


def test_a_node_joins_like_the_one_with_most_of_its_labels() -> None:
    """Its capacity and its other labels are those of that node; its name is its own."""
    cluster = make_cluster()
    parse_change("add-node", f"c-1={ZONE}=b,disk=fast").apply(cluster)
    nodes = cluster.snapshot(cluster.now).node
    assert nodes["c-1"].labels[ZONE] == "b"
    assert nodes["c-1"].labels[HOSTNAME] == "c-1"
    assert nodes["c-1"].labels["disk"] == "fast"
    assert nodes["c-1"].allocatable == nodes["b-1"].allocatable
    assert nodes["c-1"].ready


def test_a_node_that_joins_has_no_taint_if_one_without_any_is_as_alike() -> None:
    cluster = make_cluster()
    store = cluster.state.store.nodes
    for name in ("a-1", "b-1"):
        node = store.get(name)
        assert node is not None
        store.put(structs.replace(node, taints=(Taint(key="gpu", effect=TaintEffect.NO_SCHEDULE),)))
    parse_change("add-node", f"c-1={ZONE}=c").apply(cluster)
    assert cluster.snapshot(cluster.now).node["c-1"].taints == ()


def test_a_workload_is_scaled_by_namespace_kind_and_name() -> None:
    cluster = make_cluster()
    parse_change("scale", "shop/deployment/web=2").apply(cluster)
    cluster.advance(10)
    assert len(cluster.snapshot(cluster.now).pods) == 2


@pytest.mark.parametrize(
    ("verb", "text", "message"),
    [
        ("remove-node", "", "expected the name of a node"),
        ("cordon", "A node", "expected the name of a node"),
        ("remove-domain", "zone", "expected KEY=VALUE"),
        ("remove-domain", "=a", "expected KEY=VALUE"),
        ("restore-domain", "zone", "expected KEY=VALUE"),
        ("add-node", "a-9", "expected NAME=LABEL=VALUE"),
        ("add-node", "a-9=zone", "expected KEY=VALUE"),
        ("pause", "zone b is upgraded", "expected BY: REASON"),
        ("scale", "web=3", "expected NAMESPACE/KIND/NAME=REPLICAS"),
        ("scale", "shop/pod/web=3", "expected NAMESPACE/KIND/NAME=REPLICAS"),
        ("scale", "shop/deployment/web=-1", "expected NAMESPACE/KIND/NAME=REPLICAS"),
        ("scale", "shop/deployment/web=100001", "100000 replicas at most"),
    ],
)
def test_what_is_not_a_change_is_refused_with_an_example(verb: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match="found") as caught:
        parse_change(verb, text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("verb", "text", "message"),
    [
        ("remove-node", "z-1", "node z-1 not found"),
        ("restore-domain", f"{ZONE}=a", "was removed"),
        ("remove-domain", f"{ZONE}=z", "no node has the label"),
        ("add-node", f"a-1={ZONE}=a", "already exists"),
        ("scale", "shop/deployment/wbe=3", "not found"),
    ],
)
def test_what_the_cluster_does_not_have_is_an_error(verb: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_change(verb, text).apply(make_cluster())


def test_nothing_can_be_like_a_node_that_is_not_there() -> None:
    cluster = make_cluster()
    for zone in "ab":
        parse_change("remove-domain", f"{ZONE}={zone}").apply(cluster)
    with pytest.raises(ValueError, match="no node that a new one could be like"):
        parse_change("add-node", f"c-1={ZONE}=c").apply(cluster)


def test_the_kill_switch_is_set_and_reset() -> None:
    cluster = make_cluster()
    parse_change("pause", "alice: zone b is upgraded").apply(cluster)
    assert cluster.pause == Pause(by="alice", reason="zone b is upgraded")
    parse_change("resume", "alice").apply(cluster)
    assert cluster.pause is None
