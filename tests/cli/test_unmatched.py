"""`report`, `plan` and `explain` say on standard error what the policy names and the cluster lacks."""

import json
from pathlib import Path
from typing import Any

import pytest

from rebalancer.cli.main import main

SNAPSHOT = str(Path(__file__).parents[2] / "docs" / "examples" / "zone-returned.json")
LIMIT = {"name": "rack", "topologyKey": "topology.kubernetes.io/zon", "maxPods": 1}


def written(path: Path, *groups: dict[str, Any]) -> str:
    """Write a policy to a file."""
    header = {"apiVersion": "rebalancer.dev/v1alpha1", "kind": "RebalancePolicy"}
    (path / "policy.json").write_text(json.dumps({**header, "groups": groups}))
    return str(path / "policy.json")


def warnings(capsys: pytest.CaptureFixture[str], *argv: str) -> list[str]:
    """Return the warnings other than that about kinds that the file lacks."""
    assert main([*argv, "--snapshot", SNAPSHOT]) == 0
    lines = capsys.readouterr().err.splitlines()
    return [line for line in lines if "add them to the kubectl command" not in line]


@pytest.mark.parametrize("verb", [["report"], ["plan"], ["explain", "deployment/cart"]], ids=lambda verb: verb[0])
def test_it_is_reported_and_changes_nothing_else(
    verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line each, beside the output; the shipped policy has none."""
    policy = written(
        tmp_path,
        {"name": "g", "selector": {"matchLabels": {"ap": "cart"}}},
        {"name": "h", "selector": {}, "limits": [LIMIT]},
    )
    zon, zone = "topology.kubernetes.io/zon", "topology.kubernetes.io/zone"
    assert warnings(capsys, *verb, "--policy", policy) == [
        "warning: group g: selector ap=cart selects no pod: none has the label ap; did you mean app?",
        f"warning: group h, limit rack: topologyKey {zon} is a label of none of 6 nodes; did you mean {zone}?",
    ]
    assert warnings(capsys, *verb) == []


def test_a_misspelt_key_is_a_finding_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As it is of a constraint's key: `--fail-on finding` sees it."""
    policy = written(tmp_path, {"name": "h", "selector": {}, "limits": [LIMIT]})
    argv = ["report", "--snapshot", SNAPSHOT, "-o", "json", "--fail-on", "finding", "--policy"]
    assert main([*argv, policy]) == 3
    findings = json.loads(capsys.readouterr().out)["findings"]
    missing = [finding for finding in findings if finding["kind"] == "TopologyKeyMissing"]
    assert [finding["object"] for finding in missing] == ["node label topology.kubernetes.io/zon"]
    assert "group h, limit rack" in missing[0]["message"]


def test_of_many_some_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fifty, and how many more there are."""
    groups = [{"name": f"g{at}", "selector": {"matchLabels": {"ap": "cart"}}} for at in range(60)]
    reported = warnings(capsys, "report", "--policy", written(tmp_path, *groups))
    assert len(reported) == 51
    assert reported[-1] == "warning: the policy references 10 more objects that do not exist"
