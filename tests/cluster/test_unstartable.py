"""What the scheduler accepts and no kubelet runs: such pods are not evicted, and all others are.

Each case is a namespace with a workload on nodes of its own. Of those that stay one is deleted by hand afterwards: its
replacement does not become Ready, as KWOK plays the kubelets and the attaching of volumes.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from tests.cluster.controller import Controller, install, policy, rebalancer
from tests.cluster.test_creation import evicted_in
from tests.control_plane.api import Api, wait_until
from tests.control_plane.layout import Workload, deployment, lay_out, spread
from tests.control_plane.manifests import ZONE, namespace, node, pod
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest
from tests.control_plane.settling import pod_ready
from tests.control_plane.stages import NEVER_READY, NO_SYSTEM_ON, NO_VOLUME_ON

AT_ONCE: Final = {
    "perNode": 100,
    "perNamespace": 100,
    "maxUnavailable": "100%",
    "perWorkload": "100%",
    "slowStart": False,
}
LINUX: Final[Mapping[str, Any]] = {"os": {"name": "linux"}}
WINDOWS: Final[dict[str, str]] = {"kubernetes.io/os": "windows"}
LONG_AGO: Final = timedelta(minutes=20)


@dataclass(frozen=True, kw_only=True)
class Case:
    """Pods are on the zones' nodes as `on` says; `named` stands in the refusal, "" where the evictions are right."""

    name: str
    named: str = ""
    on: Sequence[int] = (3, 1, 0)
    evictions: int = 1
    spec: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    last: dict[str, str] = field(default_factory=dict)
    """Labels of the node in zone c."""
    second: bool = False
    """Whether zone c has a second node, without these."""
    attach: bool | None = None
    """Whether the driver of a shared ReadWriteOnce volume attaches; None without a volume."""
    stuck: int = 0
    """Other pods on the node in zone c that have had no sandbox for twenty minutes."""


CASES: Final = (
    Case(
        name="system",
        named="where spec.os of the pods is linux",
        spec=LINUX,
        last=WINDOWS,
        labels={NO_SYSTEM_ON: "system-c"},
    ),
    Case(name="selected", spec={**LINUX, "nodeSelector": {"kubernetes.io/os": "linux"}}, last=WINDOWS, second=True),
    Case(name="same", spec=LINUX),
    Case(name="attached", named="ReadWriteOnce", on=(4, 0), attach=True, labels={NO_VOLUME_ON: "attached-b"}),
    Case(name="unattached", on=(4, 0, 0), attach=False, evictions=2),
    Case(name="stuck", named="NothingStartsThere", stuck=2, labels={NO_VOLUME_ON: "stuck-c"}),
    Case(name="slow", stuck=1),
)


def lay(case: Case) -> list[Manifest | Workload]:
    pool = {"pool": case.name}
    zones = "abc"[: len(case.on)]
    parts: list[Manifest | Workload] = [
        *(node(f"{case.name}-{zone}", zone=zone, labels=pool | (case.last if zone == "c" else {})) for zone in zones),
        *([node(f"{case.name}-c2", zone="c", labels=pool)] if case.second else []),
        namespace(case.name),
    ]
    spec: dict[str, Any] = {
        "topologySpreadConstraints": [spread(ZONE, labels={"app": "web"})],
        **case.spec,
        "nodeSelector": {**pool, **case.spec.get("nodeSelector", {})},
    }
    if case.attach is not None:
        parts += volume_of(case)
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    placement = {f"{case.name}-{zone}": count for zone, count in zip(zones, case.on, strict=True) if count}
    labels = {"app": "web", **case.labels}
    parts.append(deployment("web", placement, namespace=case.name, labels=labels, **spec))
    parts += [
        pod(f"stuck-{number}", on=f"{case.name}-c", namespace=case.name, labels={NEVER_READY: "yes"})
        for number in range(case.stuck)
    ]
    return parts


def volume_of(case: Case) -> list[Manifest]:
    """Return a ReadWriteOnce volume of a driver that attaches, or does not, and the claim that it is bound to."""
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    driver, name = f"{case.name}.csi.test", f"{case.name}-data"
    claim = {"accessModes": modes, "resources": {"requests": size}, "storageClassName": "", "volumeName": name}
    source = {"csi": {"driver": driver, "volumeHandle": name}, "claimRef": {"namespace": case.name, "name": "data"}}
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": driver},
            "spec": {"attachRequired": bool(case.attach)},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {"capacity": size, "accessModes": modes, "storageClassName": "", **source},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": case.name},
            "spec": claim,
        },
    ]


def let_wait(api: Api, case: Case) -> None:
    """Have the other pods be without a sandbox for twenty minutes, as far as their kubelet says."""
    since = f"{datetime.now(UTC) - LONG_AGO:%Y-%m-%dT%H:%M:%SZ}"
    condition = {"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": since}
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": since}
    for number in range(case.stuck):
        path = f"/api/v1/namespaces/{case.name}/pods/stuck-{number}"
        bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": since}
        status = {"phase": "Pending", "startTime": since, "conditions": [bound, condition, unready]}
        api.patch(f"{path}/status", {"status": status})


def claims(api: Api) -> list[Manifest]:
    return [one for one in api.list("/api/v1/persistentvolumeclaims") if one["metadata"]["name"] == "data"]


def is_bound(claim: Manifest) -> bool:
    """Return whether the controller of volumes has bound it: it looks every 15 seconds if it was too early."""
    return bool(claim["status"]["phase"] == "Bound")


def pods_of(api: Api, case: Case) -> list[Manifest]:
    pods = api.list(f"/api/v1/namespaces/{case.name}/pods", labels="app=web")
    return [one for one in pods if "deletionTimestamp" not in one["metadata"] and one["status"]["phase"] != "Failed"]


def test_what_no_kubelet_would_run_is_not_evicted(cluster: ControlPlane, tmp_path: Path) -> None:
    """By the audit log; and what is refused would not have started elsewhere."""
    install(cluster, "base", "evict")
    lay_out(cluster, [part for case in CASES for part in lay(case)], timeout=120)
    for case in CASES:
        let_wait(cluster.api, case)
    wait_until(lambda: all(map(is_bound, claims(cluster.api))), what="the claims to be bound", timeout=60)
    expected = Counter({case.name: case.evictions for case in CASES if not case.named})
    with Controller(cluster, tmp_path, policy("Evict", budgets=AT_ONCE, groups=[])) as controller:
        wait_until(lambda: Counter(evicted_in(cluster)) == expected, what="the evictions", timeout=60)
        controller.wait_for("cycle", count=len(controller.log("cycle")) + 3)
        said = explained(cluster, tmp_path)
    assert Counter(evicted_in(cluster)) == expected
    for case in CASES:
        assert case.named in said.get(case.name, ""), f"{case.name}: {said.get(case.name)}"
        if not case.named:
            wait_until(lambda case=case: all(map(pod_ready, pods_of(cluster.api, case))), what=case.name)  # type: ignore[misc]
    refused = [case for case in CASES if case.named]
    for case in refused:
        crowded = next(one for one in pods_of(cluster.api, case) if one["spec"]["nodeName"] == f"{case.name}-a")
        cluster.api.delete(f"/api/v1/namespaces/{case.name}/pods/{crowded['metadata']['name']}")
    for case in refused:
        wait_until(lambda case=case: any(is_stranded(one, case) for one in all_pods(cluster.api, case)), what=case.name)  # type: ignore[misc]


def explained(plane: ControlPlane, folder: Path) -> dict[str, str]:
    """Return by namespace why pods stay or wait, as `rebalancer plan` says it."""
    rules = folder / "plan.yaml"
    rules.write_text(policy("Evict", budgets=AT_ONCE, groups=[]))
    done = rebalancer("plan", "-o", "json", f"--policy={rules}", env={"KUBECONFIG": str(plane.kubeconfig())})
    assert done.returncode == 0, done.stderr.decode()
    document = json.loads(done.stdout)
    said: defaultdict[str, str] = defaultdict(str)
    for entry in (*document["refusals"], *document["waiting"]):
        said[entry["namespace"]] += f"{entry.get('reason') or entry['for']}: {entry['message']}; "
    return said


def all_pods(api: Api, case: Case) -> list[Manifest]:
    return api.list(f"/api/v1/namespaces/{case.name}/pods", labels="app=web")


def is_stranded(one: Manifest, case: Case) -> bool:
    """Return whether a replacement has a node and does not run there."""
    elsewhere = one["spec"].get("nodeName") not in {None, f"{case.name}-a"}
    return elsewhere and not pod_ready(one) and "startTime" in one.get("status", {})
