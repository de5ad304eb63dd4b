"""A zone is lost and comes back: the controller brings every skew back within its bound, and nothing else."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controller import USER, Controller, install, policy
from tests.control_plane.api import Api, wait_until
from tests.control_plane.layout import deployment, lay_out, lose_nodes, nodes, pdb, return_nodes, spread, stateful_set
from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.settling import wait_settled

SHOP = "/api/v1/namespaces/shop/pods"
BUDGET = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets/web"
MINIMUM = 6
"""12 pods are placed 3 3 | 3 3 | 0 0 and must be 2 2 | 2 2 | 2 2: four. 6 are placed 2 1 | 2 1 | 0 0: two."""


def constraints(app: str) -> list[dict[str, Any]]:
    return [spread(key, labels={"app": app}) for key in (ZONE, HOSTNAME)]


def lay_out_shop(plane: ControlPlane) -> None:
    """Twelve of a Deployment and six of a StatefulSet, two and one on each of six nodes."""
    six = ["a-0", "a-1", "b-0", "b-1", "c-0", "c-1"]
    lay_out(
        plane,
        [
            *nodes({"a": 2, "b": 2, "c": 2}),
            deployment("web", six * 2, namespace="shop", topologySpreadConstraints=constraints("web")),
            stateful_set("db", six, namespace="shop", topologySpreadConstraints=constraints("db")),
            pdb("web", {"app": "web"}, namespace="shop", max_unavailable=2),
        ],
    )


def counts(api: Api, app: str) -> Counter[str]:
    """Count the pods of a workload by node; terminating ones do not count."""
    pods = [pod for pod in api.list(SHOP, labels=f"app={app}") if "deletionTimestamp" not in pod["metadata"]]
    return Counter(pod["spec"].get("nodeName", "") for pod in pods)


def balanced(api: Api) -> bool:
    six = ["a-0", "a-1", "b-0", "b-1", "c-0", "c-1"]
    return counts(api, "web") == dict.fromkeys(six, 2) and counts(api, "db") == dict.fromkeys(six, 1)


@contextmanager
def sampled_budget(api: Api) -> Iterator[list[tuple[int, int]]]:
    """Collect (currentHealthy, desiredHealthy) of the budget, some twenty times a second."""
    samples: list[tuple[int, int]] = []
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(0.05):
            status = api.get(BUDGET)["status"]
            samples.append((status["currentHealthy"], status["desiredHealthy"]))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


@pytest.mark.invariant("budgets")
def test_a_zone_that_returns_is_filled_again(cluster: ControlPlane, tmp_path: Path) -> None:
    """Six evictions, the minimum; no refusal, no foreign verb, no budget broken; reported by events and metrics."""
    install(cluster, "base", "evict")
    lay_out_shop(cluster)
    lost = lose_nodes(cluster, "c-0", "c-1")
    wait_settled(cluster)
    with Controller(cluster, tmp_path, policy("Evict")) as controller:
        controller.wait_for("cycle", count=2)
        with sampled_budget(cluster.api) as samples:
            return_nodes(cluster, lost)
            wait_until(lambda: balanced(cluster.api), what="balance", timeout=90)
            wait_settled(cluster)
            cycles = len(controller.log("cycle"))
            controller.wait_for("cycle", count=cycles + 4)
        assert balanced(cluster.api)
        assert len(samples) > 50
        assert all(healthy >= desired for healthy, desired in samples)
        evictions = cluster.audit.evictions(user=USER)
        assert [eviction.code for eviction in evictions] == [201] * MINIMUM
        assert all((eviction.body or {})["deleteOptions"]["preconditions"]["uid"] for eviction in evictions)
        assert not [request for request in cluster.audit.requests(user=USER) if request.code in {403, 429}]
        check_events(cluster.api, {eviction.name for eviction in evictions})
        check_metrics(controller.metrics())
        assert controller.stop() == 0


def check_events(api: Api, evicted: set[str]) -> None:
    """Events of every eviction and its verification are on the pod and on its workload."""

    def list_reasons() -> set[tuple[str, str]]:
        events = api.list("/apis/events.k8s.io/v1/namespaces/shop/events")
        ours = [event for event in events if event["reportingController"] == "rebalancer.dev/rebalancer"]
        assert all(event["action"] and event["note"] and event["reportingInstance"] for event in ours)
        assert all(event["regarding"]["uid"] for event in ours), "kubectl describe finds events by UID"
        return {(event["reason"], f"{event['regarding']['kind']}/{event['regarding']['name']}") for event in ours}

    wanted = {(reason, f"Pod/{name}") for name in evicted for reason in ("Evicted", "MoveVerified")}
    wanted |= {
        (reason, workload)
        for reason in ("SkewViolated", "Evicted", "MoveVerified", "SkewRecovered")
        for workload in ("Deployment/web", "StatefulSet/db")
    }
    wait_until(lambda: wanted <= list_reasons(), what="the events")


def check_metrics(metrics: dict[str, float]) -> None:
    """Hold the metrics against the audit log."""
    for kind, name in (("Deployment", "web"), ("StatefulSet", "db")):
        for key in (ZONE, HOSTNAME):
            labels = (
                f'namespace="shop",topology_key="{key}",when_unsatisfiable="DoNotSchedule",'
                f'workload="{name}",workload_kind="{kind}"'
            )
            assert metrics[f"rebalancer_constraint_skew{{{labels}}}"] == 0
    assert metrics['rebalancer_evictions_total{result="evicted"}'] == MINIMUM
    assert metrics['rebalancer_evictions_total{result="budget"}'] == 0
    assert metrics['rebalancer_moves_total{outcome="verified"}'] == MINIMUM
    assert metrics["rebalancer_planned_evictions"] == metrics["rebalancer_minimum_evictions"] == 0
    assert metrics["rebalancer_in_flight"] == 0
    assert metrics["rebalancer_leader"] == 1
    assert metrics['rebalancer_mode{mode="Evict"}'] == 1
    granted = 'rebalancer_api_requests_total{code="201",resource="pods/eviction",verb="create"}'
    assert metrics[granted] == MINIMUM
