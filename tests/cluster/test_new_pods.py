"""What decides about new pods, on a real API server: read live, with the roles of deploy/, and from a dump."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rebalancer.adapters.files import read_snapshot
from rebalancer.adapters.kubernetes.listing import read_once
from rebalancer.adapters.kubernetes.transport import Transport, connect
from rebalancer.decoding.kinds import OPTIONAL_KINDS
from rebalancer.model.creation import EndpointSlice, ResourceQuota, ServiceAccount
from rebalancer.model.snapshot import OPTIONAL
from tests.cluster.controller import ACCOUNT, NAMESPACE, Controller, install, policy, rebalancer
from tests.cluster.test_install import GATE
from tests.cluster.test_repair import balanced, lay_out_shop
from tests.control_plane.api import wait_until
from tests.control_plane.build import serves_device_classes, serves_mutating_policies
from tests.control_plane.layout import lay_out, lose_nodes, nodes, return_nodes
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest, object_path
from tests.control_plane.settling import wait_settled

QUOTA: Manifest = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "pods", "namespace": "shop"},
    "spec": {"hard": {"pods": "9", "requests.cpu": "1500m"}},
}
LIMITS: Manifest = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "limits", "namespace": "shop"},
    "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}]},
}
CLASS: Manifest = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "sandboxed"},
    "handler": "sandboxed",
    "overhead": {"podFixed": {"cpu": "250m"}},
}
SLICE: Manifest = {
    "apiVersion": "discovery.k8s.io/v1",
    "kind": "EndpointSlice",
    "metadata": {"name": "gate-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "gate"}},
    "addressType": "IPv4",
    "endpoints": [
        {"addresses": ["10.0.0.1"], "conditions": {"ready": True}},
        {"addresses": ["10.0.0.2"], "conditions": {"ready": False}},
    ],
}
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
NOT_SERVED = {
    *("NodePool", "VerticalPodAutoscaler", "ClusterResourceQuota", "PodGroup"),
    *(() if serves_device_classes() else ["DeviceClass"]),
    *(() if serves_mutating_policies() else ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"]),
}


@pytest.fixture
def transport(cluster: ControlPlane) -> Iterator[Transport]:
    """Have what decides about new pods of the namespace shop, and give the client of the controller's account."""
    install(cluster, "base")
    lay_out(cluster, nodes({"a": 1}))
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "red"}}}
    cluster.api.apply([shop, QUOTA, LIMITS, CLASS, SLICE, GATE])
    account = "/api/v1/namespaces/shop/serviceaccounts/default"
    wait_until(lambda: cluster.api.get(object_path(QUOTA)).get("status", {}).get("used"), what="the quota's status")
    wait_until(lambda: cluster.api.find(account), what="the namespace's service account")
    transport = connect(kubeconfig=str(cluster.kubeconfig(ACCOUNT)))
    try:
        yield transport
    finally:
        transport.close()
        for one in (CLASS, GATE):
            cluster.api.delete(object_path(one))


def test_what_is_read_live_has_the_time_of_its_last_change(transport: Transport) -> None:
    """With the defaults that the API server adds; kinds that are not served are not known, without a word."""
    now = datetime.now(UTC)
    live = read_once(transport, now)
    assert live.known == OPTIONAL - NOT_SERVED
    assert live.unknown == frozenset()
    hard = (("pods", 9), ("requests.cpu", 1500))
    assert list(live.quotas) == [
        ResourceQuota(namespace="shop", name="pods", hard=hard, used=tuple((name, 0) for name, _ in hard))
    ]
    (limits,) = live.limit_ranges
    assert limits.items[0].default_limits == (("cpu", 2000),)
    assert limits.items[0].default_requests == (("cpu", 2000), ("memory", 2**20))
    assert ServiceAccount("shop", "default") in live.service_accounts
    assert list(live.endpoint_slices) == [EndpointSlice(namespace="shop", name="gate-1", service="gate", ready=1)]
    (runtime_class,) = live.runtime_classes
    assert runtime_class.overhead == (("cpu", 250),)
    assert next(one.webhooks for one in live.webhooks if one.name == "gate")
    for dated in (limits, live.namespace["shop"]):
        assert dated.changed is not None
        assert abs(now - dated.changed) < timedelta(minutes=5)


def test_a_dump_of_the_cluster_is_read_as_the_cluster(
    cluster: ControlPlane, transport: Transport, tmp_path: Path
) -> None:
    """Each kind that may be listed, with the times of the last changes."""
    file = tmp_path / "dump.json"
    done = rebalancer("snapshot", "--kubeconfig", str(cluster.kubeconfig(ACCOUNT)), "-o", str(file))
    assert done.returncode == 0, done.stderr
    live = read_once(transport, datetime.now(UTC))
    dumped, _ = read_snapshot(file.read_bytes(), version=live.version, at=None, source="dump")
    for field in sorted({"namespaces", "known"} | {kind.field for kind in OPTIONAL_KINDS}):
        assert getattr(dumped, field) == getattr(live, field), field


def test_with_the_roles_of_an_earlier_version_it_repairs_as_before(cluster: ControlPlane, tmp_path: Path) -> None:
    """Each missing right is one line in the log and named in the status; the breaker stays shut."""
    install(cluster, "base", "evict")
    optional = {kind.plural for kind in OPTIONAL_KINDS}
    for name in ("rebalancer", "rebalancer-workloads"):
        role = cluster.api.get(f"{ROLES}/{name}")
        rules = [
            {**rule, "resources": left}
            for rule in role["rules"]
            if (left := [resource for resource in rule["resources"] if resource not in optional])
        ]
        cluster.api.patch(f"{ROLES}/{name}", {"rules": rules})
    lay_out_shop(cluster)
    lost = lose_nodes(cluster, "c-0", "c-1")
    wait_settled(cluster)
    return_nodes(cluster, lost)
    with Controller(cluster, tmp_path, policy("Evict")) as controller:
        wait_until(lambda: balanced(cluster.api), what="the whole repair", timeout=90)
        assert not any(line["breaker"] for line in controller.log("cycle"))
        missing = sorted(OPTIONAL - {"EndpointSlice"})
        assert sorted(line["kind"] for line in controller.log("not allowed to list")) == missing
        assert controller.stop() == 0
    status = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status")
    assert json.loads(status["data"]["status.json"])["forbiddenKinds"] == missing
