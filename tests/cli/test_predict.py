"""`rebalancer predict`: the scheduler's answer for a pod in a file."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rebalancer.cli import main as entry
from rebalancer.cli.errors import Exit
from rebalancer.documents.document import document_schema
from rebalancer.documents.prediction import PredictionDocument
from tests.control_plane.manifests import ZONE, node, pod, spread
from tests.control_plane.resources import Manifest

WEB = {"app": "web"}
CLUSTER = (
    node("a", zone="a"),
    node("b", zone="b"),
    node("c", zone="b", taints=[{"key": "k", "effect": "NoSchedule"}]),
    pod("web-1", on="a", labels=WEB),
    pod("web-2", on="a", labels=WEB),
)
NEW = pod("new", labels=WEB, topologySpreadConstraints=[spread(labels=WEB)])


def written(folder: Path, name: str, document: Any) -> str:
    path = folder / name
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(path)


def call(folder: Path, newcomer: Manifest, *more: str, cluster: Sequence[Manifest] = CLUSTER) -> int:
    others = [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "x"}, "spec": {}}]
    snapshot = written(folder, "cluster.yaml", {"kind": "List", "apiVersion": "v1", "items": [*cluster, *others]})
    return entry.main(["predict", "--pod", written(folder, "pod.yaml", newcomer), "--snapshot", snapshot, *more])


def test_scores_are_shown_where_several_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(tmp_path, pod("new", labels=WEB, topologySpreadConstraints=[spread(labels=WEB, soft=True)])) == 0
    out = capsys.readouterr().out
    assert "2 of 3 nodes fit default/new; kube-scheduler picks b." in out
    assert "PodTopologySpread 100" in out


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (ZONE, "picks one of c-0, c-1, c-10"),
        ("rack", "kube-scheduler may pick any of them: it picks the best of the 100 that it scores"),
    ],
)
def test_of_a_large_cluster_the_number_of_nodes_that_are_scored_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, said: str
) -> None:
    """Every sample has nodes of the empty zone; of 150 racks none is in every sample."""
    machines = [
        node(f"{zone}-{number}", zone=zone, labels={"rack": f"{zone}{number}"})
        for zone in "abc"
        for number in range(50)
    ]
    busy = [pod(f"web-{number}", on=f"{'ab'[number % 2]}-{number}", labels=WEB) for number in range(10)]
    newcomer = pod("new", labels=WEB, topologySpreadConstraints=[spread(key, labels=WEB, soft=True)])
    assert call(tmp_path, newcomer, cluster=[*machines, *busy]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "150 of 150 nodes fit default/new" in out
    assert said in out
    assert "of the 100 that it scores (percentageOfNodesToScore: 100 makes it score all)" in out
    assert ("Certain: topology.kubernetes.io/zone=c" in out) == (key == ZONE)


def test_the_document_is_what_its_schema_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(tmp_path, NEW, "-o", "json") == Exit.FINE
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, document_schema(PredictionDocument))
    assert (document["kind"], document["candidates"], document["certain"][ZONE]) == ("Prediction", ["b"], "b")
    assert document["certain"] == {"kubernetes.io/hostname": "b", ZONE: "b"}
    filters = {node["name"]: node["filters"] for node in document["nodes"]}
    assert filters["a"]["PodTopologySpread"] == {
        "verdict": "Unschedulable",
        "message": "node(s) didn't match pod topology spread constraints",
    }
    assert filters["c"]["TaintToleration"]["message"] == "node(s) had untolerated taint(s)"
    call(tmp_path, NEW, "-o", "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == document


def test_a_pod_that_fits_nowhere_gets_the_schedulers_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, pod("new", cpu="100")) == Exit.FINE
    reasons = "1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    expected = f"default/new would stay Pending: 0/3 nodes are available: {reasons}"
    assert capsys.readouterr().out.splitlines()[0] == expected


def test_what_would_be_preempted_is_said_and_in_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Node b has one CPU and a budget that allows no disruption; node a is too small."""
    urgent = pod("new", cpu="1")
    urgent["spec"]["priority"] = 1000
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": WEB}, "minAvailable": 1},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    }
    full = (node("a", zone="a", cpu="500m"), node("b", zone="b", cpu="1"), pod("web-1", on="b", labels=WEB), budget)
    assert call(tmp_path, urgent, cluster=full) == Exit.FINE
    assert capsys.readouterr().out.splitlines()[0] == (
        "default/new would stay Pending: 0/2 nodes are available: 2 Insufficient cpu. "
        "It would preempt default/web-1 on b, more than PodDisruptionBudget default/web allows."
    )
    assert call(tmp_path, urgent, "-o", "json", cluster=full) == Exit.FINE
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, document_schema(PredictionDocument))
    assert document["preemption"] == {
        "outcomes": [{"node": "b", "victims": ["default/web-1"], "brokenBudgets": ["default/web"]}],
        "complete": True,
        "obstacle": "",
    }


def test_a_pod_that_is_there_already_is_placed_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = {**NEW, "spec": {**NEW["spec"], "nodeName": "b"}}
    assert call(tmp_path, there, cluster=(*CLUSTER, there)) == Exit.FINE
    assert "kube-scheduler picks b" in capsys.readouterr().out


def test_where_a_pod_stands_is_no_wish_to_stand_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = pod("new", on="a", labels=WEB, topologySpreadConstraints=[spread(labels=WEB)])
    assert call(tmp_path, there, cluster=(*CLUSTER, there)) == Exit.FINE
    out = capsys.readouterr().out
    assert "kube-scheduler picks b" in out
    assert "nodeName" not in out


def test_a_manifest_that_names_its_node_fits_there_only_and_passes_the_scheduler_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, pod("new", on="b")) == Exit.FINE
    certain = f"Certain: kubernetes.io/hostname=b, {ZONE}=b."
    caveat = (
        "Not predictable: spec.nodeName is b: the scheduler never sees the pod, only that node's kubelet can refuse it."
    )
    assert capsys.readouterr().out.splitlines() == [
        f"1 of 3 nodes fit default/new; kube-scheduler picks b. {certain} {caveat}",
        "",
        "NODE  TOTAL  WHY",
        "b            the only feasible node",
        "a         -  NodeName: node(s) didn't match the requested node name",
        "c         -  NodeName: node(s) didn't match the requested node name",
    ]


def test_matching_keys_and_priority_are_filled_in_as_admission_would(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    affinity = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": ZONE, "labelSelector": {"matchLabels": WEB}, "matchLabelKeys": ["hash"]}
            ]
        }
    }
    assert call(tmp_path, pod("new", labels={**WEB, "hash": "2"}, affinity=affinity)) == Exit.FINE
    assert "2 of 3 nodes fit" in capsys.readouterr().out


def test_unknown_objects_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(tmp_path, pod("new", schedulerName="mine", topologySpreadConstraints=[spread(labels=WEB)])) == 0
    assert "Not predictable: schedulerName is mine, not default-scheduler." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kind": "Deployment", "apiVersion": "apps/v1"}, "found Deployment, expected a Pod"),
        ({"a": 1}, "found an object without kind, expected a Pod"),
        ([1], "not a Kubernetes object"),
        ({"kind": "Pod", "metadata": {}}, "Pod (unnamed)"),
        (
            pod("new", cpu="lots"),
            "Pod default/new: spec.containers[0].resources.requests.cpu: 'lots' is not a quantity",
        ),
        (
            pod("new", topologySpreadConstraints=[spread(max_skew=0)]),
            "Pod default/new: spec.topologySpreadConstraints[0].maxSkew: 0 must be at least 1",
        ),
        (
            pod("new", tolerations=[{"key": "k", "operator": "Like"}]),
            "Pod default/new: spec.tolerations[0].operator: 'Like' is not one of",
        ),
    ],
)
def test_a_pod_that_the_server_would_refuse_is_named_with_field_and_value(
    document: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, document) == Exit.ERROR
    assert message in capsys.readouterr().err


def test_a_node_that_the_server_would_refuse_is_left_out_by_name_field_and_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, NEW, cluster=(*CLUSTER, node("d", zone="b", cpu="many"))) == Exit.FINE
    seen = capsys.readouterr()
    assert "Node d: status.allocatable.cpu: 'many' is not a quantity" in seen.err
    assert "of 3 nodes" in seen.out


def test_the_namespace_flag_is_for_manifests_that_name_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = {**NEW, "metadata": {key: value for key, value in NEW["metadata"].items() if key != "namespace"}}
    assert call(tmp_path, bare) == Exit.FINE
    assert "nodes fit default/new" in capsys.readouterr().out
    assert call(tmp_path, bare, "-n", "shop") == Exit.FINE
    assert "nodes fit shop/new" in capsys.readouterr().out
    assert call(tmp_path, NEW, "-n", "default") == Exit.FINE
    assert call(tmp_path, NEW, "-n", "shop") == Exit.USAGE
    assert "is in namespace default, but -n names shop" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["-A"], ["-l", "app=web"]])
def test_flags_that_would_select_pods_are_refused(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, NEW, *flags) == Exit.USAGE
    assert "unrecognized arguments" in capsys.readouterr().err


def test_standard_input_is_one_thing_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["predict", "--pod", "-", "--snapshot", "-"]) == Exit.USAGE
    assert "standard input" in capsys.readouterr().err
