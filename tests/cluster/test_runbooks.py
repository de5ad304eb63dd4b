"""Every kubectl and rebalancer command of the runbooks works on an installation, and a second time.

What their readers fill in is filled in with a workload of this cluster. Only requests to a kubelet are left out: KWOK
has none.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cluster.controller import NAMESPACE
from tests.cluster.test_install import serve
from tests.cluster.test_pages import as_a_reader, run
from tests.control_plane.layout import deployment, lay_out, nodes
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.deploy.rendering import require_programs
from tests.pages import RUNBOOKS, checkout, runbook_commands

OF_A_KUBELET = (" logs ", " exec ", "/proxy/")
KARPENTER = {"karpenter.sh/v1": ("nodepools", "nodeclaims")}
INSTALLATION = ("kubectl apply -k deploy/evict", "kubectl apply -k deploy/capacity", "kubectl apply -k deploy/surge")
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "rebalancer", "namespace": NAMESPACE},
}


@pytest.fixture(scope="module", autouse=True)
def _programs() -> None:
    require_programs("kubectl")


@pytest.fixture
def installed(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """Serve the kinds of Karpenter, and lay out a workload."""
    with serve(cluster, KARPENTER):
        lay_out(cluster, [*nodes({"a": 2, "b": 2}), deployment("web", {"a-0": 2, "b-0": 1}, namespace="shop")])
        yield cluster


def fill_in(command: str, values: Mapping[str, str]) -> str:
    """Replace the names in capitals."""
    for placeholder, value in values.items():
        command = command.replace(placeholder, value)
    return command


@pytest.mark.caught("commands that failed when they were pasted, or repeated")
def test_the_commands_of_the_runbooks_work_twice(installed: ControlPlane, tmp_path: Path) -> None:
    """From the first to the last, with the rights of a cluster administrator; then all again."""
    variables = as_a_reader(installed, tmp_path)
    top = tmp_path / "checkout"
    top.mkdir()
    checkout(top)
    for command in INSTALLATION:
        done = run(command, top, variables)
        assert done.returncode == 0, done.stderr
    installed.api.create_all([LEASE])
    pod, *_ = installed.api.list("/api/v1/namespaces/shop/pods")
    (owner,) = pod["metadata"]["ownerReferences"]
    values = {
        "replicaset NAME": f"replicaset {owner['name']}",
        "deployment/NAME": "deployment/web",
        "pod NAME": f"pod {pod['metadata']['name']}",
        "pod/NAME": f"pod/{pod['metadata']['name']}",
        "WORKLOAD": "web",
        "NAMESPACE": "shop",
        "TOPOLOGY_KEY": ZONE,
        "PLANHASH": "0" * 16,
        "NUMBER": "3",
    }
    every = list(dict.fromkeys(command for page in RUNBOOKS for command in runbook_commands(page)))
    todo = [command for command in every if not any(word in command for word in OF_A_KUBELET)]
    assert len(todo) >= 40
    for number, command in enumerate([*todo, *todo]):
        done = run(fill_in(command, values), top, variables)
        nothing_matches = " | grep " in command and (done.returncode, done.stderr) == (1, "")
        time = "the second time" if number >= len(todo) else "the first time"
        assert done.returncode == 0 or nothing_matches, f"{time}: {command}\n{done.stdout}\n{done.stderr}"
