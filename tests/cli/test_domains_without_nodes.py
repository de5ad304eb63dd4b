"""`report`, `plan` and `explain` on a file with NodePools: what they say of a zone that has come back without nodes."""

import json
from pathlib import Path
from typing import Any

import pytest

from rebalancer.adapters.files.snapshots import KUBECTL_COMMAND, read_snapshot
from rebalancer.assessment.assess import assess
from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit
from rebalancer.documents.report import ReportedFinding
from rebalancer.model.cluster import NEWEST
from rebalancer.model.moves import NO_MEMORY
from rebalancer.policy import default_policy
from rebalancer.scheduling.view import View
from tests.cli.files import write_policy
from tests.reports import all_findings

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "zone-returned.json"
ZONE = "topology.kubernetes.io/zone"
GENERAL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "general"},
    "spec": {"template": {"spec": {"requirements": [{"key": ZONE, "operator": "In", "values": ["a", "b", "c"]}]}}},
}
GPU = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "gpu"},
    "spec": {
        "template": {
            "spec": {
                "requirements": [{"key": ZONE, "operator": "In", "values": ["d"]}],
                "taints": [{"key": "gpu", "effect": "NoSchedule"}],
            }
        }
    },
}
WEB = (
    "DomainWithoutNodes: shop/web (Deployment): topology.kubernetes.io/zone c has no node (NodePool general): with a "
    "node there the skew would be 6, maxSkew is 1; the loss of one domain takes 6 of 12 pods (50%). Add a node in c, "
    "or list it in topology.ignore of the policy"
)
IN_PLAN = (
    "DomainWithoutNodes: zone c has no node (NodePool general): with a node there, the pods of shop/cart (Deployment), "
    "shop/search (Deployment), shop/web (Deployment), shop/db (StatefulSet) would violate maxSkew"
)


def cluster(folder: Path, *pools: Any) -> Path:
    """Write the example without the nodes of zone c."""
    document = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    items = [item for item in document["items"] if item["metadata"].get("labels", {}).get(ZONE) != "c"]
    file = folder / "cluster.json"
    file.write_text(json.dumps({**document, "items": [*items, *pools]}), encoding="utf-8")
    return file


def output_of(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert entry.main(list(command)) == Exit.FINE
    return capsys.readouterr().out


def test_report_plan_and_explain_say_it_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The scheduler does not count zone c: the constraint is satisfied. The tainted pool is not for these pods."""
    file = str(cluster(tmp_path, GENERAL, GPU))
    report = output_of(capsys, "report", "--snapshot", file).splitlines()
    assert "shop       web (Deployment)     zone  1        0     hard    Satisfied  a:6 b:6" in report
    assert WEB in report
    assert len([line for line in report if line.startswith("DomainWithoutNodes: ")]) == 4
    plan = output_of(capsys, "plan", "--snapshot", file).splitlines()
    assert plan[1] == "Nothing to repair."
    assert [line for line in plan if "DomainWithoutNodes" in line] == [IN_PLAN]
    narrow = output_of(capsys, "plan", "--snapshot", file, "-l", "app=web")
    assert "the pods of shop/web (Deployment) would violate maxSkew" in narrow
    explained = output_of(capsys, "explain", "deployment/web", "--snapshot", file)
    assert f"Which {ZONE} has no node?\n  c (NodePool general)\n" in explained
    pod = next(line for line in output_of(capsys, "plan", "--snapshot", str(EXAMPLE)).split() if "web-" in line)
    assert "c (NodePool general)" in output_of(capsys, "explain", f"pod/{pod.rstrip(',')}", "--snapshot", file)


def test_without_node_pools_nothing_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file has no memory; and with nodes in every zone nothing is missing."""
    for file in (str(cluster(tmp_path)), str(EXAMPLE)):
        for command in ("report", "plan"):
            assert "DomainWithoutNodes" not in output_of(capsys, command, "--snapshot", file)


def test_a_policy_may_declare_or_ignore_the_zone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(cluster(tmp_path, GENERAL))
    policy = write_policy(tmp_path, f"topology: {{domains: {{{ZONE}: [a, b, c]}}}}\n")
    assert "c has no node (declared in topology.domains)" in output_of(
        capsys, "report", "--snapshot", file, "--policy", policy
    )
    write_policy(tmp_path, f"topology: {{ignore: {{{ZONE}: [c]}}}}\n")
    assert "DomainWithoutNodes" not in output_of(capsys, "report", "--snapshot", file, "--policy", policy)


def test_a_file_gives_the_findings_of_the_cluster_it_is_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON report has every finding that the assessment of the same objects has."""
    file = cluster(tmp_path, GENERAL, GPU)
    snapshot, _ = read_snapshot(file.read_bytes(), version=NEWEST, at=None, source="file")
    policy, view = default_policy(), View(snapshot)
    expected = [
        ReportedFinding(kind=finding.kind, object=finding.object, message=finding.message)
        for finding in all_findings(view, assess(view, policy, NO_MEMORY), policy)
    ]
    reported = json.loads(output_of(capsys, "report", "--snapshot", str(file), "-o", "json"))["findings"]
    assert [ReportedFinding(**row) for row in reported] == expected
    assert sum(row["kind"] == "DomainWithoutNodes" for row in reported) == 4


def test_the_command_for_files_runs_on_clusters_without_karpenter() -> None:
    """With a kind that the API server does not know, kubectl prints nothing at all."""
    assert "nodepools" not in KUBECTL_COMMAND
