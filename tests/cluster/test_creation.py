"""What comes back is not what went: nothing is evicted whose replacement would not be created, all else is.

Mixed at random, nobody has said what is right. There the servers are asked: what was evicted has to come back, and what
was refused is deleted by hand, and must not.
"""

import json
import random
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.controller import USER, Controller, install, policy, rebalancer
from tests.cluster.traps import TRAPS, Trap, cluster_nodes, lay
from tests.control_plane.api import Api, in_parallel, wait_until
from tests.control_plane.configuration import EXEMPT
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
PATIENCE: Final = 15.0
"""Seconds that a replacement may take that is made at all."""
REPAIRED: Final = ["a", "a", "b", "c"]
RULES: Final = policy("Evict", budgets=ALL_AT_ONCE, groups=[])


def prepare(plane: ControlPlane, traps: Mapping[str, Sequence[Trap]]) -> None:
    """Lay out a namespace for each name, with the workload of its first trap, and change it as all of them do."""
    install(plane, "base", "evict")
    parts = [part for space, several in traps.items() for part in lay(space, several[0])]
    plane.api.apply(part for part in parts if isinstance(part, dict) and part["kind"] == "Namespace")
    time.sleep(1.1)  # the time of an object is in whole seconds: a pod of the same second proves nothing
    lay_out(plane, [*cluster_nodes(), *parts], timeout=180)
    for space, several in traps.items():
        # A resize is admitted as a new pod is: what would refuse it comes after it.
        for trap in sorted(several, key=lambda trap: trap.family != "resized"):
            trap.change(plane.api, space)


def evicted_in(plane: ControlPlane) -> list[str]:
    """Return the namespaces of the granted evictions."""
    return sorted(request.namespace for request in plane.audit.evictions(user=USER) if request.code == 201)


def read_refusals(plane: ControlPlane, folder: Path) -> list[dict[str, Any]]:
    """Return what `rebalancer plan` refuses."""
    rules = folder / "plan.yaml"
    rules.write_text(RULES)
    done = rebalancer("plan", "-o", "json", f"--policy={rules}", env={"KUBECONFIG": str(plane.kubeconfig())})
    assert done.returncode == 0, done.stderr.decode()
    listed: list[dict[str, Any]] = json.loads(done.stdout)["refusals"]
    return listed


def refusals(plane: ControlPlane, folder: Path) -> dict[str, str]:
    """Return by namespace why nothing is evicted."""
    found: defaultdict[str, str] = defaultdict(str)
    for refusal in read_refusals(plane, folder):
        found[refusal["namespace"]] += f"{refusal['reason']}: {refusal['message']}; "
    return found


def pods_refused(plane: ControlPlane, folder: Path) -> dict[str, dict[str, str]]:
    """Return by namespace the pods whose replacements would not be made, and why `rebalancer plan` says so."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for refusal in read_refusals(plane, folder):
        if refusal["reason"] in CANNOT and refusal["pod"]:
            found[refusal["namespace"]][refusal["pod"]] = refusal["message"]
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


ANYWHERE: Final = [trap for trap in TRAPS if trap.name != EXEMPT]
MIXED: Final = [trap for trap in TRAPS if trap.mixes]
SHOWN: Final = next(trap for trap in TRAPS if trap.name == "selector-shown")
"""Without it nobody could say whether the API server heeds the annotation of namespaces."""
HARMLESS: Final = 0.75
CANNOT: Final = ("CannotCreate", "NotPredictable")
"""Reasons of a pod that would not come back. What is rolled out, or owns others, would, and is refused all the same."""


def draw(seed: int, number: int) -> dict[str, tuple[Trap, ...]]:
    """Draw so many namespaces, each with a workload of one kind and up to two more changes, most of them harmless."""
    dice = random.Random(f"creation {seed}")
    drawn: dict[str, tuple[Trap, ...]] = {SHOWN.name: (SHOWN,)}
    for index in range(number):
        several: list[Trap] = []
        for traps in (ANYWHERE, *[MIXED] * dice.randrange(3)):
            harmless = dice.random() < HARMLESS
            families = {one.family for one in several}
            several.append(
                dice.choice([one for one in traps if bool(one.named) != harmless and one.family not in families])
            )
        drawn[f"drawn-{index}"] = tuple(several)
    return drawn


def delete_by_hand(api: Api, space: str, pod: str) -> str:
    """Delete a pod; return the name of the one that is made and bound in its place, "" where none is."""
    before = {one["metadata"]["uid"] for one in api.list(f"/api/v1/namespaces/{space}/pods")}
    api.delete(f"/api/v1/namespaces/{space}/pods/{pod}")
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for one in living(api, space):
            if one["metadata"]["uid"] not in before and one["spec"].get("nodeName"):
                return str(one["metadata"]["name"])
        time.sleep(0.5)
    return ""


def check_drawn(plane: ControlPlane, folder: Path, drawn: Mapping[str, Sequence[Trap]]) -> None:
    prepare(plane, drawn)
    with Controller(plane, folder, RULES) as controller:
        # A cycle that evicts nothing after one in which everything had arrived.
        wait_until(lambda: _rests(plane, controller), what="the end of the repairs", timeout=180, interval=2)
        refused = pods_refused(plane, folder)
    lost = [space for space in evicted_in(plane) if not is_whole(plane.api, space)]
    assert not lost, {space: [trap.name for trap in drawn[space]] for space in lost}
    picked = {space: next(iter(sorted(pods))) for space, pods in refused.items()}
    made = dict(zip(picked, in_parallel(lambda one: delete_by_hand(plane.api, *one), picked.items()), strict=True))
    wrong = {space: ([trap.name for trap in drawn[space]], refused[space]) for space, name in made.items() if name}
    print(
        f"{len(drawn)} namespaces: {len(evicted_in(plane))} evictions, all came back; in {len(refused)} pods were "
        f"refused, one of each was deleted by hand: {len(wrong)} came back"
    )
    assert not wrong
    assert evicted_in(plane)
    assert refused


def _rests(plane: ControlPlane, controller: Controller) -> bool:
    cycles, evictions = len(controller.log("cycle")), len(evicted_in(plane))
    whole = all(is_whole(plane.api, space) for space in evicted_in(plane))
    controller.wait_for("cycle", count=cycles + 3)
    return whole and evictions == len(evicted_in(plane)) > 0


def test_drawn_mixtures(cluster: ControlPlane, tmp_path: Path) -> None:
    """Twelve namespaces. The thorough test has sixty."""
    check_drawn(cluster, tmp_path, draw(1, 12))


@pytest.mark.thorough
def test_sixty_drawn_mixtures(cluster: ControlPlane, tmp_path: Path) -> None:
    """Sixty namespaces."""
    check_drawn(cluster, tmp_path, draw(2, 60))
