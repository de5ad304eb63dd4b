"""Karpenter beside a control plane, with its provider of simulated nodes, which KWOK makes Ready.

with Karpenter(plane, zones="abc"):
    plane.api.create(node_pool("general", zones="abc"), path=NODE_POOLS)

It has one type of instance, of which every node is, so that a test knows how many pods share one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import yaml

from tests.control_plane import children
from tests.control_plane.api import ApiError, wait_until
from tests.control_plane.build import KARPENTER, karpenter_definitions, programs
from tests.control_plane.manifests import ZONE
from tests.control_plane.plane import ControlPlane, free_ports
from tests.control_plane.resources import Manifest

NODE_POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
NODE_CLASSES: Final = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
NODE_CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"


class Karpenter:
    """A running Karpenter; ended with the block, with its CustomResourceDefinitions."""

    def __init__(self, plane: ControlPlane, *, zones: Iterable[str], cpu: int = 4) -> None:
        """Find or build the program; raises MissingPart if that is not possible."""
        self._plane = plane
        self._types = [_instance_type(list(zones), cpu)]
        self._program = programs([KARPENTER])[KARPENTER.name]
        self._child: children.Child | None = None
        self.log = plane.site.folder / "karpenter.log"

    def __enter__(self) -> Self:
        """Install the kinds and start the program."""
        api = self._plane.api
        for file in karpenter_definitions():
            api.create(yaml.safe_load(file.read_text()), path=_DEFINITIONS)
        wait_until(self._are_served, what="Karpenter's kinds to be served")
        types = self._plane.site.folder / "instance-types.json"
        types.write_text(json.dumps(self._types))
        metrics, health = free_ports(2)
        environment = (
            f"KUBECONFIG={self._plane.kubeconfig()}",
            "SYSTEM_NAMESPACE=kube-system",
            "KUBERNETES_MIN_VERSION=1.19.0-0",
        )
        command: list[str | Path] = ["/usr/bin/env", *environment, self._program, "--disable-leader-election"]
        command += [f"--metrics-port={metrics}", f"--health-probe-port={health}", f"--instance-types-file-path={types}"]
        self._child = children.start("karpenter", command, log=self.log, cwd=self._plane.site.folder)
        api.create(
            {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}},
            path=NODE_CLASSES,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Delete what it manages, end it, and remove the kinds."""
        if error is not None:
            error.add_note(f"Karpenter's log ends:\n{children.tail(self.log)}")
        if self._child is not None:
            children.stop([self._child])
        api = self._plane.api
        # Their finalizers belong to the program that has ended.
        for path in (NODE_CLAIMS, NODE_POOLS, NODE_CLASSES):
            for item in api.list(path):
                name = item["metadata"]["name"]
                api.patch(f"{path}/{name}", {"metadata": {"finalizers": None}})
                api.delete(f"{path}/{name}", missing_ok=True)
        for item in api.list("/api/v1/nodes"):
            if item["metadata"].get("finalizers"):
                api.patch(f"/api/v1/nodes/{item['metadata']['name']}", {"metadata": {"finalizers": None}})
        for file in karpenter_definitions():
            name = yaml.safe_load(file.read_text())["metadata"]["name"]
            api.delete(f"{_DEFINITIONS}/{name}", missing_ok=True)

    def _are_served(self) -> bool:
        try:
            return [self._plane.api.list(path) for path in (NODE_POOLS, NODE_CLASSES, NODE_CLAIMS)] == [[], [], []]
        except ApiError:
            return False


def node_pool(
    name: str,
    *,
    zones: Iterable[str],
    cpu_limit: str = "1000",
    consolidate: str = "WhenEmpty",
    after: str = "30s",
) -> Manifest:
    """Return a NodePool whose nodes are in these zones; `cpu_limit` bounds the sum of its nodes."""
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    requirements = [
        {"key": ZONE, "operator": "In", "values": list(zones)},
        {"key": _CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
    ]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": requirements, "expireAfter": "Never"}},
            "limits": {"cpu": cpu_limit},
            "disruption": {"consolidationPolicy": consolidate, "consolidateAfter": after},
        },
    }


def _instance_type(zones: list[str], cpu: int) -> dict[str, Any]:
    """Return a type of instance; every zone has its offering, all of one price."""
    offerings = [
        {
            "Price": 0.1,
            "Available": True,
            "Requirements": [
                {"key": _CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
                {"key": ZONE, "operator": "In", "values": [zone]},
            ],
        }
        for zone in zones
    ]
    return {
        "name": f"s-{cpu}x-amd64-linux",
        "offerings": offerings,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "ephemeral-storage": "20Gi", "pods": "110"},
    }
