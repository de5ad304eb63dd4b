"""A controller that was stopped goes by nothing that it knew before: its view is renewed before it evicts anything."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rebalancer.admission.pause import KEY
from tests.cluster.controller import NAMESPACE, USER, Controller, install, policy
from tests.cluster.test_silent_watches import behind_proxy
from tests.control_plane.api import in_parallel, wait_until
from tests.control_plane.layout import lay_out
from tests.control_plane.manifests import node, spread
from tests.control_plane.plane import ControlPlane
from tests.control_plane.settling import pod_ready
from tests.control_plane.workloads import Workload, deployment

ZONES = ("a", "b")
WORKLOADS = [f"web-{number}" for number in range(6)]
CONTROL = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-control"
STOPPED_SECONDS = 12.0
"""Longer than two cycles, and than the Lease's deadline; nobody else takes it."""


@contextmanager
def stopped(controller: Controller) -> Iterator[None]:
    """Let the process stand still for at least `STOPPED_SECONDS`."""
    assert controller.process is not None
    os.kill(controller.process.pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        yield
        time.sleep(max(0.0, began + STOPPED_SECONDS - time.monotonic()))
    finally:
        os.kill(controller.process.pid, signal.SIGCONT)


def count(plane: ControlPlane) -> dict[str, list[int]]:
    """Return how many Ready pods each workload has in each zone."""
    counts = {name: [0] * len(ZONES) for name in WORKLOADS}
    for pod in plane.api.list("/api/v1/namespaces/shop/pods"):
        if pod_ready(pod) and "deletionTimestamp" not in pod["metadata"]:
            counts[pod["metadata"]["labels"]["app"]][ZONES.index(pod["spec"]["nodeName"][0])] += 1
    return counts


def skewed(name: str) -> Workload:
    """Return a workload of four pods, all in the first zone."""
    constraints = [spread(labels={"app": name})]
    return deployment(name, {"a-0": 2, "a-1": 2}, namespace="shop", cpu="1", topologySpreadConstraints=constraints)


def close_zone(plane: ControlPlane, zone: str, *, closed: bool) -> None:
    for number in range(2):
        plane.api.patch(f"/api/v1/nodes/{zone}-{number}", {"spec": {"unschedulable": closed}})


@pytest.mark.invariant("fresh-views")
@pytest.mark.timeout(240)
def test_a_process_that_was_stopped_evicts_nothing_by_its_old_view(cluster: ControlPlane, tmp_path: Path) -> None:
    """Six workloads are moved into balance while it is stopped, and a pause ends: it knows neither when it goes on.

    What the watch of pods has to deliver does not come, as if it waited in a buffer.
    """
    install(cluster, "base", "evict")
    nodes = [node(f"{zone}-{number}", cpu="32", zone=zone) for zone in ZONES for number in range(2)]
    lay_out(cluster, [*nodes, *map(skewed, WORKLOADS)])
    assert count(cluster) == {name: [4, 0] for name in WORKLOADS}
    pause = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "rebalancer-control", "namespace": NAMESPACE},
    }
    cluster.api.apply([{**pause, "data": {KEY: "reason: a test\n"}}])
    budgets = {"perMinute": 60, "perWorkload": "100%", "maxUnavailable": "50%", "parallel": 6, "slowStart": False}
    text = policy("Evict", interval="2s", budgets=budgets)
    with behind_proxy(cluster, tmp_path) as (proxy, access), Controller(cluster, tmp_path, text, access) as controller:
        wait_until(
            lambda: any(line["violated"] == 6 for line in controller.log("cycle")), what="a plan for all", timeout=60
        )
        proxy.silent = frozenset({"pods"})
        with stopped(controller):
            close_zone(cluster, "a", closed=True)
            moved = [
                pod["metadata"]["name"]
                for name in WORKLOADS
                for pod in cluster.api.list("/api/v1/namespaces/shop/pods", labels=f"app={name}")[-2:]
            ]
            in_parallel(lambda name: cluster.api.delete(f"/api/v1/namespaces/shop/pods/{name}"), moved)
            balanced = {name: [2, 2] for name in WORKLOADS}
            wait_until(lambda: count(cluster) == balanced, what="the balance", timeout=60)
            close_zone(cluster, "a", closed=False)
            cluster.api.patch(CONTROL, {"data": {KEY: None}})
        (line,) = controller.wait_for("the process was stopped", timeout=20)
        began = len(controller.log("cycle"))
        wait_until(
            lambda: any(not cycle["stale"] for cycle in controller.log("cycle")[began:]),
            what="a cycle of what was listed again",
            timeout=60,
        )
        cycles = controller.log("cycle")[began:]
        assert [cycle["violated"] for cycle in cycles if not cycle["stale"]][-1] == 0
        assert count(cluster) == balanced
        evicted = cluster.audit.evictions(user=USER)
        held = controller.log("eviction held back")
    stale = [cycle["stale"] for cycle in cycles if cycle["stale"]]
    print(f"stopped for {line['seconds']} s; {len(evicted)} evictions, {len(held)} held back; stale cycles: {stale}")
    assert evicted == []
