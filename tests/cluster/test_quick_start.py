"""The quick start on a real control plane: its commands, beside a controller that repairs what they made.

No container engine is needed: the nodes are those of kind's configuration, KWOK runs the pods, and the controller is a
process with the account, the rights and the policy that the page installs.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.controller import NAMESPACE, ROOT, Controller
from tests.cluster.test_pages import as_a_reader, run
from tests.cluster.test_repair import counts
from tests.control_plane.api import wait_until
from tests.control_plane.layout import lay_out, node
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.deploy.rendering import require_programs
from tests.pages import CONTROLLER, PAGES_BY_HAND, QUICK_START, Place, check, checkout, commands

INSTALLS = "kubectl apply -k docs/examples/kind"


@pytest.fixture(scope="module", autouse=True)
def _programs() -> None:
    require_programs("helm", "kubectl")


def kind_nodes() -> list[Manifest]:
    """Return the nodes of the page's configuration for kind."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "docs/examples/kind/cluster.yaml").read_text(encoding="utf-8"))
    workers = [entry for entry in config["nodes"] if entry["role"] == "worker"]
    assert len(workers) == 3
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    return [
        node("kind-control-plane", taints=[taint]),
        *(node(f"kind-worker-{number}", labels=entry["labels"]) for number, entry in enumerate(workers)),
    ]


@pytest.mark.caught("the page showed what is not printed any more")
def test_the_quick_start_ends_with_a_repaired_workload(cluster: ControlPlane, tmp_path: Path) -> None:
    """Every command ends well and prints what the page shows, and so do those of other pages that need a controller."""
    lay_out(cluster, kind_nodes())
    variables = as_a_reader(cluster, tmp_path)
    top = tmp_path / "checkout"
    top.mkdir()
    checkout(top)
    todo = [
        command for command in commands(QUICK_START) if command.place is Place.CLUSTER or command.needs == CONTROLLER
    ]
    *before, installs = todo[: [command.text for command in todo].index(INSTALLS) + 1]
    for command in (*before, installs):
        done = run(command.text, top, variables)
        assert done.returncode == 0, f"{command.text}\n{done.stdout}\n{done.stderr}"
        check(command, done.stdout)

    installed = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-policy")["data"]["policy.yaml"]
    with Controller(cluster, tmp_path, installed) as controller:
        workers = [f"kind-worker-{number}" for number in range(3)]
        wait_until(lambda: counts(cluster.api, "web") == dict.fromkeys(workers, 2), what="the repair", timeout=90)
        ended = len(controller.log("cycle"))
        controller.wait_for("cycle", count=ended + 2)
        port = controller.wait_for("listening")[0]["port"]
        others = [command for name in PAGES_BY_HAND if name != QUICK_START for command in commands(name)]
        shown = [command for command in others if command.needs == CONTROLLER]
        assert len(shown) >= 4
        for command in (*todo[len(before) + 1 :], *shown):
            done = run(command.text.replace(":8080", f":{port}"), top, variables)
            assert done.returncode == 0, f"{command.text}\n{done.stdout}\n{done.stderr}"
            check(command, done.stdout)
