"""Claims and volumes for the scenes: zonal and local ones, bound and unbound, attach limits."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.control_plane.manifests import HOSTNAME, ZONE
from tests.control_plane.resources import Manifest

if TYPE_CHECKING:
    from tests.fidelity.scenes import Scene

DRIVER: Final = "csi.example.test"
IMMEDIATE: Final = "immediate"
DELAYED: Final = "delayed"
ZONAL: Final = "zonal"
STATIC: Final = "static"
STATES: Final = (
    *("zonal", "zonal", "local", "labelled", "labelled", "single", "missing", "immediate"),
    *("unbound", "static", "static"),
)
"""What may become of a pod's claim; some of them keep the pod from being placed."""


def classes() -> list[Manifest]:
    """Return storage classes of every mode."""
    zonal = {"matchLabelExpressions": [{"key": ZONE, "values": ["z0", "z1"]}]}
    return [
        _class(IMMEDIATE, DRIVER, "Immediate"),
        _class(DELAYED, DRIVER, "WaitForFirstConsumer"),
        _class(ZONAL, DRIVER, "WaitForFirstConsumer", allowedTopologies=[zonal]),
        _class(STATIC, "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
    ]


def _class(name: str, provisioner: str, mode: str, **more: Any) -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **more,
    }


def give(scene: Scene, pod: Manifest, random: Random) -> None:
    """Give a pod a claim, of a state chosen at random; some of them keep it from being placed."""
    namespace = pod["metadata"]["namespace"]
    name = f"data-{pod['metadata']['name']}"
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    state = random.choice(STATES)
    if state == "missing":
        return
    modes = ["ReadWriteOncePod"] if state == "single" else ["ReadWriteOnce"]
    claim = _claim(namespace, name, modes)
    scene.others.append(claim)
    if state == "unbound":
        claim["spec"]["storageClassName"] = random.choice((DELAYED, ZONAL, STATIC))
    if state == "static":
        claim["spec"]["storageClassName"] = STATIC
        scene.others += [_free_volume(f"free-{name}-{number}", modes, random) for number in range(random.randint(1, 6))]
    if state in {"unbound", "static"}:
        return
    if state == "immediate":
        return
    zone = f"z{random.randrange(4)}"
    volume = _volume(f"pv-{name}", modes)
    if state == "local":
        volume["spec"]["nodeAffinity"] = _on(HOSTNAME, random.choice(scene.nodes)["metadata"]["name"])
    elif state == "labelled":
        volume["metadata"]["labels"] = {
            random.choice((ZONE, ZONE, "failure-domain.beta.kubernetes.io/zone")): random.choice((zone, f"{zone}__z1"))
        }
    else:
        volume["spec"]["nodeAffinity"] = _on(ZONE, zone)
    volume["spec"]["claimRef"] = {"namespace": namespace, "name": name}
    volume["status"] = {"phase": "Bound"}
    claim["spec"]["volumeName"] = volume["metadata"]["name"]
    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    claim["status"] = {"phase": "Bound"}
    scene.others.append(volume)
    if state == "single" and scene.pods and random.random() < 0.5:
        user = random.choice(scene.pods)
        if user["metadata"]["namespace"] == namespace:
            user["spec"]["volumes"] = pod["spec"]["volumes"]


def driver(random: Random) -> Manifest:
    """Return the object of the driver, which may keep its pods from nodes that do not have it."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": DRIVER},
        "spec": {"preventPodSchedulingIfMissing": random.random() < 0.5},
    }


def limit_nodes(scene: Scene, random: Random) -> None:
    """Give some nodes a CSINode with a low limit."""
    for node in scene.nodes:
        if random.random() < 0.5:
            driver = {
                "name": DRIVER,
                "nodeID": node["metadata"]["name"],
                "allocatable": {"count": random.randint(1, 2)},
            }
            scene.others.append(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "CSINode",
                    "metadata": {"name": node["metadata"]["name"]},
                    "spec": {"drivers": [driver]},
                }
            )


def _free_volume(name: str, modes: list[str], random: Random) -> Manifest:
    """Return a volume of some size that waits in one zone for a claim."""
    free = _volume(name, modes, nodeAffinity=_on(ZONE, f"z{random.randrange(4)}"))
    free["spec"] |= {"storageClassName": STATIC, "capacity": {"storage": random.choice(("1Gi", "3Gi", "7Gi"))}}
    return {**free, "status": {"phase": "Available"}}


def _claim(namespace: str, name: str, modes: list[str]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "accessModes": modes,
            "storageClassName": IMMEDIATE,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def _volume(name: str, modes: list[str], **spec: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": modes,
            "storageClassName": IMMEDIATE,
            "csi": {"driver": DRIVER, "volumeHandle": name},
            **spec,
        },
    }


def _on(key: str, value: str) -> dict[str, Any]:
    expression = {"key": key, "operator": "In", "values": [value]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
