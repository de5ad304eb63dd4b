"""Losses of which the numbers can be told by hand."""

from collections.abc import Mapping

import pytest
from msgspec import structs

from rebalancer.model.loss_phase import Phase
from rebalancer.model.nodes import HOSTNAME, ZONE
from rebalancer.model.pods import HostPort, PodSpec, Resources
from rebalancer.model.snapshot import Snapshot
from rebalancer.resilience.bounds import find_bounds
from rebalancer.resilience.loss import lose
from rebalancer.resilience.programs import TooLarge
from rebalancer.resilience.sizes import SIZES, Sizes
from rebalancer.scheduling.view import View
from rebalancer.simulator import ClusterBuilder
from tests.build import a_cluster, away_from, change_specs, with_anti_affinity

BY_SUMS = Sizes(by_node=0, by_group=0)
WAYS = pytest.mark.parametrize("sizes", [SIZES, Sizes(by_node=0), BY_SUMS])


def bound(snapshot: Snapshot, lost: str, phase: Phase, sizes: Sizes = SIZES) -> Mapping[str, tuple[int, int]]:
    """Return the bounds of each workload when a zone is lost, or the node of that name."""
    view = View(snapshot)
    nodes = view.nodes.groups(ZONE).get(lost, frozenset((lost,)))
    loss = lose(view, nodes, phase)
    return {
        service.workload.name: (found.guaranteed, found.possible)
        for service, found in zip(loss.services, find_bounds(loss, sizes=sizes), strict=True)
        if service.workload is not None
    }


@WAYS
@pytest.mark.parametrize(
    ("skew", "phase", "left"), [(1, Phase.GONE, (12, 12)), (1, Phase.SILENT, (8, 8)), (2, Phase.SILENT, (8, 9))]
)
def test_a_silent_zone_counts_without_pods_and_its_pods_count_until_they_are_deleted(
    skew: int, phase: Phase, left: tuple[int, int], sizes: Sizes
) -> None:
    """With maxSkew 2 the first deleted pod is replaced, as the others still count, unless all are deleted before."""
    cluster = a_cluster("abc", on={"a-1": 4, "b-1": 4, "c-1": 4}, spread={ZONE: skew})
    assert bound(cluster.snapshot(), "c", phase, sizes) == {"web": left}


@WAYS
@pytest.mark.parametrize(("phase", "left"), [(Phase.SILENT, (2, 2)), (Phase.GONE, (3, 3))])
def test_a_stateful_set_is_replaced_only_once_its_nodes_are_gone(
    phase: Phase, left: tuple[int, int], sizes: Sizes
) -> None:
    """Its pod on a silent node may still run."""
    cluster = a_cluster("abc", on={"a-1": 1, "b-1": 1, "c-1": 1}, stateful=True)
    assert bound(cluster.snapshot(), "c", phase, sizes) == {"web": left}


@WAYS
def test_pods_that_preempt_leave_others_without_a_guarantee(sizes: Sizes) -> None:
    """They themselves are whole: what they may preempt is no obstacle."""
    builder = ClusterBuilder()
    for zone in "ab":
        builder.node(f"{zone}-1", cpu=2_000, zone=zone)
    builder.deployment("first", on={"a-1": 2}, cpu=1_000, priority=10)
    builder.deployment("last", on={"b-1": 2}, cpu=1_000)
    assert bound(builder.snapshot(), "a", Phase.GONE, sizes) == {"first": (2, 2), "last": (0, 2)}


@WAYS
def test_who_has_the_priority_but_may_not_preempt_is_not_sure_of_a_place(sizes: Sizes) -> None:
    """The other service may put its pods in the place of the last one's, or wait."""
    builder = ClusterBuilder()
    for zone in "ab":
        builder.node(f"{zone}-1", cpu=2_000, zone=zone)
    for app in ("first", "never"):
        builder.deployment(app, on={"a-1": 1}, cpu=1_000, priority=10)
    builder.deployment("last", on={"b-1": 2}, cpu=1_000)

    def change(app: str, spec: PodSpec) -> PodSpec:
        return structs.replace(spec, preempts=app != "never")

    changed = change_specs(builder.snapshot(), change)
    left = {"first": (1, 1), "never": (0, 1), "last": (0, 2)}
    assert bound(changed, "a", Phase.GONE, sizes) == left


@WAYS
def test_every_resource_counts(sizes: Sizes) -> None:
    """CPU is left for both, memory for one: who is first is placed."""
    builder = ClusterBuilder()
    builder.node("a-1", cpu=4_000, memory=8_000_000_000, zone="a")
    builder.node("b-1", cpu=4_000, memory=900_000_000, zone="b")
    for app in "ab":
        builder.deployment(app, on={"a-1": 1}, cpu=500)
    assert bound(builder.snapshot(), "a", Phase.GONE, sizes) == {"a": (0, 1), "b": (0, 1)}


@WAYS
@pytest.mark.parametrize(("free", "left"), [(0, 2), (1, 3)])
@pytest.mark.parametrize("phase", Phase)
def test_at_most_one_pod_with_a_host_port_is_on_a_node(phase: Phase, free: int, left: int, sizes: Sizes) -> None:
    """A node more takes one more."""
    cluster = a_cluster("abc" + "d" * free, on={"a-1": 1, "b-1": 1, "c-1": 1})

    def take_port(_: str, spec: PodSpec) -> PodSpec:
        return structs.replace(spec, host_ports=(HostPort("0.0.0.0", "TCP", 80),))

    assert bound(change_specs(cluster.snapshot(), take_port), "c", phase, sizes) == {"web": (left, left)}


@WAYS
@pytest.mark.parametrize(("phase", "left"), [(Phase.SILENT, 2), (Phase.GONE, 3)])
def test_terminating_pods_repel_while_their_node_is_silent(phase: Phase, left: int, sizes: Sizes) -> None:
    """The other node of the zone takes the pod only once the lost node is gone."""
    cluster = a_cluster("abc", nodes=2, on={"a-1": 1, "b-1": 1, "c-1": 1})
    apart = with_anti_affinity(cluster.snapshot(), {"web": [away_from("web", ZONE)]})
    assert bound(apart, "c-1", phase, sizes) == {"web": (left, left)}


@pytest.mark.parametrize("sizes", [SIZES, Sizes(by_node=0)])
def test_pods_elsewhere_in_a_zone_repel(sizes: Sizes) -> None:
    """The emptiest node is in a zone that has a pod: three pods find two zones."""
    builder = a_cluster("abc", on={"b-1": 2}, replicas=3, spread={HOSTNAME: 1})
    builder.node("a-2", zone="a")
    apart = with_anti_affinity(builder.snapshot(), {"web": [away_from("web", ZONE)]})
    assert bound(apart, "b", Phase.GONE, sizes) == {"web": (2, 2)}


@pytest.mark.parametrize("sizes", [SIZES, Sizes(by_node=0)])
def test_every_one_of_equal_nodes_must_be_blocked(sizes: Sizes) -> None:
    """One pod can fill a node's CPU, and the other has too little memory to block the other node. Sums do not tell."""
    asked = {"web": (1_000, 1_000), "large": (2_000, 1), "memory": (1, 1_000)}
    builder = ClusterBuilder()
    builder.node("a-1", cpu=5_000, zone="a")
    for node in ("b-1", "b-2"):
        builder.node(node, cpu=2_001, memory=2_001, zone="b")
    for app in asked:
        builder.deployment(app, on={"a-1": 1})

    def ask(app: str, spec: PodSpec) -> PodSpec:
        cpu, memory = asked[app]
        return structs.replace(spec, requests=Resources(cpu=cpu, memory=memory))

    assert bound(change_specs(builder.snapshot(), ask), "a", Phase.GONE, sizes)["web"] == (1, 1)


@pytest.mark.parametrize("sizes", [SIZES, Sizes(by_node=0)])
def test_an_order_decides_where_another_service_may_take_the_room(sizes: Sizes) -> None:
    """One of two pods finds room for one."""
    builder = ClusterBuilder()
    builder.node("a-1", cpu=2_000, zone="a")
    builder.node("b-1", cpu=1_000, zone="b")
    builder.deployment("one", on={"a-1": 1}, cpu=1_000)
    builder.deployment("two", on={"a-1": 1}, cpu=1_000)
    assert bound(builder.snapshot(), "a", Phase.GONE, sizes) == {"one": (0, 1), "two": (0, 1)}


def test_what_is_too_large_for_a_program_says_so() -> None:
    """With how many compete for how many nodes."""
    builder = ClusterBuilder()
    builder.node("a-1", cpu=2_000, zone="a")
    builder.node("b-1", cpu=1_000, zone="b")
    builder.deployment("one", on={"a-1": 1}, cpu=1_000)
    builder.deployment("two", on={"a-1": 1}, cpu=1_000)
    loss = lose(View(builder.snapshot()), frozenset({"a-1"}), Phase.GONE)
    reasons = [found.unknown for found in find_bounds(loss, sizes=BY_SUMS)]
    assert reasons == [TooLarge(2, 1)] * 2
    assert str(reasons[0]) == (
        "2 services may be placed on 1 node: too many to compare more than what is requested and what is free"
    )


@pytest.mark.parametrize("phase", Phase)
def test_without_any_node_nothing_is_left(phase: Phase) -> None:
    """Nor is an error."""
    view = View(a_cluster("ab", on={"a-1": 1, "b-1": 1}).snapshot())
    assert [tuple(found) for found in find_bounds(lose(view, view.nodes.names, phase))] == [(0, 0, None)]
