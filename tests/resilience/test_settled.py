"""Where nodes are silent already, changes are of what follows: their pods are deleted, and those of others replaced."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rebalancer.model.affinity import Toleration
from rebalancer.model.loss_phase import Phase
from rebalancer.model.nodes import ZONE
from rebalancer.model.pods import OwnerReference, PodSpec
from rebalancer.model.snapshot import Snapshot
from rebalancer.resilience.bounds import find_bounds
from rebalancer.resilience.changed import Change, MoreNodes
from rebalancer.resilience.loss import OnNodesNotReady, lose
from rebalancer.resilience.reason import StaysTerminating
from rebalancer.resilience.settled import settle
from rebalancer.scheduling.view import UNREACHABLE, View
from rebalancer.simulator import ClusterBuilder
from tests.build import away_from, change_specs, with_anti_affinity, with_nodes
from tests.drawing import examples
from tests.resilience.changing import BOTH, carry_out, find, over
from tests.resilience.drawn import draw_loss
from tests.resilience.test_changes import changes_of, check_played


def silence(snapshot: Snapshot, nodes: Collection[str]) -> Snapshot:
    """Return the cluster a moment after these nodes became unreachable."""
    return with_nodes(
        snapshot, {name: {"ready": False, "taints": (*snapshot.node[name].taints, *UNREACHABLE)} for name in nodes}
    )


def spread_over_three() -> ClusterBuilder:
    """Return six pods, two in each of three zones."""
    builder = ClusterBuilder()
    builder.zones("abc", 1)
    builder.deployment("web", on={"a-1": 2, "b-1": 2, "c-1": 2}, spread={ZONE: 1})
    return builder


def test_a_change_that_helps_is_named_while_a_zone_is_silent() -> None:
    """With Honor neither the silent zone nor the one that is lost besides is a domain; a patch's pods avoid both."""
    (found,) = find(silence(spread_over_three().snapshot(), ["c-1"]), name="web")
    assert found.changes == (Change(constraints=(over(ZONE),)), Change(constraints=(over(ZONE, skew=6),)))
    assert (found.complete, found.obstacle, found.silent) == (True, None, 1)


def test_none_is_needed_where_pods_come_back_once_they_are_deleted() -> None:
    """Until then it is not known whether the node returns with them."""
    builder = ClusterBuilder()
    builder.zones("abc", 1)
    builder.deployment("web", on={"a-1": 2, "b-1": 2, "c-1": 2})
    assert changes_of(silence(builder.snapshot(), ["c-1"])) == (Change(),)


def test_pods_of_a_stateful_set_on_silent_nodes_are_an_obstacle() -> None:
    """They stay terminating, as those of a zone that is lost do; once Node objects are deleted it is not known."""
    builder = ClusterBuilder()
    builder.zones("abc", 1)
    builder.stateful_set("db", on={"a-1": 1, "b-1": 1, "c-1": 1}, spread={ZONE: 1})
    builder.deployment("web", on={"c-1": 1})
    snapshot = silence(builder.snapshot(), ["c-1"])
    (found,) = find(snapshot, name="db")
    assert (found.changes, found.obstacle) == ((), StaysTerminating(1))
    (found,) = find(snapshot, [Phase.GONE], name="db")
    assert (found.changes, found.obstacle) == ((), OnNodesNotReady(1))


@pytest.mark.parametrize("toleration", [Toleration(operator="Exists"), Toleration(operator="Exists", seconds=300)])
def test_pods_that_tolerate_a_silent_node_without_an_end_are_an_obstacle(toleration: Toleration) -> None:
    """Others are evicted in time; and none comes back on the silent node, though it tolerates its taints."""
    snapshot = change_specs(
        spread_over_three().snapshot(), lambda _, spec: structs.replace(spec, tolerations=(toleration,))
    )
    (found,) = find(silence(snapshot, ["c-1"]), name="web")
    if toleration.seconds is None:
        assert (found.changes, found.obstacle) == ((), OnNodesNotReady(2))
    else:
        assert found.changes[0] == Change(constraints=(over(ZONE, skew=6),))


def test_no_place_on_a_silent_node_is_counted_on() -> None:
    """A pod that tolerates its taints for a time may be bound there; it would not run."""
    builder = ClusterBuilder()
    for node in ("a-1", "b-1", "c-1"):
        builder.node(node, cpu=1_000, memory=2**36, zone=node[0])
    builder.deployment("web", on={"a-1": 1, "b-1": 1, "c-1": 1}, cpu=500)

    def tolerate(_: str, spec: PodSpec) -> PodSpec:
        return structs.replace(spec, tolerations=(Toleration(operator="Exists", seconds=300),))

    snapshot = silence(change_specs(builder.snapshot(), tolerate), ["c-1"])
    changes = changes_of(snapshot, [Phase.GONE])
    assert changes == (Change(nodes=tuple(MoreNodes(number=1, like=like) for like in ("a-1", "b-1"))),)


@pytest.mark.parametrize("owner", ["Job", ""])
def test_pods_of_jobs_on_silent_nodes_compete_for_what_is_left(owner: str) -> None:
    """A Job makes another, for which there is one place; nobody replaces a pod without an owner."""
    builder = ClusterBuilder()
    for node, cpu in {"a-1": 1_000, "b-1": 1_000, "c-1": 1_000}.items():
        builder.node(node, cpu=cpu, memory=2**36, zone=node[0])
    builder.deployment("web", on={"a-1": 1, "b-1": 1}, cpu=500)
    builder.deployment("batch", on={"c-1": 1}, cpu=500)
    snapshot = builder.snapshot()
    other = OwnerReference(group="batch", kind=owner, name="batch", uid="batch") if owner else None
    pods = tuple(structs.replace(pod, owner=other) if pod.node == "c-1" else pod for pod in snapshot.pods)
    owners = tuple(one for one in snapshot.workloads if "batch" not in one.name)
    settled = settle(View(silence(replace(snapshot, pods=pods, workloads=owners), ["c-1"])))
    loss = lose(settled.view, frozenset(["b-1"]), Phase.GONE)
    (web,) = [
        bounds
        for service, bounds in zip(loss.services, find_bounds(loss), strict=True)
        if service.workload is not None and service.workload.name == "web"
    ]
    assert web.guaranteed == (1 if owner else 2)


def test_what_terminating_pods_on_silent_nodes_exclude_stays_excluded() -> None:
    """They do not end: zone b, of which one node is silent, takes no other pod of theirs."""
    builder = ClusterBuilder()
    builder.zones("ab", 2)
    builder.deployment("web", on={"a-1": 1, "b-1": 1})
    snapshot = silence(with_anti_affinity(builder.snapshot(), {"web": [away_from("web", ZONE)]}), ["b-1"])
    view = settle(View(snapshot)).view
    (service,), loss = (one := lose(view, frozenset(["a-1"]), Phase.GONE)).services, one
    (bounds,) = find_bounds(loss)
    assert (service.pending, bounds.guaranteed, bounds.possible) == (2, 1, 1)


def test_nothing_differs_where_no_pod_of_a_silent_node_is_to_be_deleted() -> None:
    view = View(silence(spread_over_three().snapshot(), []))
    assert settle(view) == (view, 0)


def delete_silent(snapshot: Snapshot, silent: Collection[str]) -> Snapshot:
    """Return the cluster once the pods of ReplicaSets have gone from these nodes."""
    pods = tuple(pod for pod in snapshot.pods if pod.node not in silent or pod.owner is None or _stays(pod.owner))
    return replace(snapshot, pods=pods)


def _stays(owner: OwnerReference) -> bool:
    return owner.kind == "StatefulSet"


def check_silent(seed: int, phases: Sequence[Phase] = BOTH) -> int:
    """Silence a zone, carry out each change that is named, and play the loss of every zone; return how many."""
    snapshot = draw_loss(seed).before.snapshot
    nodes = View(snapshot).nodes.groups(ZONE)["abc"[seed % 3]]
    now, checked = silence(snapshot, nodes), 0
    for found in find(now, phases):
        for change in found.changes:
            changed = carry_out(delete_silent(now, nodes), found.workload, change)
            check_played(changed, found.workload, phases)
            checked += 1
    return checked


@given(st.integers(0, 10**6))
@examples(10)
def test_while_a_zone_is_silent_a_named_change_makes_whole_in_every_order(seed: int) -> None:
    """Of drawn clusters: once the pods there are deleted, whichever zone is lost besides."""
    check_silent(seed)


@pytest.mark.thorough
def test_changes_of_forty_clusters_with_a_silent_zone() -> None:
    assert sum(check_silent(seed) for seed in range(40)) > 5
