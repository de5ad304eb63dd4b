"""Foreign owners in a simulation: with a template as a ReplicaSet, with a definition of each pod as it was."""

import json
from pathlib import Path
from typing import Any

import pytest

from rebalancer.cli import main as entry
from tests.control_plane.resources import Manifest
from tests.known_states.build import CROWDED, clone_set, cluster, make, pod_set, replica_set

POLICY = """apiVersion: rebalancer.dev/v1alpha1
kind: RebalancePolicy
mode: Evict
groups: []
spread: {for: 0s}
nodes: {settle: 0s}
budgets: {maxUnavailable: "100%", perWorkload: "100%"}
eligibility:
  minAge: 0s
  owners: [ReplicaSet, CloneSet.apps.kruise.io, StrimziPodSet.core.strimzi.io]
"""


def rollout() -> list[Manifest]:
    """Return a Rollout with a template of its own, whose pods a ReplicaSet makes."""
    top = make(
        "argoproj.io/v1alpha1", "Rollout", "web", spec={"replicas": 4, "selector": {"matchLabels": {"app": "web"}}}
    )
    below = replica_set("web-5f6d", CROWDED, top)
    top["spec"]["template"] = below[0]["spec"]["template"]
    return [top, *below]


@pytest.mark.parametrize("parts", [clone_set(), pod_set(), rollout()], ids=["template", "pods", "above a ReplicaSet"])
def test_a_repair_is_simulated_to_its_end(
    parts: list[Manifest], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One pod is evicted and comes back in the empty zone; nothing else is created."""
    file, policy = tmp_path / "state.json", tmp_path / "policy.yaml"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster(parts).items}))
    policy.write_text(POLICY)
    assert entry.main(["simulate", "--snapshot", str(file), "--policy", str(policy), "-o", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    (constraint,) = document["report"]["constraints"]
    assert constraint["counts"] == {"a": 2, "b": 1, "c": 1}
    assert document["evictions"] == 1
