"""Bad input and trouble: a clear message, the right exit code, and nothing evicted."""

import json
import signal
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from rebalancer.documents.memory import parse_memory
from tests.cluster.controller import (
    NAMESPACE,
    USER,
    Controller,
    install,
    policy,
    rebalancer,
)
from tests.cluster.test_observing import skewed
from tests.cluster.test_repair import balanced
from tests.control_plane.accounts import grant
from tests.control_plane.api import wait_until
from tests.control_plane.plane import ControlPlane


def test_no_permission(cluster: ControlPlane, tmp_path: Path) -> None:
    """An account without a permission gets a message that names it."""
    account = f"{NAMESPACE}/nobody"
    access = ("--kubeconfig", str(cluster.kubeconfig(account)))
    pause = ("pause", "--reason", "a test")
    run = ("run", "--metrics-address=127.0.0.1:0", "--page-address=127.0.0.1:0")
    for verb in (run, ("plan",), ("report",), pause, ("resume",)):
        result = rebalancer(*verb, *access)
        message = result.stderr.decode()
        assert result.returncode == 1, message
        assert "forbidden" in message
        assert "Traceback" not in message
    assert cluster.audit.evictions() == []


def test_a_right_that_is_missing_to_look(cluster: ControlPlane) -> None:
    """Who may not list disruption budgets is warned that they are unknown, and still gets a report."""
    account = f"{NAMESPACE}/half"
    grant(cluster.api, account, [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list"]}])
    result = rebalancer("report", "--kubeconfig", str(cluster.kubeconfig(account)))
    assert result.returncode == 0
    assert "PodDisruptionBudget" in result.stderr.decode()


@pytest.mark.invariant("invalid-policy")
def test_the_policy_is_reloaded(cluster: ControlPlane, tmp_path: Path) -> None:
    """A changed file takes effect without a restart; an invalid one leaves the last good in force, and says so."""
    install(cluster, "base", "evict")
    skewed(cluster)
    with Controller(cluster, tmp_path, policy("Observe")) as controller:
        controller.wait_for("cycle", count=2)
        controller.policy_file.write_text("mode: Evict\nmode: Evict\n")
        wait_until(
            lambda: controller.metrics()["rebalancer_policy_last_reload_successful"] == 0,
            what="the metric of the refusal",
        )
        wait_until(lambda: "PolicyInvalid" in reasons(cluster), what="the event of the refusal")
        count = len(controller.log("cycle"))
        controller.wait_for("cycle", count=count + 2)
        assert controller.log("cycle")[-1]["mode"] == "Observe"
        assert cluster.audit.evictions() == []
        controller.policy_file.write_text(policy("Evict"))
        wait_until(lambda: balanced(cluster.api), what="balance under the new policy", timeout=90)
        assert controller.metrics()["rebalancer_policy_last_reload_successful"] == 1
        assert "PolicyReloaded" in reasons(cluster)


def reasons(plane: ControlPlane) -> set[str]:
    events = plane.api.list(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")
    return {event["reason"] for event in events}


def test_the_policy_from_a_config_map(cluster: ControlPlane, tmp_path: Path) -> None:
    """`--policy configmap:NAMESPACE/NAME` is watched: what is written there takes effect."""
    install(cluster, "base", "evict")
    skewed(cluster)
    name = {"name": "rebalancer-policy", "namespace": NAMESPACE}
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-policy"

    def write(text: str) -> None:
        cluster.api.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": {"policy.yaml": text}}])

    write(policy("Observe"))
    flag = f"--policy=configmap:{NAMESPACE}/rebalancer-policy"
    with Controller(cluster, tmp_path, "", flag) as controller:
        controller.wait_for("cycle", count=2)
        assert cluster.audit.evictions() == []
        write(policy("Evict"))
        wait_until(lambda: balanced(cluster.api), what="balance", timeout=90)
        cluster.api.delete(path)
        wait_until(lambda: "PolicyInvalid" in reasons(cluster), what="the event that it is gone")


@pytest.mark.invariant("pause")
def test_the_kill_switch(cluster: ControlPlane, tmp_path: Path) -> None:
    """Paused in the middle of a repair, it evicts nothing from a second later on, and says so; resumed, it goes on."""
    install(cluster, "base", "evict")
    skewed(cluster)
    access = ("--kubeconfig", str(cluster.kubeconfig()), "--namespace", NAMESPACE)
    slow = policy("Evict", budgets={"perMinute": 3})  # else a fast server ends the repair before the pause
    with Controller(cluster, tmp_path, slow) as controller:
        controller.wait_for("eviction")
        paused = rebalancer("pause", "--reason", "zone b is upgraded", *access)
        assert paused.returncode == 0, paused.stderr
        assert b" until somebody resumes" in paused.stdout
        patched = cluster.audit.requests(verb="patch", resource="configmaps")
        (written,) = (record for record in patched if record.user != USER and record.agent.startswith("rebalancer/"))
        seen = datetime.fromisoformat(controller.wait_for("paused")[0]["timestamp"])
        assert seen - written.answered < timedelta(seconds=1)
        count = len(controller.log("cycle"))
        controller.wait_for("cycle", count=count + 4)
        sent = [eviction.received for eviction in cluster.audit.evictions(user=USER)]
        assert 1 <= len(sent) < 6
        assert max(sent) < written.answered + timedelta(seconds=1)
        assert controller.log("cycle")[-1]["now"] == 0
        assert controller.metrics()["rebalancer_paused"] == 1
        assert controller.metrics()['rebalancer_refusals{reason="Paused"}'] >= 1
        wait_until(lambda: "RebalancePaused" in reasons(cluster), what="the event")
        status = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status")["data"]["status.json"]
        assert json.loads(status)["paused"]["reason"] == "zone b is upgraded"
        controller.policy_file.write_text(policy("Evict"))
        resumed = rebalancer("resume", *access)
        assert resumed.returncode == 0, resumed.stderr
        assert b"zone b is upgraded" in resumed.stdout
        wait_until(lambda: balanced(cluster.api), what="balance", timeout=90)
        assert controller.metrics()["rebalancer_paused"] == 0
    assert [eviction.code for eviction in cluster.audit.evictions(user=USER)] == [201] * 6


def test_the_kill_switch_is_written_where_it_is_read_and_nowhere_else(cluster: ControlPlane) -> None:
    """By an account with the ClusterRole rebalancer-pause in the controller's namespace, and by an administrator."""
    install(cluster, "base")
    cluster.api.apply(
        [
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "pausing", "namespace": NAMESPACE},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "rebalancer-pause",
                },
                "subjects": [{"kind": "ServiceAccount", "name": "oncall", "namespace": "default"}],
            }
        ]
    )
    maps = "/api/v1/namespaces/default/configmaps/rebalancer-control"
    admin, oncall = (("--kubeconfig", str(cluster.kubeconfig(user))) for user in ("admin", "default/oncall"))
    for verb in ("pause", "resume"):
        missed = rebalancer(verb, "-n", "default", *admin)
        assert missed.returncode == 1
        assert f"rebalancer {verb} --kubeconfig {admin[1]} --controller-namespace {NAMESPACE}" in missed.stderr.decode()
        refused = rebalancer(verb, "-n", "default", *oncall)
        assert refused.returncode == 1
        assert b"the ClusterRole rebalancer-pause has the right" in refused.stderr
        assert cluster.api.find(maps) is None
        done = rebalancer(verb, "--controller-namespace", NAMESPACE, *oncall)
        assert done.returncode == 0, done.stderr
    viewer = "default/viewer"
    lists = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["rebalancer-control"], "verbs": ["list"]}
    grant(cluster.api, viewer, [lists])
    listed = rebalancer("pause", "-n", "default", "--kubeconfig", str(cluster.kubeconfig(viewer)))
    assert f"is in namespace {NAMESPACE}: rebalancer pause" in listed.stderr.decode()


def test_a_status_that_is_deleted_holds_back_everything_until_it_exists_again(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """The controller has no right to create it; the log has the command that helps, and after it the repair goes on."""
    install(cluster, "base", "evict")
    skewed(cluster)
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status"
    cluster.api.delete(path)
    with Controller(cluster, tmp_path, policy("Evict")) as controller:
        controller.wait_for("cycle", count=4)
        helps = f"kubectl create configmap rebalancer-status --namespace {NAMESPACE}"
        assert controller.log("cycle")[-1]["unsaved"].endswith(helps)
        assert cluster.audit.evictions() == []
        assert controller.metrics()["rebalancer_memory_saved"] == 0
        metadata = {"name": "rebalancer-status", "namespace": NAMESPACE}
        cluster.api.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}])
        wait_until(lambda: balanced(cluster.api), what="balance", timeout=90)
        assert controller.metrics()["rebalancer_memory_saved"] == 1
    assert [eviction.code for eviction in cluster.audit.evictions(user=USER)] == [201] * 6


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_within_seconds(cluster: ControlPlane, tmp_path: Path, sign: signal.Signals) -> None:
    """SIGTERM and Ctrl-C end it with 0 within seconds, in the middle of a repair too, and nothing is evicted after."""
    install(cluster, "base", "evict")
    skewed(cluster)
    with Controller(cluster, tmp_path, policy("Evict")) as controller:
        controller.wait_for("eviction")
        assert controller.process is not None
        began = time.monotonic()
        controller.process.send_signal(sign)
        assert controller.wait(10) == 0
        assert time.monotonic() - began < 8
    count = len(cluster.audit.evictions(user=USER))
    time.sleep(1)
    assert len(cluster.audit.evictions(user=USER)) == count
    saved = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status")["data"]["memory.json"]
    assert len(parse_memory(saved).moves) == count


def test_a_restart_repeats_nothing(cluster: ControlPlane, tmp_path: Path) -> None:
    """Killed after its first eviction and started again: together they evict the minimum.

    A request that was under way counts as carried out until its pod has stayed unchanged for two minutes.
    """
    install(cluster, "base", "evict")
    skewed(cluster)
    before = staying(cluster)
    with Controller(cluster, tmp_path, policy("Evict")) as controller:
        controller.wait_for("eviction")
        assert controller.process is not None
        controller.process.kill()
        controller.process.wait(10)
    with Controller(
        cluster, tmp_path, policy("Evict"), "--lease-duration=5s", "--renew-deadline=4s", "--retry-period=1s"
    ):
        wait_until(lambda: balanced(cluster.api), what="balance", timeout=300)
    # A request that was under way when the process was killed may show as broken off, carried out or not: the server
    # logs it with 504 or, where it was in the middle of a write, with 500.
    assert len(before - staying(cluster)) == 6
    assert {eviction.code for eviction in cluster.audit.evictions(user=USER)} <= {201, 500, 504}


def staying(plane: ControlPlane) -> set[str]:
    """Name the pods by UID. A terminating pod is left out, as in `balanced`."""
    pods = [pod["metadata"] for pod in plane.api.list("/api/v1/namespaces/shop/pods")]
    return {pod["uid"] for pod in pods if "deletionTimestamp" not in pod}


@pytest.mark.invariant("one-leader")
def test_two_controllers_act_as_one(cluster: ControlPlane, tmp_path: Path) -> None:
    """Of two processes one leads; together they evict the minimum."""
    install(cluster, "base", "evict")
    skewed(cluster)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    with (
        Controller(cluster, folders[0], policy("Evict")) as one,
        Controller(cluster, folders[1], policy("Evict")) as two,
    ):
        wait_until(lambda: balanced(cluster.api), what="balance", timeout=120)
        assert sum(bool(controller.log("leading")) for controller in (one, two)) == 1
        assert one.get("/readyz").status == two.get("/readyz").status == 200
    assert [eviction.code for eviction in cluster.audit.evictions(user=USER)] == [201] * 6


def test_once(cluster: ControlPlane, tmp_path: Path) -> None:
    """`run --once` repairs what can be repaired, then exits with 0."""
    install(cluster, "base", "evict")
    skewed(cluster)
    with Controller(cluster, tmp_path, policy("Evict", spread={"for": "10m"}), "--once") as controller:
        assert controller.wait(90) == 0
    assert balanced(cluster.api)
    assert [eviction.code for eviction in cluster.audit.evictions(user=USER)] == [201] * 6


def test_once_beside_a_leader(cluster: ControlPlane, tmp_path: Path) -> None:
    """`run --once` does not wait for ever where another process leads: it says who does, and exits with 1."""
    install(cluster, "base", "evict")
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    with Controller(cluster, folders[0], policy("Observe")) as one:
        one.wait_for("leading")
        quick = ("--once", "--lease-duration=3s", "--renew-deadline=2s", "--retry-period=1s")
        with Controller(cluster, folders[1], policy("Observe"), *quick) as two:
            assert two.wait(30) == 1
            message = two.log_file.read_text().splitlines()[-1]
            assert "holds the Lease" in message
            assert one.log("leading")[0]["identity"] in message
