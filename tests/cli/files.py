"""Clusters in files, as `kubectl get` writes them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.build import HEAD
from tests.control_plane.manifests import nodes, pod, pod_template
from tests.control_plane.resources import Manifest

MADE = "2020-01-01T00:00:00Z"
READY = {"type": "Ready", "status": "True", "lastTransitionTime": MADE}


def ready_nodes(zones: Mapping[str, int], **common: Any) -> list[Manifest]:
    """Return Ready nodes, by the number in each zone; a node that is not Ready is no target."""
    made = nodes(zones, **common)
    for document in made:
        document["metadata"]["creationTimestamp"] = MADE
        document["status"]["conditions"] = [READY]
    return made


def placed(name: str, on: str | None, **fields: Any) -> Manifest:
    """Return a pod that runs and is Ready, or that waits for a node."""
    made = pod(name, on=on or "", **fields)
    made["metadata"] |= {"creationTimestamp": MADE, "uid": name}
    made["status"] = {"phase": "Running", "conditions": [READY]} if on else {"phase": "Pending"}
    return made


def replica_set(
    name: str, on: Sequence[str], *, namespace: str, labels: Mapping[str, str], **spec: Any
) -> list[Manifest]:
    """Return a ReplicaSet of its own whose pods run on these nodes."""
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
    owner: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"namespace": namespace, "name": name, "uid": name, "generation": 1, "creationTimestamp": MADE},
        "spec": {
            "replicas": len(on),
            "selector": {"matchLabels": {"app": name}},
            "template": pod_template(labels=labels, cpu="100m", memory="64Mi", **spec),
        },
        "status": {"replicas": len(on), "readyReplicas": len(on), "observedGeneration": 1},
    }
    pods = [
        placed(f"{name}-{number}", node, namespace=namespace, labels=labels, **spec) for number, node in enumerate(on)
    ]
    for made in pods:
        made["metadata"]["ownerReferences"] = [reference]
    return [owner, *pods]


def write_policy(folder: Path, text: str = "") -> str:
    """Write a policy of these fields to `policy.yaml`; return the name of the file."""
    file = folder / "policy.yaml"
    file.write_text(HEAD + text, encoding="utf-8")
    return str(file)


def write_list(file: Path, items: Sequence[Manifest]) -> str:
    """Write objects to a file, as YAML; return its name."""
    file.write_text(yaml.safe_dump({"kind": "List", "apiVersion": "v1", "items": [*items]}), encoding="utf-8")
    return str(file)
