"""The history on a real control plane: across a kill -9 in the middle of a repair, with who has done what."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.cluster.controller import NAMESPACE, USER, Controller, install, policy, rebalancer
from tests.cluster.test_approval import read_plan
from tests.cluster.test_observing import skewed
from tests.cluster.test_repair import balanced
from tests.control_plane.api import wait_until
from tests.control_plane.plane import ControlPlane

MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
CONTROL = f"{MAPS}/rebalancer-control"
MINIMUM = 6


def history(cluster: ControlPlane) -> list[dict[str, Any]]:
    """Return the entries as the command exports them."""
    access = ("--kubeconfig", str(cluster.kubeconfig()), "--controller-namespace", NAMESPACE)
    result = rebalancer("history", "-o", "jsonl", *access)
    assert result.returncode == 0, result.stderr.decode()
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_move_is_in_the_history_once(cluster: ControlPlane, tmp_path: Path) -> None:
    """A controller is killed while a move is in flight; the next one goes on, and people pause and resume."""
    install(cluster, "base", "evict")
    skewed(cluster)
    access = ("--kubeconfig", str(cluster.kubeconfig()), "--namespace", NAMESPACE)
    evicting = policy("Evict", budgets={"perCycle": 1, "maxUnavailable": 1, "perWorkload": 1})
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    with Controller(cluster, first, evicting) as controller:
        wait_until(lambda: len(cluster.audit.evictions(user=USER)) >= 2, what="two evictions", timeout=90)
        assert controller.process is not None
        controller.process.kill()
        controller.process.wait()
    assert not balanced(cluster.api)
    with Controller(cluster, second, evicting) as controller:
        wait_until(lambda: balanced(cluster.api), what="balance", timeout=180, interval=1.0)
        wait_until(
            lambda: Counter(entry["kind"] for entry in history(cluster))["Moved"] == MINIMUM,
            what="all moves in the history",
            timeout=90,
            interval=2.0,
        )
        assert rebalancer("pause", "--reason", "an upgrade", *access).returncode == 0
        controller.wait_for("paused")
        assert rebalancer("resume", *access).returncode == 0
        controller.wait_for("resumed")
        cluster.api.patch(CONTROL, {"data": {"pause.yaml": "reason: by hand"}})
        controller.wait_for("paused", count=2)
        cluster.api.patch(CONTROL, {"data": {"pause.yaml": None}})
        controller.wait_for("resumed", count=2)
        controller.policy_file.write_text(policy("Observe"))
        wait_until(lambda: controller.log("cycle")[-1]["mode"] == "Observe", what="the policy in force", timeout=30)
        assert controller.stop() == 0
        assert controller.log("history not stored") == []

    entries = history(cluster)
    assert len({entry["seq"] for entry in entries}) == len(entries)
    assert [entry["at"] for entry in entries] == sorted(entry["at"] for entry in entries)
    moves = [entry for entry in entries if entry["kind"] == "Moved"]
    assert Counter(entry["pod"] for entry in moves) == Counter(
        request.name for request in cluster.audit.evictions(user=USER) if request.code == 201
    )
    assert {entry["outcome"] for entry in moves} == {"verified"}
    assert all(entry["to"] and entry["node"] and entry["replacementNode"] and entry["cause"] for entry in moves)
    kinds = Counter(entry["kind"] for entry in entries)
    assert kinds["Leads"] == 2
    assert kinds["Violated"] == kinds["Satisfied"] > 0
    people = [
        (entry["kind"], entry["who"], entry["declared"]) for entry in entries if entry["kind"] in {"Paused", "Resumed"}
    ]
    assert [kind for kind, _, _ in people] == ["Paused", "Resumed", "Paused", "Resumed"]
    me = people[0][1]
    assert people[:2] == [("Paused", me, True), ("Resumed", me, True)]
    (by_hand,) = [entry for entry in entries if entry["what"] == "by hand"]
    assert by_hand["manager"]
    # Kubernetes notes who has written a key, and nothing of one that is gone.
    named = [(who, declared) for _, who, declared in people[2:]]
    assert named == [(by_hand["manager"], False), ("unknown", False)]
    assert kinds["PolicyChanged"] == 2, "the first one, and Observe at the end"
    trend = json.loads(
        rebalancer(
            *("history", "--trend", "-o", "json", "--kubeconfig", str(cluster.kubeconfig())),
            *("--controller-namespace", NAMESPACE),
        ).stdout
    )
    assert trend["samples"][0]["violated"] == 2
    assert trend["samples"][-1]["violated"] == 0


def test_without_the_config_maps_the_repair_goes_on(cluster: ControlPlane, tmp_path: Path) -> None:
    """One warning names the object and what to do; once it is there, nothing is lost."""
    install(cluster, "base", "evict")
    cluster.api.delete(f"{MAPS}/rebalancer-history-3")
    skewed(cluster)
    with Controller(cluster, tmp_path, policy("Evict")) as controller:
        wait_until(lambda: balanced(cluster.api), what="balance", timeout=180, interval=1.0)
        (warning,) = controller.wait_for("history not stored")
        assert f"kubectl create configmap rebalancer-history-3 --namespace {NAMESPACE}" in warning["error"]
        created = {"name": "rebalancer-history-3", "namespace": NAMESPACE}
        cluster.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": created})
        assert controller.stop() == 0
    assert Counter(entry["kind"] for entry in history(cluster))["Moved"] == MINIMUM


def test_who_has_approved(cluster: ControlPlane, tmp_path: Path) -> None:
    """As the API server knows the user who ran the command."""
    install(cluster, "base", "evict")
    skewed(cluster)
    access = ("--kubeconfig", str(cluster.kubeconfig()), "--namespace", NAMESPACE)
    with Controller(cluster, tmp_path, policy("Approve")) as controller:
        plan = wait_until(lambda: read_plan(cluster).get("planHash"), what="the plan")
        result = rebalancer("approve", str(plan), "--yes", *access)
        assert result.returncode == 0, result.stderr.decode()
        wait_until(lambda: cluster.audit.evictions(user=USER), what="an eviction", timeout=60)
        assert controller.stop() == 0
    (approved,) = [entry for entry in history(cluster) if entry["kind"] == "Approved"]
    assert (approved["what"], approved["declared"]) == (plan, True)
    assert approved["who"] not in {"", "unknown"}
