"""What nobody can see beforehand costs a few pods: a webhook that is down, a frozen controller, a missing image.

Each scene runs with the shipped budgets, in which sixty evictions a minute may go.
"""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.controller import USER, Controller, hide, install, policy, rebalancer
from tests.cluster.test_namespaces import ALL_AT_ONCE, STATUS, limit_pods
from tests.control_plane.api import Api, wait_until
from tests.control_plane.layout import (
    Workload,
    deployment,
    lay_out,
    lay_out_owned,
    nodes,
    spread,
    stateful_set,
)
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.settling import pod_ready
from tests.control_plane.stages import NO_IMAGE_ON

NODES: Final = {"a": 6, "b": 6, "c": 6}
ON: Final = ["a-0", "a-1", "b-0", "b-1"]
SHIPPED: Final = policy("Evict", interval="10s")
"""Shipped budgets, and no waiting times."""


def skewed(name: str, space: str, *, number: int = 0, **labels: str) -> Workload:
    """Return a Deployment of four pods, of which one has to go to zone c; `number` says on which nodes they are."""
    on = [f"{zone}-{(number + index) % 6}" for zone in "ab" for index in range(2)]
    own = {"app": name, **labels}
    spreads = [spread(ZONE, labels={"app": name})]
    return deployment(name, on, namespace=space, labels=own, cpu="10m", topologySpreadConstraints=spreads)


def lay_out_many(plane: ControlPlane, workloads: Iterable[Workload]) -> None:
    lay_out_owned(plane, nodes(NODES), list(workloads), timeout=180)


def evictions(plane: ControlPlane) -> Counter[str]:
    """Count the granted evictions by workload, NAMESPACE/NAME."""
    granted = [one for one in plane.audit.evictions(user=USER) if one.code == 201]
    names = [one.name.split("-") for one in granted]
    return Counter(f"{one.namespace}/{'-'.join(name[:2])}" for one, name in zip(granted, names, strict=True))


def repaired(api: Api) -> set[str]:
    """Return the workloads of which a pod is Ready in zone c, NAMESPACE/NAME."""
    return {
        f"{pod['metadata']['namespace']}/{pod['metadata']['labels']['app']}"
        for pod in api.list("/api/v1/pods")
        if pod["spec"].get("nodeName", "").startswith("c") and is_ready(pod)
    }


def is_ready(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod_ready(pod)


def status(api: Api) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(api.get(STATUS).get("data", {}).get("status.json", "{}"))
    return document


def open_causes(api: Api) -> list[str]:
    causes: list[str] = status(api).get("breaker", {}).get("causes", [])
    return causes


@contextmanager
def webhook_down(api: Api) -> Iterator[None]:
    """Let a webhook that nothing answers decide about all pods outside the system's namespaces."""
    webhook: dict[str, Any] = {
        "name": "pods.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    api.create({**kind, "metadata": {"name": "pods"}, "webhooks": [webhook]})
    try:
        yield
    finally:
        api.delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/pods")


@pytest.mark.thorough
def test_a_webhook_that_refuses_all_pods_costs_six(cluster: ControlPlane, tmp_path: Path) -> None:
    """Of 90 workloads in 30 namespaces, in a minute; before, 60. It goes on within a minute after it answers again."""
    install(cluster, "base", "evict")
    lay_out_many(cluster, (skewed(f"web-{n}", f"team-{space}", number=n) for space in range(30) for n in range(3)))
    with Controller(cluster, tmp_path, SHIPPED) as controller:
        with webhook_down(cluster.api):
            controller.wait_for("eviction")
            time.sleep(60)
            hurt = evictions(cluster)
            assert 2 <= hurt.total() <= 6
            assert open_causes(cluster.api) == ["replacements"]
            assert controller.metrics()['rebalancer_breaker_open{cause="replacements"}'] == 1
            (cycle,) = controller.log("cycle")[-1:]
            assert cycle["now"] == 0
            assert set(cycle["waiting_for"]) <= {"BreakerOpen", "CannotCreate"}
        answered = time.monotonic()
        wait_until(lambda: evictions(cluster).total() >= hurt.total() + 2, what="evictions to go on", timeout=60)
        print(f"{hurt.total()} evictions in 60 s; went on after {time.monotonic() - answered:.1f} s")
        wait_until(lambda: not open_causes(cluster.api), what="the breaker to close", timeout=30)


@pytest.mark.invariant("slow-start")
@pytest.mark.parametrize("how", ["frozen", pytest.param("dead", marks=pytest.mark.thorough)])
def test_a_controller_manager_that_creates_nothing_costs_four(cluster: ControlPlane, tmp_path: Path, how: str) -> None:
    """Of 16 workloads in four namespaces, in 40 s; before, 30 of 30. All are repaired once it is back."""
    install(cluster, "base", "evict")
    names = [(f"web-{n}", f"team-{space}", n) for space in range(4) for n in range(4)]
    lay_out_many(cluster, (skewed(name, space, number=n) for name, space, n in names))
    process = cluster.running["kube-controller-manager"]
    with Controller(cluster, tmp_path, SHIPPED) as controller:
        controller.wait_for("cycle")
        with _stopped(cluster, process, how):
            controller.wait_for("eviction")
            time.sleep(40)
            hurt = evictions(cluster)
            assert 1 <= hurt.total() <= 4
            # What was evicted before it stood still has been replaced; the rest says that nothing is.
            assert controller.log("cycle")[-1]["now"] == 0
        wait_until(lambda: len(repaired(cluster.api)) == len(names), what="the repair of all", timeout=150)
    assert evictions(cluster).total() == len(names)


@contextmanager
def _stopped(plane: ControlPlane, process: int, how: str) -> Iterator[None]:
    if how == "dead":
        with plane.without("kube-controller-manager"):
            yield
        return
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.mark.thorough
def test_stateful_sets_in_a_full_namespace_cost_two(cluster: ControlPlane, tmp_path: Path) -> None:
    """Of twelve; before, all in three seconds: their controller reports nothing for half a minute."""
    install(cluster, "base", "evict")
    hide(cluster, "resourcequotas")
    spreads = {f"db-{n}": [spread(ZONE, labels={"app": f"db-{n}"})] for n in range(12)}
    sets = [
        stateful_set(name, ON, namespace="shop", cpu="10m", topologySpreadConstraints=constraints)
        for name, constraints in spreads.items()
    ]
    lay_out(cluster, [*nodes(NODES), *sets], timeout=120)
    limit_pods(cluster.api, "shop", hard=24, used=48)
    with Controller(cluster, tmp_path, SHIPPED) as controller:
        controller.wait_for("eviction")
        time.sleep(50)
        assert 1 <= evictions(cluster).total() <= 2
        (held,) = status(cluster.api)["breaker"]["namespaces"]
        assert held["namespace"] == "shop"
        cluster.api.delete("/api/v1/namespaces/shop/resourcequotas/pods")
        wait_until(lambda: len(repaired(cluster.api)) == 12, what="the repair of all", timeout=120)


@pytest.mark.thorough
def test_a_registry_that_refuses_costs_eight(cluster: ControlPlane, tmp_path: Path) -> None:
    """Of 60 workloads in ten namespaces: no image can be pulled on the nodes of zone c."""
    install(cluster, "base", "evict")
    lay_out_many(
        cluster,
        (skewed(f"web-{n}", f"team-{space}", number=n, **{NO_IMAGE_ON: "c"}) for space in range(10) for n in range(6)),
    )
    with Controller(cluster, tmp_path, SHIPPED) as controller:
        controller.wait_for("eviction")
        time.sleep(60)
        hurt = evictions(cluster)
        print(f"{hurt.total()} evictions in 60 s")
        assert 2 <= hurt.total() <= 8
        assert open_causes(cluster.api) == ["replacements"]
        assert controller.metrics()["rebalancer_replacements_overdue"] >= 2


@pytest.mark.invariant("slow-start")
def test_one_workload_without_an_image_stops_itself_alone(cluster: ControlPlane, tmp_path: Path) -> None:
    """It loses one pod of the two that have to go; the others of its namespace are repaired."""
    install(cluster, "base", "evict")
    on = {"a-0": 2, "a-1": 2, "b-0": 2, "b-1": 2}
    gone = deployment(
        "web-gone",
        on,
        namespace="shop",
        labels={"app": "web-gone", NO_IMAGE_ON: "c"},
        cpu="10m",
        topologySpreadConstraints=[spread(ZONE, labels={"app": "web-gone"})],
    )
    lay_out_many(cluster, [gone, *(skewed(f"web-{n}", "shop", number=n) for n in range(8))])
    generous = policy("Evict", interval="10s", budgets={"maxUnavailable": 2, "perWorkload": 2})
    with Controller(cluster, tmp_path, generous) as controller:
        wait_until(lambda: len(repaired(cluster.api)) == 8, what="the repair of the others", timeout=120)
        cycles = len(controller.log("cycle"))
        controller.wait_for("cycle", count=cycles + 2)
        assert evictions(cluster)["shop/web-gone"] <= 1
        assert not open_causes(cluster.api)
        if evictions(cluster)["shop/web-gone"]:
            assert controller.log("cycle")[-1]["waiting_for"].keys() & {"SlowStart", "BlockedByBudget"}


def test_two_tenants_with_full_quotas_stop_themselves_alone(cluster: ControlPlane, tmp_path: Path) -> None:
    """All other namespaces are repaired meanwhile: a quota says nothing about the cluster."""
    install(cluster, "base", "evict")
    hide(cluster, "resourcequotas")
    lay_out_many(cluster, (skewed(f"web-{n}", f"team-{space}", number=n) for space in range(6) for n in range(4)))
    for tenant in ("team-0", "team-1"):
        limit_pods(cluster.api, tenant, hard=8, used=16)
    with Controller(cluster, tmp_path, SHIPPED) as controller:
        wait_until(lambda: len(repaired(cluster.api)) == 16, what="the repair of the others", timeout=120)
        wait_until(
            lambda: {one["namespace"] for one in status(cluster.api)["breaker"]["namespaces"]} == {"team-0", "team-1"},
            what="the status to name both",
            timeout=60,
        )
        assert not open_causes(cluster.api)
        hurt = Counter(name.partition("/")[0] for name in evictions(cluster).elements())
        assert all(hurt[tenant] <= 1 for tenant in ("team-0", "team-1"))
        assert controller.log("cycle")[-1]["waiting_for"].keys() == {"CannotCreate"}


def skewed_with_image(name: str, space: str, image: str, number: int, **labels: str) -> Workload:
    """Return a Deployment as `skewed` does, with an image of its own."""
    on = [f"{zone}-{(number + index) % 6}" for zone in "ab" for index in range(2)]
    container = {"name": "app", "image": image, "resources": {"requests": {"cpu": "10m"}}}
    spreads = [spread(ZONE, labels={"app": name})]
    own = {"app": name, **labels}
    return deployment(name, on, namespace=space, labels=own, containers=[container], topologySpreadConstraints=spreads)


@pytest.mark.invariant("own-failures")
def test_a_tenants_missing_images_do_not_hold_up_others(cluster: ControlPlane, tmp_path: Path) -> None:
    """Three namespaces, each with an image that cannot be pulled: twelve workloads of others are repaired in a minute.

    Before, none of them was after 100 s. The tenant's namespaces lose a pod each, and their names come first.
    """
    install(cluster, "base", "evict")
    missing = [(f"acme-{n}", f"registry.example.com/acme-{n}:1", {NO_IMAGE_ON: "c"}) for n in range(3)]
    bad = [skewed_with_image("web-0", space, image, n, **labels) for n, (space, image, labels) in enumerate(missing)]
    honest = [
        skewed_with_image(f"web-{n}", f"team-{n % 4}", f"registry.example.com/team-{n % 4}:1", n) for n in range(12)
    ]
    lay_out_many(cluster, [*bad, *honest])
    with Controller(cluster, tmp_path, SHIPPED) as controller:
        controller.wait_for("eviction")
        began = time.monotonic()
        wait_until(lambda: len(repaired(cluster.api)) == 12, what="the repair of the others", timeout=90)
        print(f"12 workloads were repaired {time.monotonic() - began:.1f} s after the first eviction")
        assert time.monotonic() - began <= 60
        wait_until(
            lambda: sum(name.startswith("acme") for name in evictions(cluster).elements()) == 3,
            what="one eviction in each of the tenant's namespaces",
            timeout=60,
        )
        time.sleep(20)
        hurt = {name: number for name, number in evictions(cluster).items() if name.startswith("acme")}
        print(f"evictions of the tenant: {hurt}; own failures: {controller.metrics()['rebalancer_own_failures']}")
        assert hurt == {f"acme-{n}/web-0": 1 for n in range(3)}
        assert controller.metrics()["rebalancer_own_failures"] >= 1


@pytest.mark.thorough
def test_a_pod_that_ends_within_a_long_grace_period_is_no_lost_move(cluster: ControlPlane, tmp_path: Path) -> None:
    """Twenty minutes, of which a finalizer keeps it for one and a half. Its workload waits, others are repaired."""
    install(cluster, "base", "evict")
    own = [spread(ZONE, labels={"app": "db"})]
    slow = stateful_set(
        "db", ON, namespace="shop", cpu="10m", topologySpreadConstraints=own, terminationGracePeriodSeconds=1200
    )
    for pod in slow.pods:
        pod["metadata"]["finalizers"] = ["example.com/handover"]
    lay_out(cluster, [*nodes(NODES), slow, *(skewed(f"web-{n}", "shop", number=n) for n in range(4))], timeout=120)
    access = ("--kubeconfig", str(cluster.kubeconfig()), "--policy", str(tmp_path / "policy.yaml"))
    with Controller(cluster, tmp_path, policy("Observe", interval="10s", budgets=ALL_AT_ONCE)) as controller:
        controller.wait_for("cycle")
        planned = json.loads(rebalancer("plan", "-n", "shop", "-o", "json", *access).stdout)
        (named,) = [one["message"] for one in planned["evictions"] if one["pod"].startswith("db")]
        assert named.endswith("The pod may take 20m to end (terminationGracePeriodSeconds)")
        controller.policy_file.write_text(SHIPPED)
        wait_until(lambda: _going(cluster.api), what="the eviction of a pod of db", timeout=60)
        evicted = time.monotonic()
        wait_until(lambda: len(repaired(cluster.api)) == 4, what="the repair of the others", timeout=60)
        time.sleep(max(0.0, evicted + 90 - time.monotonic()))
        (going,) = _going(cluster.api)
        moves = {move["pod"]: move["state"] for move in status(cluster.api)["inFlight"]}
        assert moves == {going: "evicted"}
        assert status(cluster.api)["slowStart"]["underWay"] == 0, "it has left the windows"
        path = f"/api/v1/namespaces/shop/pods/{going}"
        cluster.api.patch(path, {"metadata": {"finalizers": None}})
        wait_until(lambda: "shop/db" in repaired(cluster.api), what="the replacement of it", timeout=60)
        wait_until(
            lambda: (
                {"shop/db"}
                == {
                    f"{move['namespace']}/{move['workload']['name']}"
                    for move in status(cluster.api)["lastMoves"]
                    if move["pod"] == going and move["state"] == "verified"
                }
            ),
            what="the move to be verified",
            timeout=30,
        )
    assert evictions(cluster).total() == 5


def _going(api: Api) -> list[str]:
    pods = api.list("/api/v1/namespaces/shop/pods")
    return [
        pod["metadata"]["name"]
        for pod in pods
        if "deletionTimestamp" in pod["metadata"] and pod["metadata"]["name"].startswith("db")
    ]
