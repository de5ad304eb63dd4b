"""What comes back is not what went: nothing is evicted whose replacement would not be created, all else is."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.cluster.controller import USER, Controller, install, policy, rebalancer
from tests.cluster.traps import TRAPS, Trap, cluster_nodes, lay
from tests.control_plane.api import Api, wait_until
from tests.control_plane.layout import lay_out
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest

ALL_AT_ONCE: Final = {
    "perNode": 100,
    "perNamespace": 100,
    "perMinute": 1000,
    "perCycle": 100,
    "maxUnavailable": 2,  # a pod of some is unready already
    "slowStart": False,
}
REPAIRED: Final = ["a", "a", "b", "c"]
RULES: Final = policy("Evict", budgets=ALL_AT_ONCE, groups=[])


def prepare(plane: ControlPlane, traps: Mapping[str, Sequence[Trap]]) -> None:
    """Lay out a namespace for each name, with the workload of its first trap, and change it as all of them do."""
    install(plane, "base", "evict")
    parts = [part for space, several in traps.items() for part in lay(space, several[0])]
    lay_out(plane, [*cluster_nodes(), *parts], timeout=180)
    for space, several in traps.items():
        for trap in several:
            trap.change(plane.api, space)


def evicted_in(plane: ControlPlane) -> list[str]:
    """Return the namespaces of the granted evictions."""
    return sorted(request.namespace for request in plane.audit.evictions(user=USER) if request.code == 201)


def refusals(plane: ControlPlane, folder: Path) -> dict[str, str]:
    """Return by namespace why `rebalancer plan` evicts nothing."""
    rules = folder / "plan.yaml"
    rules.write_text(RULES)
    done = rebalancer("plan", "-o", "json", f"--policy={rules}", env={"KUBECONFIG": str(plane.kubeconfig())})
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, str] = {}
    for refusal in json.loads(done.stdout)["refusals"]:
        found[refusal["namespace"]] = (
            f"{found.get(refusal['namespace'], '')}{refusal['reason']}: {refusal['message']}; "
        )
    return found


def living(api: Api, space: str) -> list[Manifest]:
    pods = api.list(f"/api/v1/namespaces/{space}/pods", labels="app=web")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def is_whole(api: Api, space: str) -> bool:
    """Return whether all pods of a workload are there, and bound."""
    pods = living(api, space)
    return len(pods) == 4 and all(pod["spec"].get("nodeName") for pod in pods)


def zones(pods: Sequence[Manifest]) -> list[str]:
    return sorted(pod["spec"]["nodeName"][0] for pod in pods)


def test_each_namespace_is_repaired_or_refused_as_its_change_requires(cluster: ControlPlane, tmp_path: Path) -> None:
    """By the audit log: one eviction where it repairs, none where its replacement would not come."""
    prepare(cluster, {trap.name: (trap,) for trap in TRAPS})
    right = sorted(trap.name for trap in TRAPS if not trap.named)
    with Controller(cluster, tmp_path, RULES) as controller:
        wait_until(lambda: evicted_in(cluster) == right, what=f"evictions in {right}", timeout=90)
        wait_until(lambda: all(is_whole(cluster.api, space) for space in right), what="the replacements", timeout=60)
        controller.wait_for("cycle", count=len(controller.log("cycle")) + 3)
        said = refusals(cluster, tmp_path)
    assert evicted_in(cluster) == right
    unrepaired = {space: found for space in right if (found := zones(living(cluster.api, space))) != REPAIRED}
    assert not unrepaired
    for trap in TRAPS:
        assert trap.named in said.get(trap.name, ""), f"{trap.name}: {said.get(trap.name)}"
    revisions = {pod["metadata"]["labels"]["controller-revision-hash"] for pod in living(cluster.api, "partitioned")}
    assert len(revisions) == 1, "the replacement has the revision of the pods below the partition"
