"""`rebalancer apply` on a real control plane: exactly the saved plan, as long as it is what would be planned now."""

import json
import signal
import subprocess
from pathlib import Path

from tests.cluster.controller import ACCOUNT, COMMAND, ROOT, USER, Controller, environment, install, policy, rebalancer
from tests.cluster.test_observing import skewed
from tests.cluster.test_repair import balanced
from tests.control_plane.api import wait_until
from tests.control_plane.plane import ControlPlane

CONTROL = "/api/v1/namespaces/rebalancer-system/configmaps/rebalancer-control"


def save_plan(cluster: ControlPlane, folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Save a plan with a policy that only observes; return its file, and the flags of the cluster."""
    file, rules = folder / "plan.json", folder / "policy.yaml"
    rules.write_text(policy("Observe"))
    flags = (f"--kubeconfig={cluster.kubeconfig(ACCOUNT)}", f"--policy={rules}")
    done = rebalancer("plan", *flags, f"--out={file}")
    assert done.returncode == 0, done.stderr.decode()
    return file, flags


def test_a_saved_plan_is_carried_out_and_nothing_more(cluster: ControlPlane, tmp_path: Path) -> None:
    """Its pods are evicted, whatever the policy's mode; the rest of the repair needs another plan."""
    install(cluster, "base", "evict")
    skewed(cluster)
    file, flags = save_plan(cluster, tmp_path)
    plan = json.loads(file.read_text())
    planned = {entry["pod"] for entry in plan["evictions"]}
    done = rebalancer("apply", str(file), *flags)
    output = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode() + output
    evictions = cluster.audit.evictions(user=USER)
    assert {eviction.name for eviction in evictions} == planned
    assert [eviction.code for eviction in evictions] == [201] * len(planned)
    assert sorted(output.splitlines()) == sorted(
        [
            f"Plan {plan['planHash']}: {len(planned)} evictions.",
            *(f"{row['namespace']}/{row['pod']}: evicted from {row['node']}" for row in plan["evictions"]),
            *(f"{row['namespace']}/{row['pod']}: replaced where predicted" for row in plan["evictions"]),
            f"{len(planned)} of {len(planned)} pods evicted, {len(planned)} replaced where predicted.",
        ]
    ), "every line, to the letter"
    assert not balanced(cluster.api)

    again = rebalancer("apply", str(file), *flags)
    assert again.returncode == 1
    assert "is out of date: pods or disruption budgets in shop, or nodes, have changed" in again.stderr.decode()
    assert len(cluster.audit.evictions(user=USER)) == len(planned)


def test_beside_a_controller_and_with_another_policy_nothing_is_carried_out(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Both are said at once, with what to do."""
    install(cluster, "base", "evict")
    skewed(cluster)
    file, flags = save_plan(cluster, tmp_path)
    (tmp_path / "other.yaml").write_text(policy("Observe", interval="7s"))
    other = rebalancer("apply", str(file), flags[0], f"--policy={tmp_path / 'other.yaml'}")
    assert other.returncode == 1
    assert "pass the plan's own with --policy" in other.stderr.decode()
    folder = tmp_path / "controller"
    folder.mkdir()
    with Controller(cluster, folder, policy("Observe")) as controller:
        controller.wait_for("cycle", count=1)
        beside = rebalancer("apply", str(file), *flags)
        assert beside.returncode == 1
        assert "holds the Lease rebalancer-system/rebalancer: a controller runs" in beside.stderr.decode()
    assert cluster.audit.evictions() == []


def test_a_pause_holds_it_and_ctrl_c_ends_it(cluster: ControlPlane, tmp_path: Path) -> None:
    """While somebody pauses, it waits and says so; interrupted, it says how far it came and gives the Lease back."""
    install(cluster, "base", "evict")
    skewed(cluster)
    file, flags = save_plan(cluster, tmp_path)
    cluster.api.patch(CONTROL, {"data": {"pause.yaml": "reason: an incident\n"}})
    command = [*COMMAND, "apply", str(file), *flags]
    with subprocess.Popen(
        command, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().decode() for _ in range(2)]
        assert "an incident" in lines[1], lines
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors.decode()
    assert "0 of 2 pods evicted" in output.decode()
    assert "Traceback" not in errors.decode()
    assert cluster.audit.evictions(user=USER) == []
    cluster.api.patch(CONTROL, {"data": {"pause.yaml": None}})
    lease = "/apis/coordination.k8s.io/v1/namespaces/rebalancer-system/leases/rebalancer"
    wait_until(lambda: not cluster.api.get(lease)["spec"].get("holderIdentity"), what="the Lease to be given back")
