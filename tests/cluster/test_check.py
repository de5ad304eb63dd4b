"""`rebalancer check` on twelve broken installations: each is named, and the way out that it prints is tried."""

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.cli.errors import Exit
from rebalancer.model.words import EVICT_RIGHT
from tests.cluster.controller import NAMESPACE, Controller, install, policy, rebalancer
from tests.cluster.test_observing import skewed
from tests.control_plane.api import wait_until
from tests.control_plane.plane import ControlPlane

ROOT = Path(__file__).resolve().parents[2]
POLICY = f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-policy"
RBAC = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "d"}},
    "spec": {"containers": [{"name": "d", "image": "registry.example/descheduler/descheduler:v0.33.0"}]},
}


class Checked:
    """Runs the command against one control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._access = ("--kubeconfig", str(plane.kubeconfig()), "--controller-namespace", NAMESPACE)

    def run(self, *flags: str) -> tuple[int, dict[str, dict[str, Any]]]:
        """Return the exit code and the rows by their names."""
        done = rebalancer("check", "-o", "json", *self._access, *flags)
        rows = json.loads(done.stdout)["checks"]
        assert done.returncode == (Exit.SOMETHING if any(row["outcome"] == "wrong" for row in rows) else Exit.FINE)
        return done.returncode, {row["name"]: row for row in rows}

    def expect(self, name: str, said: str, *flags: str, outcome: str = "wrong") -> str:
        """Check that a row says what is wrong, alone; return its way out."""
        _, rows = self.run(*flags)
        row = rows[name]
        assert (row["outcome"], said in row["message"]) == (outcome, True), row
        assert row["remedy"]
        others = {other for other, one in rows.items() if one["outcome"] == "wrong"}
        assert others <= {name}, rows
        return str(row["remedy"])

    def expect_fine(self) -> None:
        """Wait until nothing is wrong any more: the controller reads its policy, and asks for rights, in seconds."""
        wait_until(lambda: self.run()[0] == Exit.FINE, what="nothing to be wrong", timeout=60)

    def carry_out(self, remedy: str) -> None:
        """Run the kubectl command that a way out ends with."""
        words = shlex.split(remedy[remedy.index("kubectl") :])
        words[:1] = [str(self._plane.programs["kubectl"]), "--kubeconfig", str(self._plane.kubeconfig())]
        subprocess.run(words, check=True, capture_output=True, timeout=30)


def create(plane: ControlPlane, kind: str, version: str, name: str, spec: dict[str, Any]) -> Callable[[], object]:
    """Create an object in the namespace `other`."""
    metadata = {"name": name, "namespace": "other"}
    manifest = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    return lambda: plane.api.apply([manifest])


@pytest.mark.thorough
def test_each_broken_installation_is_named_and_its_way_out_helps(cluster: ControlPlane, tmp_path: Path) -> None:
    """From before the first start to a controller that has ended; between two nothing is wrong."""
    checked = Checked(cluster)
    good = policy("Approve")
    install(cluster, "base", "evict")
    cluster.api.patch(POLICY, {"data": {"policy.yaml": good}})
    skewed(cluster)
    assert "apply deploy/" in checked.expect("controller", "none has run")
    flag = f"--policy=configmap:{NAMESPACE}/rebalancer-policy"
    with Controller(cluster, tmp_path, good, flag) as controller:
        controller.wait_for("cycle", count=2)
        checked.expect_fine()
        check_namespace(checked)
        check_rights(cluster, checked)
        check_policy(cluster, checked, tmp_path, good)
        check_others(cluster, checked)
        check_budget(cluster, checked)
    assert f"kubectl get pods -n {NAMESPACE}" in checked.expect("controller", "no controller runs")


def check_namespace(checked: Checked) -> None:
    """Ask in a namespace without a controller: the right one is named, and no account is asked about."""
    wrong = "--controller-namespace=other"
    assert "--controller-namespace" in checked.expect("controller", f"rebalancer-status is in {NAMESPACE}", wrong)
    _, rows = checked.run(wrong)
    assert rows["rights"]["outcome"] == "unknown"


def check_rights(cluster: ControlPlane, checked: Checked) -> None:
    """Take the rights to evict and to list away; the files that are named, and nothing else, give them back."""
    reading = ("deploy/base/cluster-role.yaml", "deploy/base/workloads.yaml")
    for name, files, said in (
        ("rebalancer-evict", (EVICT_RIGHT,), "evict in shop"),
        ("rebalancer", reading, "list and watch pods, nodes"),
        ("rebalancer-workloads", reading, "list and watch poddisruptionbudgets.policy"),
    ):
        cluster.api.delete(f"{RBAC}/{name}")
        remedy = checked.expect("rights", said)
        assert all(file in remedy for file in files)
        cluster.api.apply(one for file in files for one in yaml.safe_load_all((ROOT / file).read_text()))
        checked.expect_fine()


def check_policy(cluster: ControlPlane, checked: Checked, folder: Path, good: str) -> None:
    """Give it an invalid policy, a configuration that is not there, a guard without an answer, namespaces left out."""
    cluster.api.patch(POLICY, {"data": {"policy.yaml": "mode: Evict\n"}})
    kept = "the last valid one is in force"  # once the controller has read what is written
    wait_until(lambda: kept in checked.run()[1]["policy"]["message"], what="the refusal", timeout=30)
    assert "policy validate" in checked.expect("policy", kept)
    cluster.api.patch(POLICY, {"data": {"policy.yaml": good}})
    checked.expect_fine()
    file = folder / "other.yaml"
    file.write_text(policy("Approve", scheduler={"name": "mine", "configFile": "scheduler.yaml"}))
    assert "beside policy.yaml" in checked.expect("scheduler.configFile", "No such file", "--policy", str(file))
    queries = [{"name": "errors", "query": "up == 0", "expect": "Empty", "present": "up"}]
    file.write_text(policy("Approve", guards={"prometheus": {"url": "http://127.0.0.1:1"}, "queries": queries}))
    remedy = checked.expect("guards", "guard errors", "--policy", str(file), outcome="unknown")
    assert "in the controller's pod" in remedy
    file.write_text(policy("Approve", eligibility={"namespaces": {"exclude": ["shop"]}, "minAge": "0s"}))
    remedy = checked.expect("workloads", "are in shop", "--policy", str(file), outcome="note")
    assert "eligibility.namespaces" in remedy
    assert "rules.yaml" in checked.expect("monitoring", "not served", outcome="note")


def check_others(cluster: ControlPlane, checked: Checked) -> None:
    """Add a descheduler as Deployment and as CronJob, and a second controller's Lease."""
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    job = {"spec": {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}}
    deployment = {"replicas": 1, "selector": {"matchLabels": {"app": "d"}}, "template": TEMPLATE}
    for made, said in (
        (create(cluster, "Deployment", "apps/v1", "d", deployment), "Deployment other/d"),
        (
            create(cluster, "CronJob", "batch/v1", "d", {"schedule": "0 0 1 1 *", "jobTemplate": job}),
            "CronJob other/d",
        ),
    ):
        made()
        checked.carry_out(checked.expect("others who evict", said))
        checked.expect_fine()
    create(cluster, "Lease", "coordination.k8s.io/v1", "rebalancer", {"holderIdentity": "another"})()
    remedy = checked.expect("others who evict", "Lease other/rebalancer")
    assert "pause --controller-namespace other" in remedy
    cluster.api.delete("/apis/coordination.k8s.io/v1/namespaces/other/leases/rebalancer")
    checked.expect_fine()


def check_budget(cluster: ControlPlane, checked: Checked) -> None:
    """Add a budget that allows nothing, whatever is Ready."""
    metadata = {"name": "none", "namespace": "shop"}
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
    cluster.api.apply([budget])
    path = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets/none"
    wait_until(lambda: cluster.api.get(path).get("status", {}).get("expectedPods"), what="the budget to be computed")
    assert "Allow at least one" in checked.expect("budgets", "shop/none")
    cluster.api.patch(path, {"spec": {"maxUnavailable": 1}})
    checked.expect_fine()
