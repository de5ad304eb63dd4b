"""Replacements that the API server would refuse, or whose volumes stay behind, are not counted on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from msgspec import structs

from rebalancer.creation.replacement import replacement
from rebalancer.model.affinity import NodeSelectorTerm
from rebalancer.model.creation import ResourceQuota
from rebalancer.model.labels import Operator, SelectorRequirement
from rebalancer.model.loss_phase import Phase
from rebalancer.model.nodes import ZONE
from rebalancer.model.pods import Pod
from rebalancer.model.snapshot import Snapshot
from rebalancer.model.storage import PersistentVolume, PersistentVolumeClaim
from rebalancer.resilience.bounds import Bounds, find_bounds
from rebalancer.resilience.loss import Loss, lose
from rebalancer.scheduling.feasibility import feasible
from rebalancer.scheduling.view import View
from rebalancer.simulator import ClusterBuilder
from tests.build import with_cpu
from tests.drawing import sampled


def bind(snapshot: Snapshot, zones: Mapping[str, str]) -> Snapshot:
    """Give the pods of these names a volume that is reached from one zone."""
    volumes, claims, pods = [], [], []
    for pod in snapshot.pods:
        if pod.name not in zones:
            pods.append(pod)
            continue
        term = NodeSelectorTerm(expressions=(SelectorRequirement(ZONE, Operator.IN, (zones[pod.name],)),))
        volumes.append(PersistentVolume(name=f"pv-{pod.name}", node_affinity=(term,)))
        claim = PersistentVolumeClaim(
            namespace=pod.namespace, name=f"data-{pod.name}", volume=f"pv-{pod.name}", bound=True
        )
        claims.append(claim)
        pods.append(structs.replace(pod, claims=(claim.name,)))
    return replace(snapshot, pods=tuple(pods), volumes=tuple(volumes), claims=tuple(claims))


def databases(on: Sequence[str], zones: Sequence[str]) -> Snapshot:
    """Return a StatefulSet whose pods are on these nodes, with volumes in these zones."""
    builder = ClusterBuilder()
    builder.zones("abc", 2)
    builder.stateful_set("db", on={node: on.count(node) for node in dict.fromkeys(on)})
    snapshot = builder.snapshot()
    names = [pod.name for pod in snapshot.pods]
    return bind(snapshot, dict(zip(names, zones, strict=True)))


def bounds_of(loss: Loss) -> Bounds:
    (bounds,) = find_bounds(loss)
    return bounds


def lost_zone(snapshot: Snapshot, phase: Phase, zone: str = "a") -> Loss:
    view = View(snapshot)
    return lose(view, frozenset(view.nodes.groups(ZONE)[zone]), phase)


def test_a_pod_whose_volume_is_in_the_lost_zone_does_not_come_back() -> None:
    """Two of three zones are left, and room for all."""
    found = bounds_of(lost_zone(databases(["a-1", "b-1", "c-1"], "abc"), Phase.GONE))
    assert (found.guaranteed, found.possible) == (2, 2)
    assert str(found.unknown) == "1 replacement has a volume that no other node reaches: data-db-0"


def test_a_pod_whose_volume_another_node_of_its_zone_reaches_may_come_back() -> None:
    view = View(databases(["a-1", "b-1", "c-1"], "abc"))
    found = bounds_of(lose(view, frozenset(["a-1"]), Phase.GONE))
    assert (found.guaranteed, found.possible) == (2, 3)


def most_placed(loss: Loss) -> int:
    """Return how many of the lost pods of a StatefulSet find a node, each with its own volumes, at best."""
    (service,) = loss.services
    new = [pod for one in service.lost if isinstance(pod := replacement(one, loss.before), Pod)]
    best = 0
    for nodes in product([None, *sorted(loss.after.nodes.names - loss.nodes)], repeat=len(new)):
        view, placed = loss.after, 0
        for pod, node in zip(new, nodes, strict=True):
            if node is not None and node in feasible(pod, view):
                view, placed = view.with_placed(pod, node), placed + 1
        best = max(best, placed)
    return service.bound + best


def check_volumes(seed: int) -> None:
    random = Random(seed)
    nodes = [f"{zone}-{number}" for zone in "abc" for number in (1, 2)]
    on = sorted(random.choice(nodes) for _ in range(random.randint(2, 4)))
    zones = [node[0] if random.random() < 0.8 else random.choice("abc") for node in on]
    snapshot = with_cpu(databases(on, zones), random.choice((100, 200, 300)), *nodes)
    view = View(snapshot)
    lost = frozenset(random.choice([["a-1"], ["a-1", "a-2"], ["b-1", "b-2"]]))
    loss = lose(view, lost, Phase.GONE)
    if loss.services[0].pending:
        assert bounds_of(loss).guaranteed == loss.services[0].bound
        assert bounds_of(loss).possible >= most_placed(loss)
        stranded = sum(pod.node in lost and not reach(pod, snapshot) - lost for pod in snapshot.pods)
        assert bounds_of(loss).possible <= loss.services[0].wanted - stranded


def reach(pod: Pod, snapshot: Snapshot) -> set[str]:
    """Return the nodes in the zone of a pod's volume."""
    (claim,) = pod.claims
    volume = snapshot.volume[f"pv-{claim.removeprefix('data-')}"]
    assert volume.node_affinity is not None
    (zone,) = volume.node_affinity[0].expressions[0].values
    return {node.name for node in snapshot.nodes if node.labels[ZONE] == zone}


@pytest.mark.parametrize("seed", sampled(range(60)))
def test_no_more_come_back_than_have_volumes_in_reach_and_no_fewer_than_find_a_node(seed: int) -> None:
    check_volumes(seed)


def with_quota(hard: int, used: int, *, replicas: int = 6) -> Snapshot:
    """Return six pods of two zones in a namespace whose quota bounds their number."""
    builder = ClusterBuilder()
    builder.zones("ab", 1)
    builder.deployment("web", on={"a-1": 3, "b-1": 3}, replicas=replicas)
    quota = ResourceQuota(namespace="default", name="q", hard=(("pods", hard),), used=(("pods", used),))
    return replace(builder.snapshot(), quotas=(quota,), known=frozenset({"ResourceQuota"}))


@pytest.mark.parametrize("phase", Phase)
def test_what_lost_pods_have_used_of_a_quota_is_returned(phase: Phase) -> None:
    """Also while they stay terminating, once their grace period is over."""
    assert bounds_of(lost_zone(with_quota(6, 6), phase)) == Bounds(6, 6)


def test_a_quota_that_admits_no_missing_pods_leaves_what_runs() -> None:
    """Seven are wanted, and six exist: with the replacements the seventh would be created, too."""
    found = bounds_of(lost_zone(with_quota(6, 6, replicas=7), Phase.GONE))
    assert (found.guaranteed, found.possible) == (3, 7)
    assert str(found.unknown) == ("ResourceQuota default/q limits pods to 6, and with all replacements 7 are needed")
    assert bounds_of(lost_zone(with_quota(7, 6, replicas=7), Phase.GONE)) == Bounds(7, 7)


def scaled_down() -> Snapshot:
    """Return a StatefulSet of three with volumes in a lost zone that wants one, beside three pods and room for one."""
    builder = ClusterBuilder()
    builder.zones("ab", 1)
    builder.stateful_set("db", on={"a-1": 3}, cpu=100, replicas=1)
    builder.deployment("web", on={"a-1": 3}, cpu=1_000)
    snapshot = bind(builder.snapshot(), {f"db-{number}": "a" for number in range(3)})
    return with_cpu(snapshot, 1_500, "b-1")


def test_pods_that_are_not_wanted_any_more_take_no_place_and_leave_none() -> None:
    """Of three with volumes out of reach none comes back, and not fewer than none."""
    loss = lost_zone(scaled_down(), Phase.GONE)
    found = {
        service.workload.name: bounds
        for service, bounds in zip(loss.services, find_bounds(loss), strict=True)
        if service.workload is not None
    }
    assert (found["db"].guaranteed, found["db"].possible) == (0, 0)
    assert (found["web"].guaranteed, found["web"].possible) == (1, 1)


@pytest.mark.parametrize("names", ["pq", "qp"])
def test_a_service_with_a_volume_out_of_reach_is_not_taken_for_its_twin(names: str) -> None:
    """Two that nothing else tells apart: one comes back, the other does not."""
    builder = ClusterBuilder()
    builder.zones("ab", 1)
    for name in names:
        builder.stateful_set(name, on={"a-1": 1}, cpu=1_000)
    builder.deployment("other", on={"a-1": 1}, cpu=1_000)
    snapshot = with_cpu(bind(builder.snapshot(), {"p-0": "a", "q-0": "b"}), 1_000, "b-1")
    loss = lost_zone(snapshot, Phase.GONE)
    bounds = zip(loss.services, find_bounds(loss), strict=True)
    found = {str(service.workload): one.possible for service, one in bounds}
    assert [found[f"default/{name} (StatefulSet)"] for name in "pq"] == [0, 1]
