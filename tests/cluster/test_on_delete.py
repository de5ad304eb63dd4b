"""A StatefulSet with `updateStrategy: OnDelete`, its template newer than its pods: somebody holds the rollout back."""

import json
from pathlib import Path
from typing import Any

from tests.cluster.controller import ACCOUNT, NAMESPACE, USER, Controller, install, policy, rebalancer
from tests.control_plane.api import Api, wait_until
from tests.control_plane.layout import lay_out, nodes, spread, stateful_set
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.workloads import REVISION_HASH

SETS = "/apis/apps/v1/namespaces/shop/statefulsets"
PODS = "/api/v1/namespaces/shop/pods"


def revisions(api: Api) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["labels"][REVISION_HASH] for pod in api.list(PODS)}


def set_template(api: Api, annotations: dict[str, Any] | None) -> str:
    """Give the pods' template these annotations; return the revision to which the StatefulSet updates then."""
    changed = api.patch(f"{SETS}/od", {"spec": {"template": {"metadata": {"annotations": annotations}}}})

    def status() -> dict[str, Any] | None:
        now: dict[str, Any] = api.get(f"{SETS}/od")["status"]
        return now if now["observedGeneration"] >= changed["metadata"]["generation"] else None

    now = wait_until(status, what="the StatefulSet's status")
    assert now is not None
    return str(now["updateRevision"])


def test_a_rollout_that_on_delete_holds_back_is_not_carried_out(cluster: ControlPlane, tmp_path: Path) -> None:
    """No eviction is requested, and status and `plan` name both revisions; once they are one, the repair goes on."""
    install(cluster, "base", "evict")
    lay_out(
        cluster,
        [
            *nodes({"a": 1, "b": 1, "c": 1}),
            stateful_set(
                "od",
                {"a-0": 3, "b-0": 1},
                namespace="shop",
                workload={"updateStrategy": {"type": "OnDelete"}},
                topologySpreadConstraints=[spread(ZONE, labels={"app": "od"})],
            ),
        ],
    )
    before = revisions(cluster.api)
    (old,) = set(before.values())
    new = set_template(cluster.api, {"build": "2"})
    assert new != old
    with Controller(cluster, tmp_path, policy("Evict")) as controller:
        controller.wait_for("cycle", count=5)
        status = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status")["data"]["status.json"]
        assert json.loads(status)["refusals"] == {"RolloutInProgress": 1}
        plan = rebalancer("plan", "--kubeconfig", str(cluster.kubeconfig(ACCOUNT)), "-n", "shop").stdout.decode()
        message = f"updateStrategy OnDelete, and pod od-0 is of revision {old}: "
        assert message in plan
        assert f"would come back at updateRevision {new}" in plan
        snapshot = rebalancer("snapshot", "--kubeconfig", str(cluster.kubeconfig(ACCOUNT))).stdout
        assert message in rebalancer("plan", "--snapshot", "-", stdin=snapshot).stdout.decode(), "a dump has it too"
        assert cluster.audit.evictions() == []
        assert revisions(cluster.api) == before

        assert set_template(cluster.api, {"build": None}) == old
        wait_until(lambda: cluster.audit.evictions(user=USER, code=201), what="the eviction of one pod", timeout=60)
        wait_until(lambda: set(revisions(cluster.api)) == set(before), what="its replacement", timeout=30)
        assert set(revisions(cluster.api).values()) == {old}
        assert controller.stop() == 0
