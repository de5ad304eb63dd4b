"""Capacity first with the real Karpenter, which creates and removes the nodes; its provider is simulated by KWOK."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controller import USER, Controller, install, policy
from tests.cluster.test_capacity import JOBS, by_zone, failed_scheduling, is_pending, nothing_left, reasons
from tests.control_plane.api import Api, wait_until
from tests.control_plane.build import MissingPart
from tests.control_plane.karpenter import NODE_POOLS, Karpenter, node_pool
from tests.control_plane.layout import pdb, spread
from tests.control_plane.manifests import HOSTNAME, ZONE, pod_template
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest

LABELS = {"app": "web"}
REPLICAS = 12
CAPACITY: dict[str, Any] = {"mode": "Request", "timeout": "60s", "settle": "2s"}


@pytest.fixture
def karpenter(cluster: ControlPlane) -> Iterator[Karpenter]:
    """Karpenter with nodes of four cores, beside an empty cluster with the controller's rights."""
    install(cluster, "base", "evict", "capacity")
    try:
        started = Karpenter(cluster, zones="abc")
    except MissingPart as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no Karpenter: {missing}")
    with started:
        yield started


def workload(kind: str, keys: tuple[str, ...]) -> list[Manifest]:
    """Return twelve pods of a workload: spread over these keys, at most one unavailable."""
    constraints = [spread(key, labels=LABELS) for key in keys]
    template = pod_template(labels=LABELS, cpu="800m", memory="64Mi", topologySpreadConstraints=constraints)
    body: dict[str, Any] = {"replicas": REPLICAS, "selector": {"matchLabels": LABELS}, "template": template}
    if kind == "StatefulSet":
        body |= {"serviceName": "web", "podManagementPolicy": "Parallel"}
    owner = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": "shop"}, "spec": body}
    return [owner, pdb("web", LABELS, namespace="shop", max_unavailable=1)]


def all_run(api: Api, counts: dict[str, int]) -> bool:
    pods = api.list("/api/v1/namespaces/shop/pods")
    return len(pods) == REPLICAS and not any(is_pending(entry) for entry in pods) and by_zone(api) == counts


def lose_zone(plane: ControlPlane, zone: str) -> None:
    """Take a zone out of the NodePool and its nodes away; Karpenter replaces them in the other zones."""
    api = plane.api
    left = [name for name in "abc" if name != zone]
    _set_zones(api, left)
    for entry in api.list("/api/v1/nodes"):
        if entry["metadata"]["labels"].get(ZONE) == zone:
            name = entry["metadata"]["name"]
            for one in api.list("/api/v1/pods", fields=f"spec.nodeName={name}"):
                path = f"/api/v1/namespaces/{one['metadata']['namespace']}/pods/{one['metadata']['name']}"
                api.delete(path, grace_seconds=0, missing_ok=True)
            api.delete(f"/api/v1/nodes/{name}", missing_ok=True)


def _set_zones(api: Api, zones: list[str]) -> None:
    pool = api.get(f"{NODE_POOLS}/general")
    requirements = pool["spec"]["template"]["spec"]["requirements"]
    changed = [{**row, "values": zones} if row["key"] == ZONE else row for row in requirements]
    api.patch(f"{NODE_POOLS}/general", {"spec": {"template": {"spec": {"requirements": changed}}}})


def prepare(plane: ControlPlane, kind: str, keys: tuple[str, ...], *, zones: str, **pool: Any) -> None:
    """Let Karpenter create the nodes of a workload in these zones, the same number of pods in each."""
    api = plane.api
    api.create(node_pool("general", zones=zones, **pool), path=NODE_POOLS)
    api.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}])
    wait_until(lambda: api.find("/api/v1/namespaces/shop/serviceaccounts/default"), what="the namespace")
    for manifest in workload(kind, keys):
        api.create(manifest)
    per_zone = REPLICAS // len(zones)
    wait_until(lambda: all_run(api, dict.fromkeys(zones, per_zone)), what=f"{per_zone} pods in each zone", timeout=120)


def prepare_returned(plane: ControlPlane, kind: str, keys: tuple[str, ...]) -> None:
    """Bring the cluster into the state after a zone has come back without nodes: six pods in each of two zones."""
    prepare(plane, kind, keys, zones="ab")
    _set_zones(plane.api, ["a", "b", "c"])


def is_settled(api: Api, controller: Controller, counts: dict[str, int]) -> bool:
    """Return whether all pods run, so many in each zone, and the controller has nothing to repair."""
    return all_run(api, counts) and controller.metrics()["rebalancer_planned_evictions"] == 0


def evictions(plane: ControlPlane) -> list[int]:
    """Return the codes of our evictions since the test began."""
    return [eviction.code for eviction in plane.audit.evictions(user=USER)]


def repair(plane: ControlPlane, folder: Path) -> None:
    """Run the controller until the zones are even, and check what it has done."""
    api = plane.api
    before = failed_scheduling(api)
    plane.begin_test()
    capacity_policy = policy("Evict", capacity=CAPACITY, budgets={"perWorkload": "50%"})
    with Controller(plane, folder, capacity_policy) as controller:
        wait_until(lambda: all_run(api, {"a": 4, "b": 4, "c": 4}), what="four pods in each zone", timeout=180)
        wait_until(lambda: nothing_left(api), what="the placeholders to go", timeout=60)
        assert {"CapacityRequested", "CapacityReady"} <= reasons(api)
        assert controller.stop() == 0
    assert evictions(plane) == [201] * 4
    assert set(failed_scheduling(api)) <= set(before)


@pytest.mark.thorough
def test_karpenter_creates_the_node_that_placeholders_ask_for(
    cluster: ControlPlane, karpenter: Karpenter, tmp_path: Path
) -> None:
    """A zone that came back without nodes is filled again: four evictions, nothing pending, no placeholder left."""
    prepare_returned(cluster, "Deployment", (ZONE,))
    repair(cluster, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize("keys", [(ZONE,), (ZONE, HOSTNAME)])
def test_the_whole_story_of_a_lost_zone(
    cluster: ControlPlane, karpenter: Karpenter, tmp_path: Path, kind: str, keys: tuple[str, ...]
) -> None:
    """Lost, replaced in the other zones, back without nodes, repaired by one controller that runs all the time.

    Consolidation for ten minutes afterwards undoes nothing.
    """
    api = cluster.api
    prepare(cluster, kind, keys, zones="abc", consolidate="WhenEmptyOrUnderutilized")
    cluster.begin_test()
    with Controller(
        cluster, tmp_path, policy("Evict", capacity=CAPACITY, budgets={"perWorkload": "50%"})
    ) as controller:
        controller.wait_for("cycle", count=1)
        lose_zone(cluster, "c")
        wait_until(lambda: is_settled(api, controller, {"a": 6, "b": 6}), what="the pods to be replaced", timeout=180)
        earlier, complaints = evictions(cluster), failed_scheduling(api)
        if keys == (ZONE,):
            assert earlier == [], "whatever the scheduler has placed satisfies the one constraint"
        _set_zones(api, ["a", "b", "c"])
        wait_until(
            lambda: is_settled(api, controller, {"a": 4, "b": 4, "c": 4}), what="four pods in each zone", timeout=180
        )
        wait_until(lambda: nothing_left(api), what="the placeholders to go", timeout=60)
        assert {"CapacityRequested", "CapacityReady"} <= reasons(api)
        assert evictions(cluster)[len(earlier) :] == [201] * 4
        assert set(failed_scheduling(api)) <= set(complaints), "a pod found no node"
        time.sleep(600)
        assert controller.stop() == 0
    assert len(evictions(cluster)) == len(earlier) + 4
    assert nothing_left(api)
    assert by_zone(api) == Counter({"a": 4, "b": 4, "c": 4})


@pytest.mark.thorough
def test_a_node_pool_at_its_limit_is_reported_in_karpenters_words(
    cluster: ControlPlane, karpenter: Karpenter, tmp_path: Path
) -> None:
    """Nothing is evicted; the placeholders go after the timeout; the event has Karpenter's reason; back-off."""
    api = cluster.api
    prepare_returned(cluster, "Deployment", (ZONE,))
    api.patch(f"{NODE_POOLS}/general", {"spec": {"limits": {"cpu": "1"}}})  # long exceeded: not one node more
    cluster.begin_test()
    with Controller(cluster, tmp_path, policy("Evict", capacity={**CAPACITY, "timeout": "20s"})) as controller:
        wait_until(lambda: api.list(JOBS), what="the placeholders", timeout=60)
        wait_until(lambda: "CapacityFailed" in reasons(api), what="the request to fail", timeout=90)
        wait_until(lambda: nothing_left(api), what="the placeholders to go", timeout=60)
        refused = 'rebalancer_refusals{reason="NoCapacity"}'
        wait_until(lambda: controller.metrics()[refused] == 1, what="the reason")
    events = api.list("/apis/events.k8s.io/v1/namespaces/shop/events")
    (note,) = [entry["note"] for entry in events if entry["reason"] == "CapacityFailed"]
    assert "limit" in note
    assert "karpenter" in note
    assert evictions(cluster) == []
