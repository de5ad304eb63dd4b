"""What Kubernetes 1.35 to 1.37 changed beside the scheduler, on the servers as they are by default.

What a gate turns on that is off by default is in docs/design.md, "Versions".
"""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rebalancer.adapters.kubernetes.listing import read_once
from rebalancer.adapters.kubernetes.transport import connect
from tests.cluster.controller import ACCOUNT, install, policy, rebalancer
from tests.control_plane.api import wait_until
from tests.control_plane.build import kubernetes_release
from tests.control_plane.layout import deployment, lay_out, nodes, spread, stateful_set
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.control_plane.workloads import REVISION_HASH

IS_1_37 = tuple(map(int, kubernetes_release().split("."))) >= (1, 37)
SHOP = "/apis/apps/v1/namespaces/shop"
PODS = "/api/v1/namespaces/shop/pods"
CROWDED = {"a-0": 4, "b-0": 1}
"""More than a rollout takes down at once: what remains is skewed all the while."""


def plan(plane: ControlPlane, folder: Path) -> dict[str, Any]:
    """Return the plan of the namespace, by a policy for which nothing is too young."""
    rules = folder / "policy.yaml"
    rules.write_text(policy("Evict"))
    access = ["--kubeconfig", str(plane.kubeconfig(ACCOUNT)), "--policy", str(rules)]
    ran = rebalancer("plan", *access, "-n", "shop", "-o", "json")
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def pods_of(plane: ControlPlane, app: str) -> dict[str, Manifest]:
    return {pod["metadata"]["name"]: pod for pod in plane.api.list(PODS, labels=f"app={app}")}


def ordered(name: str, **fields: Any) -> Any:
    """Return a StatefulSet that creates its pods in order, and may take three down at once in a rollout."""
    return stateful_set(
        name,
        CROWDED,
        namespace="shop",
        workload={"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3}}},
        topologySpreadConstraints=[spread(ZONE, labels={"app": name})],
        **fields,
    )


def test_what_is_off_by_default_is_neither_served_nor_kept(cluster: ControlPlane) -> None:
    """So none of it can be on a pod of such a cluster; a Deployment has no podReplacementPolicy at all."""
    for path in ("scheduling.k8s.io/v1beta1", "lifecycle.k8s.io/v1alpha1"):
        assert cluster.api.find(f"/apis/{path}") is None
    lay_out(
        cluster,
        [
            *nodes({"a": 1}),
            deployment(
                "web",
                ["a-0"],
                namespace="shop",
                workload={"podReplacementPolicy": "TerminationComplete"},
                schedulingGroup={"podGroupName": "train"},
                evictionResponders=[{"name": "example.com/mover", "priority": 10000}],
            ),
        ],
    )
    spec = cluster.api.get(f"{SHOP}/deployments/web")["spec"]
    (pod,) = pods_of(cluster, "web").values()
    assert "podReplacementPolicy" not in spec
    for pod_spec in (spec["template"]["spec"], pod["spec"]):
        assert not {"schedulingGroup", "evictionResponders"} & pod_spec.keys()


def test_max_unavailable_of_a_stateful_set_changes_no_order_of_creation(cluster: ControlPlane, tmp_path: Path) -> None:
    """With OrderedReady a missing pod waits for every lower ordinal, however many a rollout may take down at once."""
    install(cluster, "base")
    lay_out(cluster, [*nodes({"a": 1, "b": 1, "c": 1}), ordered("web", never_ready=[0])], settle=False)
    said = json.dumps(plan(cluster, tmp_path))
    assert "podManagementPolicy OrderedReady, and pod web-0 is not Ready" in said
    cluster.api.delete(f"{PODS}/web-2")
    wait_until(lambda: "web-2" not in pods_of(cluster, "web"), what="the end of web-2")
    time.sleep(5)
    assert "web-2" not in pods_of(cluster, "web")
    cluster.api.patch(f"{PODS}/web-0", {"metadata": {"labels": {"kwok.test/never-ready": None}}})
    wait_until(lambda: "web-2" in pods_of(cluster, "web"), what="web-2 to be created", timeout=60)


def test_a_rollout_that_takes_several_pods_down_is_one(cluster: ControlPlane, tmp_path: Path) -> None:
    """From 1.37 on that is the default; nothing of the StatefulSet is moved meanwhile."""
    install(cluster, "base")
    lay_out(cluster, [*nodes({"a": 1, "b": 1, "c": 1}), ordered("web")])
    assert plan(cluster, tmp_path)["totals"]["now"] > 0
    slow = {"spec": {"template": {"metadata": {"annotations": {"kwok.test/ready-after": "60s"}}}}}
    cluster.api.patch(f"{SHOP}/statefulsets/web", slow)
    before = set(pods_of(cluster, "web"))

    def is_updating() -> bool:
        revision = cluster.api.get(f"{SHOP}/statefulsets/web")["status"]["updateRevision"]
        pods = pods_of(cluster, "web")
        new = {name for name, pod in pods.items() if pod["metadata"]["labels"][REVISION_HASH] == revision}
        return (new, before - set(pods)) == (({"web-2"}, {"web-3", "web-4"}) if IS_1_37 else ({"web-4"}, set()))

    wait_until(is_updating, what="the first new pod", timeout=60)
    planned = plan(cluster, tmp_path)
    assert planned["totals"]["now"] == 0
    assert {refusal["reason"] for refusal in planned["refusals"]} == {"RolloutInProgress"}


def test_a_node_that_is_drained_is_no_target(cluster: ControlPlane, tmp_path: Path) -> None:
    """Whatever gates are on: the API server keeps the condition, and kube-scheduler places pods there all the same."""
    install(cluster, "base")
    rule = spread(ZONE, labels={"app": "web"})
    web = deployment("web", ["a-0", "a-0", "b-0"], namespace="shop", topologySpreadConstraints=[rule])
    lay_out(cluster, [*nodes({"a": 1, "b": 1, "c": 1}), web])
    assert plan(cluster, tmp_path)["totals"]["now"] == 1
    node = cluster.api.get("/api/v1/nodes/c-0")
    node["status"]["conditions"].append({"type": "DrainInProgress", "status": "True", "reason": "Upgrade"})
    cluster.api.replace(node, subresource="status")
    planned = plan(cluster, tmp_path)
    assert planned["totals"]["now"] == 0
    assert "its condition DrainInProgress says that it is drained" in json.dumps(planned)
    cluster.api.patch(f"{SHOP}/deployments/web", {"spec": {"replicas": 4}})
    wait_until(lambda: "c-0" in {pod["spec"].get("nodeName") for pod in pods_of(cluster, "web").values()}, what="c-0")


def test_the_current_revision_under_on_delete_follows_from_1_37_on(cluster: ControlPlane) -> None:
    """Once every pod has been deleted by hand; before, it stays at the first revision. Nothing is decided by it."""
    by_hand = {"updateStrategy": {"type": "OnDelete"}}
    lay_out(cluster, [*nodes({"a": 1}), stateful_set("web", ["a-0"], namespace="shop", workload=by_hand)])
    template = {"spec": {"template": {"metadata": {"annotations": {"build": "2"}}}}}
    generation = cluster.api.patch(f"{SHOP}/statefulsets/web", template)["metadata"]["generation"]

    def status() -> dict[str, Any]:
        now: dict[str, Any] = cluster.api.get(f"{SHOP}/statefulsets/web")["status"]
        return now

    wait_until(lambda: status()["observedGeneration"] == generation, what="the new revision")
    assert status()["currentRevision"] != status()["updateRevision"]
    cluster.api.delete(f"{PODS}/web-0")
    wait_until(lambda: (status().get("updatedReplicas"), status().get("readyReplicas")) == (1, 1), what="the new pod")
    time.sleep(2)
    assert (status()["currentRevision"] == status()["updateRevision"]) is IS_1_37


@pytest.mark.skipif(not IS_1_37, reason="minReplicas may be 0 by default from 1.37 on")
def test_an_autoscaler_that_may_scale_to_zero_is_about_to_scale_nothing(cluster: ControlPlane, tmp_path: Path) -> None:
    """Its minReplicas is read as 0, not as the default 1, of the cluster and of a dump."""
    install(cluster, "base")
    web = deployment(
        "web", ["a-0", "a-0"], namespace="shop", topologySpreadConstraints=[spread(ZONE, labels={"app": "web"})]
    )
    lay_out(cluster, [*nodes({"a": 1, "b": 1}), web])
    cluster.api.create(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 0,
                "maxReplicas": 4,
                "metrics": [
                    {
                        "type": "External",
                        "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "1"}},
                    }
                ],
            },
        }
    )
    transport = connect(kubeconfig=str(cluster.kubeconfig(ACCOUNT)))
    (autoscaler,) = read_once(transport, datetime.now(UTC)).autoscalers
    transport.close()
    assert (autoscaler.min_replicas, autoscaler.max_replicas) == (0, 4)
    dump = rebalancer("snapshot", "--kubeconfig", str(cluster.kubeconfig(ACCOUNT))).stdout
    assert b'"minReplicas":0' in dump
    assert plan(cluster, tmp_path)["totals"]["now"] == 1
