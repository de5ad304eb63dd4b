"""The control plane for tests keeps the promises that the other tests rely on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.control_plane.accounts import grant, user_name
from tests.control_plane.api import Api, ApiError, TimedOutError, wait_until
from tests.control_plane.build import GIVEN_FOLDER, PROGRAMS, MissingPart, Versions, programs
from tests.control_plane.layout import (
    deployment,
    lay_out,
    lose_nodes,
    namespace,
    nodes,
    pdb,
    pod,
    replica_set,
    return_nodes,
    spread,
    stateful_set,
    wait_settled,
)
from tests.control_plane.manifests import ZONE, node
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.control_plane.servers import Options
from tests.control_plane.settling import condition
from tests.control_plane.stages import GONE_AFTER, NEVER_READY, READY_AFTER

DEMO = "/api/v1/namespaces/demo/pods"
BUDGET = "/apis/policy/v1/namespaces/demo/poddisruptionbudgets/web"
WEB = {"app": "web"}


def places(api: Api, *, labels: str = "", path: str = DEMO) -> dict[str, str]:
    """Return the node of each pod."""
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in api.list(path, labels=labels)}


def test_versions(control_plane: ControlPlane) -> None:
    """The servers call themselves by the release that was chosen, or version checks of clients would fail."""
    assert control_plane.api.get("/version")["gitVersion"] == Versions.wanted().kubernetes
    assert set(control_plane.running) == {
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
    }


def test_real_scheduler_spreads(cluster: ControlPlane) -> None:
    """A Deployment of 12 that nobody placed is spread evenly over 3 zones by the real scheduler."""
    web = deployment("web", [], replicas=12, namespace="demo", topologySpreadConstraints=[spread(labels=WEB)])
    lay_out(cluster, [*nodes({"a": 2, "b": 2, "c": 2}), web])
    zones = Counter(place.split("-")[0] for place in places(cluster.api).values())
    assert zones == {"a": 4, "b": 4, "c": 4}


@pytest.mark.parametrize("build", [replica_set, deployment, stateful_set])
def test_exact_layout(cluster: ControlPlane, build: type) -> None:
    """Pods are exactly where they were laid out, adopted by their controller and not doubled or replaced."""
    web = build("web", {"a-0": 4, "b-0": 1}, namespace="demo", topologySpreadConstraints=[spread(labels=WEB)])
    lay_out(cluster, [*nodes({"a": 1, "b": 2}), web])
    wanted = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in web.pods}
    assert places(cluster.api) == wanted
    time.sleep(1)
    assert places(cluster.api) == wanted
    assert not cluster.audit.requests(user="system:kube-controller-manager", resource="pods", namespace="demo")
    owners = {owner["kind"] for pod in cluster.api.list(DEMO) for owner in pod["metadata"]["ownerReferences"]}
    assert owners == {web.owners[0]["kind"]}


@pytest.mark.parametrize("build", [replica_set, deployment, stateful_set])
def test_replacement(cluster: ControlPlane, build: type) -> None:
    """A deleted pod is replaced by its controller, and the replacement is placed by the scheduler."""
    web = build("web", {"a-0": 4, "b-0": 1}, namespace="demo", topologySpreadConstraints=[spread(labels=WEB)])
    lay_out(cluster, [*nodes({"a": 1, "b": 2}), web])
    victim = web.pod_names[0]
    before = cluster.api.get(f"{DEMO}/{victim}")["metadata"]["uid"]
    cluster.api.delete(f"{DEMO}/{victim}")
    wait_until(lambda: before not in {pod["metadata"]["uid"] for pod in cluster.api.list(DEMO)}, what="the pod to go")
    wait_settled(cluster)
    assert Counter(place.split("-")[0] for place in places(cluster.api).values()) == {"a": 3, "b": 2}


def test_deployment_is_whole(cluster: ControlPlane) -> None:
    """A Deployment laid out adopts its ReplicaSet, counts its pods and can be rolled out."""
    lay_out(cluster, [*nodes({"a": 2}), deployment("web", ["a-0", "a-0", "a-1"], namespace="demo")])
    path = "/apis/apps/v1/namespaces/demo/deployments/web"
    stored = cluster.api.get(path)
    assert stored["status"]["availableReplicas"] == 3
    assert len(cluster.api.list("/apis/apps/v1/namespaces/demo/replicasets")) == 1
    cluster.api.patch(path, {"spec": {"template": {"metadata": {"annotations": {"again": "yes"}}}}})
    wait_settled(cluster)
    assert len(cluster.api.list("/apis/apps/v1/namespaces/demo/replicasets")) == 2


def test_budget_status(cluster: ControlPlane) -> None:
    """A budget's status counts the pods, and the ones that aren't healthy."""
    web = replica_set("web", ["a-0"] * 4, namespace="demo", never_ready=[3])
    budget = pdb("web", WEB, namespace="demo", max_unavailable=2)
    lay_out(cluster, [*nodes({"a": 1}), web, budget])
    status = cluster.api.get(BUDGET)["status"]
    assert (status["expectedPods"], status["currentHealthy"], status["disruptionsAllowed"]) == (4, 3, 1)


def test_evictions_are_audited(cluster: ControlPlane) -> None:
    """The audit log has every eviction with its answer and its user: granted (201), refused by a budget (429)."""
    web = replica_set("web", ["a-0"] * 3, namespace="demo")
    lay_out(cluster, [*nodes({"a": 1}), web, pdb("web", WEB, namespace="demo", max_unavailable=1)])
    mark = cluster.audit.mark()
    client = cluster.api_as("admin")
    assert client.evict("demo", "web-0", preconditions={}) == 201
    assert client.evict("demo", "web-1") == 429
    cluster.api.evict("demo", "web-1", dryRun=["All"])
    evictions = cluster.audit.evictions("admin", since=mark)
    assert [(eviction.name, eviction.code) for eviction in evictions] == [("web-0", 201), ("web-1", 429)]
    assert evictions[0].body is not None
    assert evictions[0].body["deleteOptions"] == {"preconditions": {}}
    assert evictions[1].reason == "TooManyRequests"
    assert [eviction.name for eviction in cluster.audit.evictions("admin", since=mark, code=429)] == ["web-1"]
    assert cluster.audit.evictions("harness", since=mark) == []
    assert len(cluster.audit.evictions("harness", since=mark, dry_run=True)) == 1
    assert cluster.audit.evictions(since=cluster.audit.mark()) == []


def test_node_loss_and_return(cluster: ControlPlane) -> None:
    """The pods of a lost zone are replaced elsewhere; the zone comes back empty and stays Ready."""
    web = replica_set("web", ["a-0", "b-0", "b-1"], namespace="demo")
    lay_out(cluster, [*nodes({"a": 1, "b": 2}, taints=[{"key": "t", "effect": "PreferNoSchedule"}]), web])
    lost = lose_nodes(cluster, "b-0", "b-1")
    wait_settled(cluster)
    assert list(places(cluster.api).values()) == ["a-0"] * 3
    return_nodes(cluster, lost)
    wait_settled(cluster)
    assert list(places(cluster.api).values()) == ["a-0"] * 3
    back = cluster.api.get("/api/v1/nodes/b-0")
    assert back["metadata"]["labels"][ZONE] == "b"
    assert [taint["key"] for taint in back["spec"]["taints"]] == ["t"]


def test_stateful_set_with_volumes(cluster: ControlPlane) -> None:
    """A StatefulSet with volume claims has a claim a pod, and its controller changes nothing."""
    template = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    web = stateful_set("web", ["a-0", "a-0"], namespace="demo", workload={"volumeClaimTemplates": [template]})
    lay_out(cluster, [*nodes({"a": 1}), web])
    claims = cluster.api.list("/api/v1/namespaces/demo/persistentvolumeclaims")
    assert [claim["metadata"]["name"] for claim in claims] == ["data-web-0", "data-web-1"]
    assert set(places(cluster.api)) == {"web-0", "web-1"}


@pytest.mark.thorough
def test_pod_garbage_collection(cluster: ControlPlane) -> None:
    """The pods of a lost node go without help too, after some 40 seconds; leases keep the other nodes Ready."""
    lay_out(cluster, [*nodes({"a": 2}), replica_set("web", ["a-0", "a-1"], namespace="demo")])
    lose_nodes(cluster, "a-1", gc=True)
    wait_settled(cluster)
    assert list(places(cluster.api).values()) == ["a-0"] * 2


def test_unready_pods(cluster: ControlPlane) -> None:
    """A pod with the label runs but isn't Ready; it becomes Ready when the label goes, and not when it comes back."""
    lay_out(cluster, [*nodes({"a": 1}), pod("sick", on="a-0", namespace="demo", labels={NEVER_READY: ""})])
    path = f"{DEMO}/sick"
    assert cluster.api.get(path)["status"]["phase"] == "Running"
    for value, ready in ((None, "True"), ("", "False")):
        cluster.api.patch(path, {"metadata": {"labels": {NEVER_READY: value}}})
        wait_until(lambda ready=ready: condition(cluster.api.get(path), "Ready") == ready, what=f"Ready={ready}")  # type: ignore[misc]


def test_own_delays(cluster: ControlPlane) -> None:
    """Annotations say how long one pod takes to become Ready and to terminate."""
    delays = {READY_AFTER: "1500ms", GONE_AFTER: "1500ms"}
    slow = pod("slow", on="a-0", namespace="demo", annotations=delays)
    started = time.monotonic()
    lay_out(cluster, [*nodes({"a": 1}), slow])
    assert time.monotonic() - started > 1.5
    started = time.monotonic()
    cluster.api.delete(f"{DEMO}/slow")
    wait_until(lambda: cluster.api.find(f"{DEMO}/slow") is None, what="the slow pod to go")
    assert 1.2 < time.monotonic() - started < 5


def test_ready_takes_a_while(cluster: ControlPlane) -> None:
    """Pods become Ready neither at once nor all together."""
    lay_out(cluster, [*nodes({"a": 1})])
    started = time.monotonic()
    web = replica_set("web", ["a-0"] * 5, namespace="demo")
    lay_out(cluster, [web], settle=False)
    with pytest.raises(TimedOutError):
        wait_settled(cluster, timeout=0)
    wait_settled(cluster)
    assert time.monotonic() - started > 0.3


def test_unschedulable_pods(cluster: ControlPlane) -> None:
    """A state in which the scheduler finds no place for some pods can be laid out too."""
    web = deployment("web", ["a-0"], replicas=3, namespace="demo", cpu="1")
    lay_out(cluster, [node("a-0", zone="a", cpu="2"), web], unschedulable=1)
    assert sorted(places(cluster.api).values()) == ["", "a-0", "a-0"]


def test_service_account_has_its_role_only(cluster: ControlPlane) -> None:
    """A kubeconfig for a service account opens what its role allows, nothing else, and refusals are audited."""
    grant(cluster.api, "demo/reader", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
    path = cluster.kubeconfig("demo/reader")
    kubectl = [str(cluster.programs["kubectl"]), "--kubeconfig", str(path), "get", "-o", "name"]
    allowed = subprocess.run([*kubectl, "pods", "-A"], capture_output=True, text=True, check=False)
    assert allowed.returncode == 0, allowed.stderr
    refused = subprocess.run([*kubectl, "nodes"], capture_output=True, text=True, check=False)
    assert "Forbidden" in refused.stderr
    requests = cluster.audit.requests(user=user_name("demo/reader"), verb="list", resource="nodes")
    assert [right.code for right in requests] == [403]


def test_apply(cluster: ControlPlane) -> None:
    """A YAML text of many documents is applied, again without harm, and a refusal is an error that says why."""
    text = """
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
data: {key: VALUE}
---
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: two}
spec: {podSelector: {}}
"""
    for value in ("a", "b"):
        cluster.api.apply(text.replace("VALUE", value))
        assert cluster.api.get("/api/v1/namespaces/default/configmaps/one")["data"] == {"key": value}
    broken: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "NOT A NAME"}}
    with pytest.raises(ApiError, match="NOT A NAME") as refusal:
        cluster.api.create(broken)
    assert refusal.value.code == 422


def test_clean_start_one(cluster: ControlPlane) -> None:
    """A test may leave anything behind: objects of every kind, finalizers, pods that terminate slowly."""
    slow = pod("slow", on="a-0", namespace="demo", annotations={GONE_AFTER: "60s"})
    slow["metadata"]["finalizers"] = ["example.test/held"]
    policy = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "left"}}
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    budget = pdb("web", WEB, min_available=3)
    web = deployment("web", ["a-0"] * 3)
    strict = namespace("strict", labels={"pod-security.kubernetes.io/enforce": "restricted"})
    lay_out(cluster, [*nodes({"a": 1}), web, budget, slow, policy, high, strict])
    cluster.api.delete(f"{DEMO}/slow")


def test_clean_start_two(cluster: ControlPlane) -> None:
    """The next test finds none of it."""
    for path in ("/api/v1/nodes", "/api/v1/pods", "/apis/apps/v1/deployments", "/apis/policy/v1/poddisruptionbudgets"):
        assert cluster.api.list(path) == []
    for space in cluster.api.list("/api/v1/namespaces"):
        assert set(space["metadata"]["labels"]) == {"kubernetes.io/metadata.name"}
    assert cluster.api.find("/api/v1/namespaces/default/configmaps/left") is None
    assert cluster.api.find("/apis/scheduling.k8s.io/v1/priorityclasses/high") is None
    assert cluster.api.list("/api/v1/events") == []


def test_starts_again_and_leaves_nothing() -> None:
    """A second control plane runs beside the first, with its own options; after it no process and no file remains."""
    profile = {"schedulerName": "second", "plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}}}
    plane = ControlPlane(Options(scheduler_verbosity=10, scheduler_profiles=(profile,), ready_after=(0.0, 0.0)))
    for _ in range(2):
        with plane:
            ids, folder = plane.running, plane.site.folder
            assert len(ids) == 5
            web = replica_set("web", [], replicas=1, schedulerName="second")
            lay_out(plane, [*nodes({"a": 2}), web])
            assert "Plugin scored node for pod" in plane.log("kube-scheduler").read_text(encoding="utf-8")
        assert not any(exists(pid) for pid in ids.values())
        assert not folder.exists()


def test_a_server_can_be_stopped_for_a_while(cluster: ControlPlane) -> None:
    """Without its scheduler the cluster leaves new pods pending, and places them when it is back."""
    with cluster.without("kube-scheduler"):
        web = replica_set("web", [], replicas=1, namespace="demo")
        lay_out(cluster, [*nodes({"a": 1}), web], settle=False)
        time.sleep(0.5)
        assert list(places(cluster.api).values()) == [""]
    wait_settled(cluster)
    assert list(places(cluster.api).values()) == ["a-0"]


def test_given_programs_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs in the folder that the environment names come first; nothing is built that is there."""
    for program in PROGRAMS:
        (tmp_path / program.name).touch(mode=0o755)
    monkeypatch.setenv(GIVEN_FOLDER, str(tmp_path))
    assert {path.parent for path in programs().values()} == {tmp_path}


def test_missing_programs_without_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is built and Go is missing, one line says what to do."""
    monkeypatch.delenv(GIVEN_FOLDER, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingPart, match=r"^no Go here to build etcd, .*; install Go or set \w+ to a folder.*$"):
        ControlPlane()


def test_killed_run_leaves_no_servers(tmp_path: Path) -> None:
    """When a test run is killed, its servers die with it, whichever thread started them."""
    script = (
        "import threading, time\n"
        "from tests.control_plane.plane import ControlPlane\n"
        "plane = ControlPlane()\n"
        "starter = threading.Thread(target=plane.start)\n"
        "starter.start()\n"
        "starter.join()\n"
        "time.sleep(0.5)\n"
        "print(plane.site.folder, *plane.running.values(), flush=True)\n"
        "time.sleep(600)\n"
    )
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=root, env=environment, stdout=subprocess.PIPE, text=True
    ) as run:
        try:
            assert run.stdout is not None
            _folder, *ids = run.stdout.readline().split()
            assert len(ids) == 5
            assert all(exists(int(pid)) for pid in ids)
        finally:
            run.kill()
    wait_until(lambda: not any(exists(int(pid)) for pid in ids), what="the servers to die", timeout=5)


def exists(pid: int) -> bool:
    """Whether a process runs (one that has died but wasn't waited for doesn't)."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
