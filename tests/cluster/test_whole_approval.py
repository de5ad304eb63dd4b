"""The approval of a whole plan on a real control plane: nine evictions over three workloads, and none more."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controller import NAMESPACE, USER, Controller, install, policy, rebalancer
from tests.cluster.test_approval import APPROVAL, read_plan, reasons
from tests.cluster.test_history import history
from tests.control_plane.api import wait_until
from tests.control_plane.layout import deployment, lay_out, nodes, spread
from tests.control_plane.plane import ControlPlane
from tests.control_plane.workloads import Workload

STATUS = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status"
NEEDED = {"web": 4, "api": 3, "cart": 2}
ZONE = "topology.kubernetes.io/zone"

APPROVING = policy("Approve", budgets={"maxUnavailable": 1, "perWorkload": 1, "perMinute": 60, "slowStart": False})


def lopsided(name: str, needed: int) -> Workload:
    """Return a workload that lacks so many pods in zone c."""
    on = {"a-0": needed, "a-1": needed, "b-0": needed // 2, "b-1": needed - needed // 2}
    constraint = spread(ZONE, labels={"app": name})
    return deployment(name, on, namespace="shop", topologySpreadConstraints=[constraint])


def lay_out_three(cluster: ControlPlane) -> None:
    install(cluster, "base", "evict")
    lay_out(cluster, [*nodes({"a": 2, "b": 2, "c": 2}), *(lopsided(name, needed) for name, needed in NEEDED.items())])


def status(cluster: ControlPlane) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(cluster.api.get(STATUS).get("data", {}).get("status.json", "{}"))
    return document


def evicted(cluster: ControlPlane) -> Counter[str]:
    """Return how many pods of each workload were evicted."""
    requests = cluster.audit.evictions(user=USER)
    return Counter(request.name.split("-")[0] for request in requests if request.code == 201)


def wait_proposed(cluster: ControlPlane) -> dict[str, Any]:
    """Return the first plan in which every workload is to be repaired."""

    def whole() -> dict[str, Any] | None:
        approval = status(cluster).get("approval") or {}
        ready = sum(repair["evictions"] for repair in approval.get("repairs", ())) == sum(NEEDED.values())
        return approval if ready and read_plan(cluster).get("planHash") == approval["hash"] else None

    proposed = wait_until(whole, what="the proposal", timeout=90)
    assert proposed is not None
    return proposed


def approve(cluster: ControlPlane, plan: str, evictions: int) -> None:
    """Write the approval as docs/operations.md has it."""
    until = datetime.now(UTC) + timedelta(hours=1)
    text = f"plan: {plan}\nevictions: {evictions}\nuntil: {until:%Y-%m-%dT%H:%M:%SZ}\nby: ada\n"
    cluster.api.patch(APPROVAL, {"data": {"approval.yaml": text}})


@pytest.mark.invariant("approval")
def test_a_whole_repair_is_approved_once(cluster: ControlPlane, tmp_path: Path) -> None:
    """Nine evictions by one command, across a kill of the leader; a violation that appears meanwhile is not touched."""
    lay_out_three(cluster)
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    access = ("--kubeconfig", str(cluster.kubeconfig()), "--namespace", NAMESPACE)
    with Controller(cluster, first, APPROVING) as controller:
        proposed = wait_proposed(cluster)
        assert cluster.audit.evictions() == []
        result = rebalancer("approve", "--yes", "--for", "1h", *access)
        assert result.returncode == 0, result.stderr.decode()
        assert "up to 9 evictions until" in result.stdout.decode()
        wait_until(lambda: evicted(cluster).total() >= 3, what="three evictions", timeout=60)
        assert controller.process is not None
        controller.process.kill()
        controller.process.wait()
    lay_out(cluster, [lopsided("late", 1)], settle=False)
    with Controller(cluster, second, APPROVING) as controller:
        wait_until(lambda: evicted(cluster) == NEEDED, what="nine evictions", timeout=120)
        wait_until(lambda: status(cluster).get("standing") is None, what="its end", timeout=60)
        controller.wait_for("cycle", count=len(controller.log("cycle")) + 4)
        assert evicted(cluster) == NEEDED
        asked = wait_until(lambda: status(cluster).get("approval"), what="the next proposal", timeout=60)
        assert asked is not None
        assert {one["pod"].split("-")[0] for one in asked["evictions"]} == {"late"}
        assert {"PlanApproved", "ApprovalEnded"} <= set(reasons(cluster))
        assert controller.stop() == 0
    moves = [entry for entry in history(cluster) if entry["kind"] == "Moved"]
    assert {entry["approval"] for entry in moves} == {proposed["hash"]}


def test_it_is_withdrawn_in_the_middle(cluster: ControlPlane, tmp_path: Path) -> None:
    """Without the key at most the request under way is carried out, and the same file approves nothing again."""
    lay_out_three(cluster)
    with Controller(cluster, tmp_path, APPROVING) as controller:
        proposed = wait_proposed(cluster)
        approve(cluster, proposed["hash"], 9)
        wait_until(lambda: evicted(cluster).total() >= 2, what="two evictions", timeout=60)
        written = cluster.api.get(APPROVAL)["data"]["approval.yaml"]
        cluster.api.patch(APPROVAL, {"data": {"approval.yaml": None}})
        before = evicted(cluster).total()
        wait_until(lambda: status(cluster).get("standing") is None, what="its end", timeout=60)
        cluster.api.patch(APPROVAL, {"data": {"approval.yaml": written}})
        controller.wait_for("cycle", count=len(controller.log("cycle")) + 5)
        assert before <= evicted(cluster).total() <= before + 1 < sum(NEEDED.values())
        assert (status(cluster).get("standing"), status(cluster)["approvalProblem"]) == (None, "")
        cluster.api.patch(APPROVAL, {"data": {"approval.yaml": "plan: ["}})
        wait_until(lambda: status(cluster)["approvalProblem"], what="what is wrong", timeout=60)
        wait_until(lambda: "ApprovalInvalid" in reasons(cluster), what="the event", timeout=30)
        assert controller.log("approval has no effect")
        assert controller.stop() == 0
