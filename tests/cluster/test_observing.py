"""Looking changes nothing: the Observe mode, the commands, balanced clusters."""

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.controller import ACCOUNT, NAMESPACE, USER, Controller, install, policy, rebalancer
from tests.cluster.test_repair import constraints, lay_out_shop
from tests.control_plane.api import Api, wait_until
from tests.control_plane.layout import deployment, lay_out, lose_nodes, nodes, return_nodes, stateful_set
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.settling import wait_settled

READING = {"get", "list", "watch"}
KINDS = (
    "pods,nodes,namespaces,replicasets,deployments,statefulsets,replicationcontrollers,services,pdb,pv,pvc,"
    "storageclasses,csinodes,priorityclasses"
)


def skewed(plane: ControlPlane) -> None:
    """Leave the shop as it is when its third zone has come back."""
    lay_out_shop(plane)
    lost = lose_nodes(plane, "c-0", "c-1")
    wait_settled(plane)
    return_nodes(plane, lost)


@pytest.mark.invariant("observe")
@pytest.mark.invariant("one-event")
def test_observe_writes_nothing_but_its_own(cluster: ControlPlane, tmp_path: Path) -> None:
    """In Observe the lease, events and the status are all it writes, with rights that do not include eviction."""
    install(cluster, "base")
    skewed(cluster)
    limit = {"name": "zone-third", "topologyKey": ZONE, "maxShare": "<=1/3", "severity": "critical"}
    watched = policy("Observe", groups=[{"name": "workloads", "selector": {}, "limits": [limit]}])
    with Controller(cluster, tmp_path, watched) as controller:
        controller.wait_for("cycle", count=4)
        line = controller.log("cycle")[-1]
        assert (line["violated"], line["minimum"], line["now"]) == (2, 6, 0)
        status = wait_until(
            lambda: cluster.api.find(f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status"), what="the status"
        )
        assert status is not None
        assert controller.stop() == 0
    writes = [request for request in cluster.audit.requests(user=USER) if request.verb not in READING]
    assert {write.resource for write in writes} == {"leases", "events", "configmaps"}
    assert {write.name for write in writes if write.resource == "configmaps"} == {
        "rebalancer-status",
        "rebalancer-history",
        "rebalancer-history-0",
    }
    refused = {(write.resource, write.code) for write in writes if write.code >= 300}
    assert refused <= {("events", 409)}, "what the previous process has published"
    document = json.loads(status["data"]["status.json"])
    assert (document["mode"], document["plan"]) == ("Observe", {"evictions": 6, "minimum": 6, "uncounted": 0})
    assert document["refusals"]["ObserveOnly"] >= 1
    check_limit_events(cluster.api, [None])
    folder = tmp_path / "again"
    folder.mkdir()
    with Controller(cluster, folder, watched) as controller:
        controller.wait_for("cycle", count=2)
        assert controller.stop() == 0
    check_limit_events(cluster.api, [None, 2])
    lease = cluster.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/rebalancer")
    assert not lease["spec"].get("holderIdentity"), "handed back at the end"
    report = rebalancer("report", "--kubeconfig", str(cluster.kubeconfig(ACCOUNT)), "-o", "json")
    assert report.returncode == 0, report.stderr
    rows = json.loads(report.stdout)["constraints"]
    violated = {
        (row["workloads"][0]["name"], row["topologyKey"], row["skew"]) for row in rows if row["state"] != "Satisfied"
    }
    assert violated == {
        ("web", "topology.kubernetes.io/zone", 6),
        ("web", "kubernetes.io/hostname", 3),
        ("db", "topology.kubernetes.io/zone", 3),
        ("db", "kubernetes.io/hostname", 2),
    }


def check_limit_events(api: Api, counts: list[int | None]) -> None:
    """Require one object for each owner and pod, however often it was published; repetitions are counted."""
    events = api.list("/apis/events.k8s.io/v1/namespaces/shop/events")
    ours = [event for event in events if event["reason"] == "ShareLimitViolated"]
    objects = [(event["regarding"]["kind"], event["regarding"]["name"]) for event in ours]
    assert len(set(objects)) == len(objects)
    assert {name for kind, name in objects if kind != "Pod"} == {"web", "db"}
    assert sum(kind == "Pod" for kind, _ in objects) == 5 + 3
    assert all(event["regarding"]["uid"] and event["action"] == "Assess" for event in ours)
    assert all("workloads/zone-third: topology.kubernetes.io/zone " in event["note"] for event in ours)
    assert {(event.get("series") or {}).get("count") for event in ours} <= set(counts)


def kubectl(plane: ControlPlane, *arguments: str) -> bytes:
    """Run the kubectl of the server's own release."""
    command = [str(plane.programs["kubectl"]), "--kubeconfig", str(plane.kubeconfig()), *arguments]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout


def without_times(plan: bytes) -> Any:
    document = json.loads(plan)
    # Of the live command, these say what the controller does with the plan.
    beside = {"acting", "idle", "policySource"}
    return {key: value for key, value in document.items() if key not in {"generatedAt", "expiresAt", *beside}}


@pytest.mark.invariant("determinism")
def test_a_file_gives_the_same_plan_as_the_cluster(cluster: ControlPlane, tmp_path: Path) -> None:
    """`kubectl get … -o json | rebalancer plan --snapshot -` is the plan of the live command, in JSON and in YAML.

    So is that of a dump by `rebalancer snapshot`. A kind that the cluster has none of, and no pod needs, is no warning.
    """
    skewed(cluster)
    file = tmp_path / "policy.yaml"
    file.write_text(policy("Observe", groups=[]))
    wait_settled(cluster)
    live = rebalancer("plan", "--kubeconfig", str(cluster.kubeconfig()), "--policy", str(file), "-o", "json")
    assert live.returncode == 0, live.stderr
    assert json.loads(live.stdout)["totals"]["evictions"] == 6
    dump, result = b"", live
    for form in ("json", "yaml"):
        dump = kubectl(cluster, "get", KINDS, "-A", "-o", form)
        result = rebalancer("plan", "--snapshot", "-", "--policy", str(file), "-o", "json", stdin=dump)
        assert result.returncode == 0, result.stderr
        assert "ReplicationController" not in result.stderr.decode()
        assert without_times(result.stdout) == without_times(live.stdout)
    again = rebalancer("plan", "--snapshot", "-", "--policy", str(file), "-o", "json", stdin=dump)
    assert again.stdout == result.stdout, "same input, same bytes"
    dumped = tmp_path / "dump.json"
    taken = rebalancer("snapshot", "--kubeconfig", str(cluster.kubeconfig()), "-o", str(dumped))
    assert (taken.returncode, taken.stderr) == (0, b"")
    metadata = [item["metadata"] for item in json.loads(dumped.read_bytes())["items"]]
    managed = {key for one in metadata for entry in one.get("managedFields", ()) for key in entry}
    assert managed <= {"time", "subresource"}, "not who has changed an object, nor what"
    offline = rebalancer("plan", "--snapshot", str(dumped), "--policy", str(file), "-o", "json")
    assert (offline.returncode, offline.stderr) == (0, b"")
    assert without_times(offline.stdout) == without_times(live.stdout)


@pytest.mark.invariant("balanced-untouched")
def test_a_balanced_cluster_is_left_alone(cluster: ControlPlane, tmp_path: Path) -> None:
    """Ten cycles over balanced workloads, half of the pods with an emptyDir: no eviction."""
    install(cluster, "base", "evict")
    six = ["a-0", "a-1", "b-0", "b-1", "c-0", "c-1"]
    volume = [{"name": "scratch", "emptyDir": {}}]
    lay_out(
        cluster,
        [
            *nodes({"a": 2, "b": 2, "c": 2}),
            deployment("web", six * 2, namespace="shop", topologySpreadConstraints=constraints("web")),
            stateful_set("db", six, namespace="shop", topologySpreadConstraints=constraints("db"), volumes=volume),
            # Two owners under one selector: only together are they balanced, one of them on emptyDir.
            deployment(
                "left",
                {"a-0": 2, "b-0": 2},
                namespace="shop",
                labels={"app": "pair", "half": "left"},
                topologySpreadConstraints=constraints("pair")[:1],
            ),
            deployment(
                "right",
                {"c-0": 1, "c-1": 1},
                namespace="shop",
                labels={"app": "pair", "half": "right"},
                topologySpreadConstraints=constraints("pair")[:1],
                volumes=volume,
            ),
        ],
    )
    with Controller(cluster, tmp_path, policy("Evict", interval="1s")) as controller:
        controller.wait_for("cycle", count=10)
        assert {line["violated"] for line in controller.log("cycle")} == {0}
        assert {line["groups"] for line in controller.log("cycle")} == {3}
    assert cluster.audit.evictions(user=USER) == []


def test_pods_on_empty_dir_count(cluster: ControlPlane, tmp_path: Path) -> None:
    """4 4 4 over three zones, the pods of one zone with an emptyDir: nothing to repair, so nothing is evicted."""
    install(cluster, "base", "evict")
    volume = [{"name": "scratch", "emptyDir": {}}]
    zone = constraints("pair")[:1]
    labels = [{"app": "pair", "half": half} for half in ("plain", "scratch")]
    plain = deployment(
        "plain", {"a-0": 4, "b-0": 4}, namespace="shop", labels=labels[0], topologySpreadConstraints=zone
    )
    scratch = deployment(
        "scratch", {"c-0": 4}, namespace="shop", labels=labels[1], topologySpreadConstraints=zone, volumes=volume
    )
    lay_out(cluster, [*nodes({"a": 1, "b": 1, "c": 1}), plain, scratch])
    with Controller(cluster, tmp_path, policy("Evict", interval="1s")) as controller:
        controller.wait_for("cycle", count=10)
    assert cluster.audit.evictions(user=USER) == []
    pods = cluster.api.list("/api/v1/namespaces/shop/pods", labels="app=pair")
    assert Counter(pod["spec"]["nodeName"] for pod in pods) == {"a-0": 4, "b-0": 4, "c-0": 4}


def test_the_manifests_apply(cluster: ControlPlane) -> None:
    """`kubectl apply -k` of both forms is taken by a real API server, and the pods are admitted under `restricted`."""
    for form in ("base", "evict"):
        kubectl(cluster, "apply", "-k", str(Path(__file__).resolve().parents[2] / "deploy" / form))
    lay_out(cluster, nodes({"a": 1, "b": 1}))
    wait_settled(cluster)
    pods = cluster.api.list(f"/api/v1/namespaces/{NAMESPACE}/pods", labels="app.kubernetes.io/name=rebalancer")
    assert len(pods) == 2
    assert all(pod["status"]["phase"] == "Running" for pod in pods)
    policy_map = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-policy")
    assert yaml.safe_load(policy_map["data"]["policy.yaml"])["mode"] == "Evict"
