"""Repairs by preemption on the real kube-scheduler: as the policy says, with exactly the predicted pods."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.controller import USER, Controller, install, policy, rebalancer
from tests.control_plane.api import wait_until
from tests.control_plane.layout import deployment, lay_out, node, nodes, pdb, spread
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest

HIGH: Final[Manifest] = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}


def rules(preemption: str) -> str:
    return policy(
        "Evict",
        budgets={"maxUnavailable": 1, "perWorkload": "100%", "slowStart": False},
        eligibility={"minAge": "0s", "preemption": preemption},
        groups=[],
    )


def crowd(plane: ControlPlane, *others: Manifest) -> None:
    """Lay out three pods of web in zone a, one in b, and c full of a pod of batch; node d has room for another one."""
    install(plane, "base", "evict")
    web = deployment(
        "web",
        ["a-0", "a-0", "a-0", "b-0"],
        namespace="shop",
        cpu="300m",
        priorityClassName="high",
        topologySpreadConstraints=[spread(labels={"app": "web"})],
    )
    batch = deployment("batch", ["c-0", "d-0"], namespace="shop", cpu="900m")
    machines = [*nodes({"a": 1, "b": 1, "c": 1}, cpu="1"), node("d-0", cpu="1800m")]
    lay_out(plane, [*machines, HIGH, web, batch, *others])


def pods_of(plane: ControlPlane, app: str) -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = plane.api.list("/api/v1/namespaces/shop/pods", labels=f"app={app}")
    return pods


def ready_on(plane: ControlPlane, app: str) -> Counter[str]:
    """Count the Ready pods of an app by node."""
    return Counter(
        pod["spec"]["nodeName"]
        for pod in pods_of(plane, app)
        if any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))
        and "deletionTimestamp" not in pod["metadata"]
    )


def planned(plane: ControlPlane, folder: Path, preemption: str) -> dict[str, Any]:
    """Return the Plan document of the command line."""
    file = folder / "plan-policy.yaml"
    file.write_text(rules(preemption))
    done = rebalancer("plan", f"--policy={file}", f"--kubeconfig={plane.kubeconfig()}", "-o", "json")
    assert done.stdout, done.stderr.decode()
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def evictions(plane: ControlPlane) -> list[str]:
    return [f"{request.name} {request.code}" for request in plane.audit.evictions(user=USER)]


@pytest.mark.invariant("preemption")
def test_the_repair_preempts_the_pods_that_the_plan_names(cluster: ControlPlane, tmp_path: Path) -> None:
    """By default nothing goes and the field is named; with Allow one pod is evicted, one preempted, and all run."""
    crowd(cluster)
    victim = next(pod["metadata"]["name"] for pod in pods_of(cluster, "batch") if pod["spec"]["nodeName"] == "c-0")
    refused = planned(cluster, tmp_path, "Refuse")
    assert refused["evictions"] == []
    (why,) = [row["message"] for row in refused["refusals"]]
    assert f"kube-scheduler would preempt shop/{victim} on c-0" in why
    assert "eligibility.preemption refuses that: Allow would permit it" in why
    with Controller(cluster, tmp_path, rules("Refuse")) as controller:
        controller.wait_for("cycle", count=3)
    assert evictions(cluster) == []

    (eviction,) = planned(cluster, tmp_path, "Allow")["evictions"]
    assert eviction["preempts"] == [{"node": "c-0", "pods": [f"shop/{victim}"]}]
    with Controller(cluster, tmp_path, rules("Allow")) as controller:
        wait_until(
            lambda: (
                ready_on(cluster, "web") == {"a-0": 2, "b-0": 1, "c-0": 1} and ready_on(cluster, "batch") == {"d-0": 2}
            ),
            what="the repair",
            timeout=90,
        )
        controller.wait_for("cycle", count=len(controller.log("cycle")) + 2)
        notes = [line["note"] for line in controller.log("reported") if line["reason"] == "Evicted"]
    assert len(evictions(cluster)) == 1, evictions(cluster)
    assert any(f"kube-scheduler preempts shop/{victim} on c-0 for its replacement" in note for note in notes), notes
    assert victim not in {pod["metadata"]["name"] for pod in pods_of(cluster, "batch")}
    assert len(pods_of(cluster, "web")) + len(pods_of(cluster, "batch")) == 6


@pytest.mark.invariant("preemption")
def test_a_budget_that_would_break_keeps_all_pods(cluster: ControlPlane, tmp_path: Path) -> None:
    """kube-scheduler would break it: so nothing is evicted, and the budget is named."""
    crowd(cluster, pdb("batch", {"app": "batch"}, namespace="shop", max_unavailable=0))
    document = planned(cluster, tmp_path, "Allow")
    assert document["evictions"] == []
    (why,) = [row["message"] for row in document["refusals"]]
    assert "nothing is evicted for it: PodDisruptionBudget shop/batch allows no such disruption" in why
    with Controller(cluster, tmp_path, rules("Allow")) as controller:
        controller.wait_for("cycle", count=3)
    assert evictions(cluster) == []
