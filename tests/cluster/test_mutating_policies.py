"""A MutatingAdmissionPolicy on a real API server: what it is for is moved once a new pod shows what it does."""

import time
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.controller import USER, Controller, install, policy
from tests.cluster.test_creation import ALL_AT_ONCE, read_refusals
from tests.cluster.test_namespaces import repaired, skewed
from tests.control_plane.api import Api, wait_until
from tests.control_plane.build import serves_mutating_policies
from tests.control_plane.layout import lay_out, nodes
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest

GROUP: Final = "admissionregistration.k8s.io/v1"
PINNED: Final = "pinned"
FREE: Final = "free"
IN_FORCE: Final = 12
"""Seconds after which a new pod shows what a policy does; the times of objects are in whole seconds."""


def pin_to_zone_b(space: str) -> list[Manifest]:
    """Return a policy that has new pods select the nodes of zone b, and its binding, which is for one namespace."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    expression = f'[JSONPatch{{op: "add", path: "/spec/nodeSelector", value: {{"{ZONE}": "b"}}}}]'
    return [
        {
            "apiVersion": GROUP,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": "pin"},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
            },
        },
        {
            "apiVersion": GROUP,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": "pin-there"},
            "spec": {
                "policyName": "pin",
                "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}}},
            },
        },
    ]


def living(api: Api) -> list[Manifest]:
    pods = api.list(f"/api/v1/namespaces/{PINNED}/pods", labels="app=web-0")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def restart_one(api: Api) -> None:
    """Delete a pod of web-0, and wait for one that the policy has changed."""
    name = living(api)[0]["metadata"]["name"]
    api.delete(f"/api/v1/namespaces/{PINNED}/pods/{name}")
    wait_until(
        lambda: any(
            pod["spec"].get("nodeSelector") == {ZONE: "b"} and pod["spec"].get("nodeName") for pod in living(api)
        ),
        what="a pod that the policy has changed",
    )


def not_predicted(plane: ControlPlane, folder: Path) -> set[str]:
    """Return the groups of the namespace that are refused for what the policy may do, by `rebalancer plan`."""
    return {
        refusal["workload"]["name"]
        for refusal in read_refusals(plane, folder)
        if refusal["namespace"] == PINNED and "MutatingAdmissionPolicy pin (binding pin-there)" in refusal["message"]
    }


@pytest.mark.skipif(not serves_mutating_policies(), reason="MutatingAdmissionPolicies came with Kubernetes 1.36")
def test_what_a_mutating_policy_is_for_is_not_moved_until_a_pod_shows_what_it_does(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Others are repaired. By the audit log nothing is evicted in its namespace; a pod that is restarted shows it."""
    install(cluster, "base", "evict")
    workloads = [skewed(f"web-{index}", space) for space in (PINNED, FREE) for index in range(2)]
    lay_out(cluster, [*nodes({"a": 2, "b": 2, "c": 2}), *workloads], timeout=120)
    cluster.api.apply(pin_to_zone_b(PINNED))
    with Controller(cluster, tmp_path, policy("Evict", budgets=ALL_AT_ONCE, groups=[])) as controller:
        wait_until(lambda: repaired(cluster.api, FREE) == 2, what="the repairs of the other namespace", timeout=60)
        controller.wait_for("cycle", count=len(controller.log("cycle")) + 3)
        assert len(not_predicted(cluster, tmp_path)) == 2
        time.sleep(IN_FORCE)
        restart_one(cluster.api)
        wait_until(lambda: len(not_predicted(cluster, tmp_path)) == 1, what="a prediction of web-0", timeout=30)
        assert controller.stop() == 0
    assert {request.namespace for request in cluster.audit.evictions(user=USER)} == {FREE}
