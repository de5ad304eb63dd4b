"""Standard output has the document alone, whatever a library under the program prints."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CREATED = "2026-01-01T00:00:00Z"
NODES = [f"{zone}-{number}" for zone in "abc" for number in (1, 2)]


def cluster(*apps: str) -> dict[str, Any]:
    """Return the state after zone c came back: six pods of each app in zones a and b, under one pair of constraints.

    Pods of green may not leave those zones.
    """
    items: list[dict[str, Any]] = [
        {
            "kind": "Node",
            "metadata": {
                "name": name,
                "uid": name,
                "labels": {ZONE: name[0], HOSTNAME: name},
                "creationTimestamp": CREATED,
            },
            "status": {
                "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        for name in NODES
    ]
    for app in apps:
        items += workload(app, NODES[:4] + NODES[:2], zones="ab" if app == "green" else "abc")
    return {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": version(item), **item} for item in items]}


def version(item: dict[str, Any]) -> str:
    return "apps/v1" if item["kind"] == "ReplicaSet" else "v1"


def workload(app: str, on: list[str], zones: str) -> list[dict[str, Any]]:
    labels = {"app": app, "tier": "shop"}
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": list(zones)}]}]
    spec = {
        "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "100m"}}}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
        "topologySpreadConstraints": [
            {
                "topologyKey": key,
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"tier": "shop"}},
            }
            for key in (ZONE, HOSTNAME)
        ],
    }
    owner = {
        "kind": "ReplicaSet",
        "metadata": {"namespace": "shop", "name": app, "uid": app, "generation": 1, "creationTimestamp": CREATED},
        "spec": {
            "replicas": len(on),
            "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
        "status": {"replicas": len(on), "readyReplicas": len(on), "observedGeneration": 1},
    }
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": True}
    pods = [
        {
            "kind": "Pod",
            "metadata": {
                "namespace": "shop",
                "name": f"{app}-{number}",
                "uid": f"{app}-{number}",
                "labels": labels,
                "ownerReferences": [reference],
                "creationTimestamp": CREATED,
            },
            "spec": {**spec, "nodeName": node},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        for number, node in enumerate(on)
    ]
    return [owner, *pods]


@pytest.mark.parametrize(("apps", "solves"), [(("blue", "green"), True), (("blue",), False)])
def test_a_plan_that_needs_the_solver_is_json(apps: tuple[str, ...], solves: bool, tmp_path: Path) -> None:
    """As a process: the solver writes to the file descriptor. That it was loaded is what Python itself says."""
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(cluster(*apps)))
    done = subprocess.run(
        [
            *(sys.executable, "-X", "importtime", "-m", "rebalancer.cli.main"),
            *("plan", "--snapshot", str(file), "-o", "json", "--at", "2026-01-05T09:00:00Z"),
        ],
        capture_output=True,
        check=True,
        timeout=60,
    )
    document = json.loads(done.stdout)
    assert document["kind"] == "Plan"
    assert document["groups"]
    assert document["evictions"]
    loaded = {line.rpartition(b"|")[2].strip() for line in done.stderr.splitlines() if line.startswith(b"import time:")}
    assert (b"highspy" in loaded) is solves
