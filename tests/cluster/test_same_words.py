"""For an unchanged cluster the commands say what the controller says: one policy, one memory, one leader."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.controller import NAMESPACE, Controller, install, policy, rebalancer
from tests.cluster.test_namespaces import STATUS
from tests.cluster.test_slow_start import lay_out_many, skewed
from tests.cluster.test_team_policies import HOLDING, grant, write
from tests.control_plane.api import wait_until
from tests.control_plane.plane import ControlPlane
from tests.control_plane.stages import NO_IMAGE_ON

EVICTING: Final = policy("Evict", interval="2s", teamPolicies={"namespaces": ["shop"]})
TIMED: Final = frozenset({"generatedAt", "expiresAt", "acting", "policySource", "resilience"})
"""What the time alone changes in a plan, and what the command adds: what the controller does, by which policy."""


def mount(plane: ControlPlane, text: str) -> None:
    """Write the policy where deploy/ mounts it from; the controller of a test reads a file with the same text."""
    metadata = {"name": "rebalancer-policy", "namespace": NAMESPACE}
    plane.api.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"policy.yaml": text}}])


def ask(plane: ControlPlane, *words: str) -> str:
    """Return what a command prints to a person who has what rebalancer-view gives; it warns of nothing."""
    done = rebalancer(*words, "--kubeconfig", str(plane.kubeconfig()), env={"COLUMNS": "300"})
    assert (done.returncode, done.stderr.decode()) == (0, "")
    return done.stdout.decode()


def read(plane: ControlPlane, key: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(plane.api.get(STATUS)["data"][key])
    return document


def untimed(plan: dict[str, Any]) -> dict[str, Any]:
    """Return a plan without times, how long ago something was, and what only the command adds."""
    rest = {name: value for name, value in plan.items() if name not in TIMED}
    rest["totals"] = {name: value for name, value in plan["totals"].items() if name != "nextAt"}
    return rest


@pytest.fixture
def moving(cluster: ControlPlane, tmp_path: Path) -> Any:
    """Lay out a team that holds its pods back, a move that never ends for want of an image, and a repair that ends."""
    install(cluster, "base", "evict")
    stuck = skewed("stuck", "store", number=0, **{NO_IMAGE_ON: "c"})
    lay_out_many(cluster, [stuck, skewed("web", "shop", number=2), skewed("api", "store", number=4)])
    grant(cluster)
    write(cluster, HOLDING)
    mount(cluster, EVICTING)
    return cluster


@pytest.mark.caught("the status had the hash of the merged policy")
def test_plan_report_explain_status_and_the_controller_say_the_same(moving: ControlPlane, tmp_path: Path) -> None:
    """With a team policy, a move in flight, and then a pause."""
    with Controller(moving, tmp_path, EVICTING) as controller:
        controller.wait_for("cycle", count=2)
        wait_until(
            lambda: [
                row for row in read(moving, "status.json")["inFlight"] if "stuck" in row["pod"] and row["overdue"]
            ],
            what="the move that does not end",
            timeout=90,
        )
        wait_until(lambda: "api" in str(read(moving, "status.json")["lastMoves"]), what="the other repair", timeout=60)
        check_same(moving, controller, "mode Evict: the controller evicts")
        paused = rebalancer(
            *("pause", "--reason", "zone b is upgraded", "-n", NAMESPACE, "--kubeconfig", str(moving.kubeconfig()))
        )
        assert paused.returncode == 0, paused.stderr
        wait_until(lambda: read(moving, "status.json")["paused"], what="the pause in the status")
        check_same(moving, controller, "zone b is upgraded: the controller will not evict")
        assert controller.stop() == 0
    for words in (("status", "-n", NAMESPACE), ("plan",), ("report",)):
        assert "no controller runs: Lease free since " in ask(moving, *words).splitlines()[0]


def check_same(plane: ControlPlane, controller: Controller, acting: str) -> None:
    """Compare the plan, the reasons and the first lines; the controller's are of a cycle right before or after."""
    leader = controller.log("leading")[0]["identity"]

    def agree() -> bool:
        own, status = read(plane, "plan.json"), read(plane, "status.json")
        plan = json.loads(ask(plane, "plan", "-o", "json"))
        return (
            untimed(plan) == untimed(own)
            and plan["policyHash"] == own["policyHash"]
            and (plan["totals"]["evictions"], plan["totals"]["lowerBound"])
            == (status["plan"]["evictions"], status["plan"]["minimum"])
        )

    wait_until(agree, what="the same plan twice", timeout=30)
    for words in (("status", "-n", NAMESPACE), ("plan",), ("report",)):
        first = ask(plane, *words).splitlines()[0]
        assert f"{leader} leads since " in first
        assert acting in first
    report = json.loads(ask(plane, "report", "-o", "json"))
    groups = {
        (group["namespace"], workload["name"]): (group["state"], group["reason"])
        for group in read(plane, "plan.json")["groups"]
        for workload in group["workloads"]
    }
    rows = {(row["namespace"], row["workloads"][0]["name"]): row for row in report["constraints"]}
    assert {name: (rows[name]["state"], rows[name]["reason"]) for name in groups} == groups
    waits = {(wait["namespace"], wait["workloads"][0]["name"]): wait for wait in read(plane, "status.json")["waits"]}
    explained = ask(plane, "explain", "deployment/web", "-n", "shop")
    assert waits["shop", "web"]["reason"] in explained
    assert ", the controller's)" in explained
