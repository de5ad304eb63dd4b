"""Team policies on a real control plane, with the rights of deploy/: stricter in the team's namespace, never looser."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controller import ACCOUNT, NAMESPACE, USER, Controller, install, manifests, policy, rebalancer
from tests.cluster.test_observing import skewed
from tests.cluster.test_repair import balanced
from tests.control_plane.api import ApiError, wait_until
from tests.control_plane.plane import ControlPlane

PATH = "/api/v1/namespaces/shop/configmaps/rebalancer-policy"
HEAD = "apiVersion: rebalancer.dev/v1alpha1\nkind: TeamPolicy\n"
LIMIT = (
    "groups: [{name: own, selector: {}, limits: [{name: zone-third, topologyKey: topology.kubernetes.io/zone, "
    'maxShare: "<=1/3", severity: critical}]}]\n'
)
HOLDING = HEAD + "budgets: {maxUnavailable: 0}\n" + LIMIT
POLICY = policy("Evict", teamPolicies={"namespaces": ["shop"]})


@pytest.fixture(autouse=True)
def _without_team_policy(cluster: ControlPlane) -> Iterator[None]:
    yield
    cluster.api.delete(PATH, missing_ok=True)
    for kind in ("roles", "rolebindings"):
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/shop/{kind}/rebalancer-team-policy"
        cluster.api.delete(path, missing_ok=True)


def grant(cluster: ControlPlane) -> None:
    """Apply deploy/team to the shop, as `kubectl apply -n shop -k deploy/team` does."""
    team = manifests("team")
    cluster.api.apply({**manifest, "metadata": {**manifest["metadata"], "namespace": "shop"}} for manifest in team)


def write(cluster: ControlPlane, text: str) -> None:
    """Write the shop's team policy."""
    metadata = {"name": "rebalancer-policy", "namespace": "shop"}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"policy.yaml": text}}
    cluster.api.apply([manifest])


def notes(cluster: ControlPlane, reason: str) -> str:
    """Return the notes of all events of a reason on the shop's team policy."""
    events = cluster.api.list("/apis/events.k8s.io/v1/namespaces/shop/events")
    return "\n".join(
        event["note"]
        for event in events
        if event["regarding"]["name"] == "rebalancer-policy" and event["reason"] == reason
    )


def status(cluster: ControlPlane) -> dict[str, Any]:
    """Return the policy in the controller's status."""
    text = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/rebalancer-status")["data"]["status.json"]
    entry: dict[str, Any] = json.loads(text)["policy"]
    return entry


def is_valid(controller: Controller) -> float | None:
    return controller.metrics().get('rebalancer_team_policy_valid{namespace="shop"}')


def violated_limits(controller: Controller) -> int:
    rows = controller.metrics().items()
    return sum(value == 1 for name, value in rows if 'group="shop/own"' in name and 'state="Violated"' in name)


def await_cycles(controller: Controller, number: int) -> None:
    controller.wait_for("cycle", count=len(controller.log("cycle")) + number)


@pytest.mark.invariant("team-policies")
def test_a_team_adds_limits_and_holds_its_pods_back_and_cannot_loosen(cluster: ControlPlane, tmp_path: Path) -> None:
    """Each of its edits is in force or reported; what it may not do has no effect; without it all is repaired."""
    install(cluster, "base", "evict")
    skewed(cluster)
    grant(cluster)
    write(cluster, HOLDING)
    with Controller(cluster, tmp_path, POLICY) as controller:
        controller.wait_for("cycle", count=3)
        assert cluster.audit.evictions() == [], "read before the first cycle"
        assert violated_limits(controller) == 2
        assert is_valid(controller) == 1
        events = cluster.api.list("/apis/events.k8s.io/v1/namespaces/shop/events")
        assert "ShareLimitViolated" in {event["reason"] for event in events}

        write(cluster, HOLDING.replace("{maxUnavailable: 0}", "{maxUnavailable: 0, perWorkload: 90%}"))
        wait_until(lambda: is_valid(controller) == 0, what="the metric of the larger budget")
        wait_until(lambda: "budgets.perWorkload: found 90%" in notes(cluster, "PolicyInvalid"), what="the event")
        await_cycles(controller, 2)
        assert (status(cluster)["teamsInvalid"], status(cluster)["valid"]) == (1, True)
        assert "budgets.perWorkload" in status(cluster)["teamErrors"][0]["error"]

        write(cluster, HOLDING + "eligibility: {}\n")
        wait_until(lambda: "eligibility: unknown field" in notes(cluster, "PolicyInvalid"), what="the second event")
        await_cycles(controller, 2)
        assert violated_limits(controller) == 2, "the last valid policy stays in force"
        assert is_valid(controller) == 0

        write(cluster, HOLDING)
        wait_until(lambda: is_valid(controller) == 1, what="the metric of the valid policy")
        wait_until(lambda: "1 group with 1 limit" in notes(cluster, "PolicyReloaded"), what="the event of the reload")
        assert cluster.audit.evictions() == []

        plan = rebalancer("plan", "--policy", str(controller.policy_file), "--kubeconfig", str(cluster.kubeconfig()))
        assert plan.returncode == 0, plan.stderr
        assert b"budgets.maxUnavailable of the team policy" in b" ".join(plan.stdout.split()), "lines are wrapped"

        cluster.api.delete(PATH)
        wait_until(lambda: balanced(cluster.api), what="balance", timeout=90)
        assert is_valid(controller) is None
        assert controller.stop() == 0
    assert [eviction.code for eviction in cluster.audit.evictions(user=USER)] == [201] * 6
    requests = cluster.audit.requests(user=USER)
    assert not [request for request in requests if request.code == 403]
    read = {
        (request.verb, request.resource, request.name)
        for request in requests
        if request.namespace == "shop" and request.resource == "configmaps"
    }
    assert read == {("get", "configmaps", "rebalancer-policy")}


def test_without_the_right_to_read_it_the_namespace_is_left_alone(cluster: ControlPlane, tmp_path: Path) -> None:
    """That is reported and concerns no other; deploy/team gives the right, and the repair begins."""
    install(cluster, "base", "evict")
    skewed(cluster)
    with Controller(cluster, tmp_path, POLICY) as controller:
        controller.wait_for("cycle", count=3)
        assert cluster.audit.evictions() == []
        wait_until(lambda: "deploy/team has the Role" in notes(cluster, "PolicyInvalid"), what="the event")
        assert is_valid(controller) == 0
        metrics = controller.metrics()
        assert metrics['rebalancer_refusals{reason="Excluded"}'] >= 2
        assert not [name for name, value in metrics.items() if "breaker_open" in name and value]
        grant(cluster)
        wait_until(lambda: balanced(cluster.api), what="balance", timeout=150)
    assert [eviction.code for eviction in cluster.audit.evictions(user=USER)] == [201] * 6


def test_the_right_is_for_one_object(cluster: ControlPlane) -> None:
    """Neither another ConfigMap of the namespace nor a list of them can be read, and nothing written."""
    install(cluster, "base", "evict")
    skewed(cluster)
    grant(cluster)
    write(cluster, HEAD)
    account = cluster.api_as(ACCOUNT)
    assert account.get(PATH)["data"]["policy.yaml"] == HEAD
    for path in (PATH.replace("rebalancer-policy", "kube-root-ca.crt"), PATH.rpartition("/")[0]):
        with pytest.raises(ApiError) as caught:
            account.get(path)
        assert caught.value.code == 403
    with pytest.raises(ApiError) as caught:
        account.patch(PATH, {"data": {"policy.yaml": ""}})
    assert caught.value.code == 403
