"""`report`, `plan` and `policy validate` know team policies: from files, and from the cluster where they may."""

import json
from pathlib import Path
from typing import Any

import pytest

import rebalancer
from rebalancer.cli import cluster
from rebalancer.cli.files import ReadPolicy
from rebalancer.cli.main import main
from rebalancer.cli.options import ReadOptions
from rebalancer.policy import default_policy, team_json_schema
from tests.adapters.kubernetes.fake_server import ApiServer, served

ROOT = Path(__file__).parents[2]
SNAPSHOT = ROOT / "docs" / "examples" / "zone-returned.json"
HEAD = "apiVersion: rebalancer.dev/v1alpha1\nkind: TeamPolicy\n"
STRICT = HEAD + "budgets: {maxUnavailable: 0}\n"
LIMIT = (
    HEAD + "groups: [{name: g, selector: {}, limits: [{name: one, topologyKey: kubernetes.io/hostname, maxPods: 1}]}]\n"
)


@pytest.fixture
def policy(tmp_path: Path) -> str:
    header = {"apiVersion": "rebalancer.dev/v1alpha1", "kind": "RebalancePolicy"}
    budgets = {"maxUnavailable": 5, "perWorkload": 5}
    document = {**header, "budgets": budgets, "teamPolicies": {"namespaces": ["*"]}}
    (tmp_path / "policy.json").write_text(json.dumps(document))
    return str(tmp_path / "policy.json")


def config_map(text: str, namespace: str = "shop", name: str = "rebalancer-policy") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"policy.yaml": text}}


def snapshot_with(path: Path, *more: dict[str, Any]) -> str:
    document = json.loads(SNAPSHOT.read_text())
    document["items"] += more
    (path / "cluster.json").write_text(json.dumps(document))
    return str(path / "cluster.json")


def planned(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[dict[str, Any], str]:
    assert main(["plan", "-o", "json", *argv]) == 0
    output = capsys.readouterr()
    return json.loads(output.out), output.err


def test_team_policies_of_a_snapshot_are_in_force(
    tmp_path: Path, policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """ConfigMaps of other names, and those of the rebalancer's own namespace, are not read as such."""
    flags = ("--policy", policy, "--snapshot")
    free, _ = planned(capsys, *flags, snapshot_with(tmp_path, config_map(HEAD)))
    assert free["totals"]["now"] > 0
    strange = (config_map("no policy", name="other"), config_map("kind: x", namespace="rebalancer-system"))
    held, warned = planned(capsys, *flags, snapshot_with(tmp_path, config_map(STRICT), *strange))
    assert held["totals"]["now"] == 0
    assert held["policyHash"] != free["policyHash"]
    assert "team policy" not in warned


@pytest.mark.parametrize("text", [HEAD, STRICT, LIMIT, HEAD + "mode: Evict\n"])
def test_the_library_puts_the_same_in_force(
    text: str, tmp_path: Path, policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The evaluation itself applies team policies, and leaves out the pods that hold capacity."""
    document = json.loads(SNAPSHOT.read_text())
    like = next(item for item in document["items"] if item["kind"] == "Pod")
    held = {**like["metadata"], "name": "held", "uid": "held", "ownerReferences": []}
    held |= {"namespace": "rebalancer-capacity", "labels": {"rebalancer.dev/placeholder": "held"}}
    file = snapshot_with(tmp_path, config_map(text), config_map("kind: x", namespace="rebalancer-system"))
    both = json.loads(Path(file).read_text())
    both["items"].append({**like, "metadata": held})
    Path(file).write_text(json.dumps(both))
    shown, _ = planned(capsys, "--policy", policy, "--snapshot", file)
    snapshot = rebalancer.read_snapshot(Path(file).read_bytes(), source=file)
    evaluation = rebalancer.evaluate(snapshot, rebalancer.load_policy(Path(policy).read_bytes(), source=policy))
    assert [eviction.pod.name for eviction in evaluation.plan.fates.going] == [row["pod"] for row in shown["evictions"]]
    assert evaluation.plan.policy_hash == shown["policyHash"]
    assert ("shop" in evaluation.team_problems) == ("Evict" in text)
    assert "held" not in {pod.name for pod in evaluation.view.snapshot.pods}


def test_a_file_without_config_maps_says_so(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan is the cluster policy's then; with nobody listed there is nothing to miss."""
    _, warned = planned(capsys, "--policy", policy, "--snapshot", str(SNAPSHOT))
    assert "has no ConfigMaps: team policies are not evaluated; add configmaps to kubectl get" in warned
    _, warned = planned(capsys, "--snapshot", str(SNAPSHOT))
    assert "ConfigMaps" not in warned


def test_what_is_not_in_force_is_a_warning(tmp_path: Path, policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An invalid team policy holds its namespace back, as it does in the controller."""
    file = snapshot_with(tmp_path, config_map(STRICT + "mode: Evict\n"))
    plan, warned = planned(capsys, "--policy", policy, "--snapshot", file)
    assert "team policy of shop: ConfigMap shop/rebalancer-policy, policy.yaml:4: mode: unknown field" in warned
    assert plan["totals"]["now"] == 0
    assert {refusal["reason"] for refusal in plan["refusals"]} >= {"Excluded"}


def test_a_limit_of_a_team_is_reported(tmp_path: Path, policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By the name that metrics and events have."""
    assert (
        main(["report", "-o", "json", "--policy", policy, "--snapshot", snapshot_with(tmp_path, config_map(LIMIT))])
        == 0
    )
    limits = json.loads(capsys.readouterr().out)["limits"]
    assert {(limit["group"], limit["limit"], limit["namespace"]) for limit in limits} == {("shop/g", "one", "shop")}


def test_team_policies_of_a_live_cluster_are_read_where_allowed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the right there is a warning, and the others are read; without an answer the command ends."""
    server, path = ApiServer(), "/api/v1/namespaces/{}/configmaps/rebalancer-policy"
    server.objects[path.format("shop")] = config_map(STRICT)
    server.answers["GET", path.format("secret")] = 403
    with served(server) as transport:
        monkeypatch.setattr(cluster, "connect", lambda **_: transport)  # which has tests of its own
        policy = ReadPolicy(policy=default_policy())
        options = ReadOptions.live(kubeconfig=None, context=None, namespace="rebalancer-system", policy=policy)
        maps = list(cluster.Cluster(options).read_team_maps(["none", "secret", "shop"]))
    assert [config_map.namespace for config_map in maps] == ["shop"]
    assert "the team policy of secret is not evaluated" in capsys.readouterr().err


def test_the_example_is_valid_and_a_broken_one_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`policy validate` recognises a team policy by its kind."""
    example = str(ROOT / "config" / "examples" / "team-policy.yaml")
    assert main(["policy", "validate", example]) == 0
    assert capsys.readouterr().out == f"{example}: valid (team policy, 1 group)\n"
    (tmp_path / "team.yaml").write_text(HEAD + "budgets: {perCycle: 1}\n")
    assert main(["policy", "validate", str(tmp_path / "team.yaml")]) == 1
    assert "team.yaml:3: budgets.perCycle: unknown field" in capsys.readouterr().err


def test_the_schema_of_team_policies_is_printed_as_it_is_committed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "schema", "--team"]) == 0
    printed = capsys.readouterr().out
    assert printed == (ROOT / "config" / "team-policy.schema.json").read_text(), (
        "stale: run `rebalancer policy schema --team > config/team-policy.schema.json`"
    )
    assert json.loads(printed) == team_json_schema()
