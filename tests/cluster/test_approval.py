"""Mode Approve on a real control plane, with the rights of deploy/: nothing before, exactly the approved pods after."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controller import NAMESPACE, USER, Controller, install, policy
from tests.cluster.test_observing import skewed
from tests.cluster.test_repair import balanced
from tests.control_plane.api import wait_until
from tests.control_plane.plane import ControlPlane

STATUS = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status"
APPROVAL = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-approval"


def read_plan(cluster: ControlPlane) -> dict[str, Any]:
    """Read the plan in the status, {} before the first."""
    plan: dict[str, Any] = json.loads(cluster.api.get(STATUS).get("data", {}).get("plan.json", "{}"))
    return plan


def reasons(cluster: ControlPlane) -> list[str]:
    events = cluster.api.list(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")
    return [event["reason"] for event in events if event["regarding"]["name"] == "rebalancer-approval"]


@pytest.mark.invariant("approval")
def test_exactly_what_a_person_approves_is_evicted(cluster: ControlPlane, tmp_path: Path) -> None:
    """The proposal stays the same until it is approved; its pods are evicted; the rest needs another approval."""
    install(cluster, "base", "evict")
    skewed(cluster)
    with Controller(cluster, tmp_path, policy("Approve")) as controller:
        controller.wait_for("cycle", count=2)
        plan = wait_until(lambda: read_plan(cluster) or None, what="the plan")
        controller.wait_for("cycle", count=len(controller.log("cycle")) + 3)
        assert plan is not None
        assert len(plan["evictions"]) == 2, "one of each workload"
        assert read_plan(cluster)["planHash"] == plan["planHash"]
        assert cluster.audit.evictions() == []
        metrics = controller.metrics()
        assert metrics["rebalancer_plan_pending"] == 2
        assert metrics['rebalancer_mode{mode="Approve"}'] == 1
        assert metrics['rebalancer_refusals{reason="AwaitingApproval"}'] == 2
        assert reasons(cluster) == ["PlanProposed"]

        cluster.api.patch(APPROVAL, {"data": {"approved": plan["planHash"]}})
        wait_until(lambda: len(cluster.audit.evictions(user=USER)) == 2, what="the evictions")
        second = wait_until(
            lambda: read_plan(cluster) if read_plan(cluster)["planHash"] != plan["planHash"] else None,
            what="the next proposal",
            timeout=60,
        )
        assert second is not None
        controller.wait_for("cycle", count=len(controller.log("cycle")) + 3)
        evictions = cluster.audit.evictions(user=USER)
        assert {eviction.name for eviction in evictions} == {entry["pod"] for entry in plan["evictions"]}
        assert [eviction.code for eviction in evictions] == [201, 201]
        assert "PlanApproved" in reasons(cluster)
        assert not balanced(cluster.api)
        assert not [request for request in cluster.audit.requests(user=USER) if request.code == 403]

        def approve() -> bool:
            cluster.api.patch(APPROVAL, {"data": {"approved": read_plan(cluster)["planHash"]}})
            return balanced(cluster.api)

        wait_until(approve, what="balance", timeout=120, interval=1.0)
        assert controller.stop() == 0
    assert len(cluster.audit.evictions(user=USER)) == 6
