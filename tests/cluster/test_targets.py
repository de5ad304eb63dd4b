"""Nodes and namespaces where a replacement would not stay, start or find its data, on real servers: nothing is sent.

Each test shows first that the servers would do it (the scheduler chooses the node, the taint manager ends the pod, the
API server refuses the eviction), then that the controller requests no eviction, and that it repairs once that is over.
"""

import time
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.cluster.controller import USER, Controller, install, policy, rebalancer
from tests.cluster.test_creation import ALL_AT_ONCE
from tests.cluster.test_namespaces import repaired, skewed
from tests.control_plane.api import Api, wait_until
from tests.control_plane.layout import Workload, deployment, lay_out, nodes, pod, spread, stateful_set
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.control_plane.servers import Options

HELD: Final = "held"
FREE: Final = "free"
CYCLES: Final = 5
"""Cycles without an eviction: each would request what it finds."""
ANY: Final[Manifest] = {"operator": "Exists"}
REPAIR: Final = "example.test/repair"
ON: Final = ["a-0", "a-1", "b-0", "b-1"]


def three_zones(*workloads: Workload | Manifest) -> list[Manifest | Workload]:
    return [*nodes({"a": 2, "b": 2, "c": 2}), *workloads]


def tolerant(*tolerations: Manifest) -> Workload:
    """Return a Deployment of which one pod has to go to zone c."""
    constraint = spread(ZONE, labels={"app": "web"})
    return deployment("web", ON, namespace=HELD, topologySpreadConstraints=[constraint], tolerations=[*tolerations])


def change_zone_c(api: Api, **spec: Any) -> None:
    for name in ("c-0", "c-1"):
        api.patch(f"/api/v1/nodes/{name}", {"spec": spec})


def pods_of(api: Api, space: str = HELD) -> dict[str, Manifest]:
    """Return the pods that are not going, by UID."""
    pods = api.list(f"/api/v1/namespaces/{space}/pods")
    return {one["metadata"]["uid"]: one for one in pods if "deletionTimestamp" not in one["metadata"]}


def in_zone_c(api: Api, space: str = HELD) -> set[str]:
    return {uid for uid, one in pods_of(api, space).items() if one["spec"].get("nodeName", "").startswith("c-")}


def run(plane: ControlPlane, folder: Path, **changes: Any) -> Controller:
    install(plane, "base", "evict")
    return Controller(plane, folder, policy("Evict", budgets=ALL_AT_ONCE, groups=[], interval="1s", **changes))


def assert_held(plane: ControlPlane, controller: Controller, folder: Path, *words: str) -> None:
    """Assert that nothing is requested in the namespace for some cycles, and what `rebalancer plan` says."""
    controller.wait_for("cycle", count=len(controller.log("cycle")) + CYCLES)
    assert HELD not in {request.namespace for request in plane.audit.evictions(user=USER)}
    rules = folder / "plan.yaml"
    rules.write_text(policy("Evict", budgets=ALL_AT_ONCE, groups=[]))
    done = rebalancer("plan", "-o", "json", f"--policy={rules}", env={"KUBECONFIG": str(plane.kubeconfig())})
    said = done.stdout.decode()
    for word in words:
        assert word in said, said[-3000:]


def volume(ordinal: int) -> Manifest:
    """Return a directory of whatever node its pod is on."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"directory-{ordinal}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "claimRef": {"namespace": HELD, "name": f"data-db-{ordinal}"},
            "hostPath": {"path": f"/srv/data-{ordinal}"},
        },
    }


@pytest.mark.invariant("local-data")
def test_the_directory_of_another_node(cluster: ControlPlane, tmp_path: Path) -> None:
    """The scheduler places a pod with a hostPath volume on any node: its data stays behind."""
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    database = stateful_set(
        "db",
        ON,
        namespace=HELD,
        workload={"volumeClaimTemplates": [claim], "podManagementPolicy": "Parallel"},
        topologySpreadConstraints=[spread(ZONE, labels={"app": "db"})],
    )
    lay_out(cluster, [*map(volume, range(4)), *three_zones(database, skewed("web-0", FREE))], timeout=120)
    with run(cluster, tmp_path) as controller:
        wait_until(lambda: repaired(cluster.api, FREE) == 1, what="the other repair", timeout=60)
        assert_held(cluster, controller, tmp_path, "LocalStorage", "eligibility.localStorage.hostPath is Refuse")
        cluster.api.delete(f"/api/v1/namespaces/{HELD}/pods/db-0")
        wait_until(lambda: len(in_zone_c(cluster.api)) == 1, what="db-0 on a node without its data", timeout=60)
        assert controller.stop() == 0


def test_a_cordoned_zone_for_pods_that_tolerate_everything(cluster: ControlPlane, tmp_path: Path) -> None:
    """The scheduler binds such a pod there; the controller waits until the zone is uncordoned, and has settled."""
    lay_out(cluster, three_zones(tolerant(ANY)), timeout=120)
    change_zone_c(cluster.api, unschedulable=True)
    lay_out(cluster, [pod("probe", namespace=FREE, tolerations=[ANY], nodeSelector={ZONE: "c"})], settle=False)
    wait_until(lambda: in_zone_c(cluster.api, FREE), what="a pod on a cordoned node", timeout=60)
    with run(cluster, tmp_path) as controller:
        assert_held(cluster, controller, tmp_path, "ZoneInMaintenance", "zone c is cordoned")
        change_zone_c(cluster.api, unschedulable=False)
        # The zone has just lost its nodes: it has to settle, as for pods that do not tolerate it.
        wait_until(lambda: '"DomainUnsettled": 1' in controller.log_file.read_text(), what="another wait", timeout=60)
        assert controller.stop() == 0


@pytest.mark.thorough
def test_a_node_that_is_tolerated_for_three_seconds(cluster: ControlPlane, tmp_path: Path) -> None:
    """The scheduler binds pods there, and the taint manager ends each: made and killed, without end."""
    limited = {"key": REPAIR, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}
    lay_out(cluster, three_zones(tolerant(limited)), timeout=120)
    change_zone_c(cluster.api, taints=[{"key": REPAIR, "effect": "NoExecute"}])
    with run(cluster, tmp_path) as controller:
        assert_held(cluster, controller, tmp_path, "NodeLeaving", f"taint {REPAIR} (NoExecute), which")
        assert controller.stop() == 0
    first = next(one for one in pods_of(cluster.api).values() if one["spec"]["nodeName"].startswith("a-"))
    cluster.api.delete(f"/api/v1/namespaces/{HELD}/pods/{first['metadata']['name']}")
    seen: set[str] = set()
    until = time.monotonic() + 40
    while time.monotonic() < until and len(seen) < 3:
        seen |= in_zone_c(cluster.api)
        time.sleep(0.2)
    print(f"{len(seen)} pods made in zone c and ended one after the other")
    assert len(seen) >= 3


@pytest.mark.thorough
def test_a_scheduler_without_the_filter_for_spread(tmp_path: Path) -> None:
    """Nothing forces a replacement to zone c: what the defaults would call forced is not planned."""
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"disabled": [{"name": "PodTopologySpread"}]}},
    }
    configuration = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    (tmp_path / "scheduler.yaml").write_text(yaml.safe_dump({**configuration, "profiles": [profile]}))
    with ControlPlane(Options(scheduler_profiles=(profile,))) as plane:
        lay_out(plane, three_zones(skewed("web-0", HELD)), timeout=120)
        with run(plane, tmp_path, scheduler={"configFile": "scheduler.yaml"}) as controller:
            controller.wait_for("cycle", count=CYCLES)
            assert plane.audit.evictions(user=USER) == []
            assert controller.stop() == 0
        with run(plane, tmp_path) as controller:
            wait_until(lambda: plane.audit.evictions(user=USER), what="what the defaults would force", timeout=60)
            assert controller.stop() == 0


def test_a_webhook_for_evictions_that_nothing_answers(cluster: ControlPlane, tmp_path: Path) -> None:
    """The API server answers an eviction with an error; the controller requests none, until the webhook is gone."""
    lay_out(cluster, three_zones(skewed("web-0", HELD), skewed("web-0", FREE)), timeout=120)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "gate", "namespace": FREE},
        "spec": {"selector": {"app": "gate"}, "ports": [{"port": 443}]},
    }
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/eviction"]}
    hook = {
        "name": "gate.example.test",
        "clientConfig": {"service": {"namespace": FREE, "name": "gate"}},
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 2,
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": HELD}},
    }
    kind = "ValidatingWebhookConfiguration"
    group = "admissionregistration.k8s.io/v1"
    cluster.api.apply([service, {"apiVersion": group, "kind": kind, "metadata": {"name": "gate"}, "webhooks": [hook]}])
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{FREE}/endpointslices"
    wait_until(lambda: cluster.api.list(slices), what="an EndpointSlice of the Service", timeout=60)
    with run(cluster, tmp_path) as controller:
        wait_until(lambda: repaired(cluster.api, FREE) == 1, what="the repair in the other namespace", timeout=60)
        assert_held(cluster, controller, tmp_path, "RefusedByAdmission", "no pod can be evicted: webhook gate.example")
        cluster.api.delete(f"/apis/{group}/validatingwebhookconfigurations/gate")
        wait_until(lambda: repaired(cluster.api, HELD) == 1, what="the repair without the webhook", timeout=60)
        assert controller.stop() == 0
