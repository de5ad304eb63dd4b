"""Ordinary manifests, with the defaults that tests want.

What isn't named here passes through in Kubernetes' own words: `pod("a", nodeSelector={…}, priorityClassName="high")`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.control_plane.resources import Manifest

ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
IMAGE: Final = "example.test/app:1"

Labels = Mapping[str, str]


def node(
    name: str,
    *,
    zone: str = "",
    cpu: str = "32",
    memory: str = "128Gi",
    pods: int = 110,
    labels: Labels | None = None,
    taints: Sequence[Mapping[str, Any]] = (),
    unschedulable: bool = False,
) -> Manifest:
    """Return a node with this much allocatable, labelled with its name and, if given, its zone."""
    own = {HOSTNAME: name, "kubernetes.io/os": "linux"} | ({ZONE: zone} if zone else {})
    spec: dict[str, Any] = {"taints": [dict(taint) for taint in taints]}
    if unschedulable:
        spec["unschedulable"] = True
    resources = {"cpu": cpu, "memory": memory, "pods": str(pods), "ephemeral-storage": "1Ti"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**own, **(labels or {})}},
        "spec": spec,
        "status": {"capacity": resources, "allocatable": resources},
    }


def nodes(zones: Mapping[str, int], **common: Any) -> list[Manifest]:
    """Return so many nodes in each zone, named after it: `nodes({"a": 2})` are a-0 and a-1. Keywords as for `node`."""
    return [node(f"{zone}-{i}", zone=zone, **common) for zone, count in zones.items() for i in range(count)]


def pod(
    name: str,
    *,
    on: str = "",
    namespace: str = "default",
    labels: Labels | None = None,
    annotations: Labels | None = None,
    cpu: str = "100m",
    memory: str = "64Mi",
    **spec: Any,
) -> Manifest:
    """Return a pod, bound to the node `on` if that is given. Everything else goes into its `spec`."""
    body = pod_spec(cpu=cpu, memory=memory, **spec)
    if on:
        body["nodeName"] = on
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def pod_spec(*, cpu: str, memory: str, **spec: Any) -> dict[str, Any]:
    """Return a pod's `spec` of one container with these requests, unless `containers` are given."""
    container = {"name": "app", "image": IMAGE, "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {"containers": [container], "terminationGracePeriodSeconds": 1, **spec}


def pod_template(*, labels: Labels, annotations: Labels | None = None, **spec: Any) -> dict[str, Any]:
    """Return the template of a workload's pods; keywords as for `pod_spec`."""
    metadata: dict[str, Any] = {"labels": dict(labels)}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"metadata": metadata, "spec": pod_spec(**spec)}


def spread(
    topology_key: str = ZONE, *, labels: Labels | None = None, max_skew: int = 1, soft: bool = False, **fields: Any
) -> dict[str, Any]:
    """Return a topology spread constraint over the pods with these labels (None: without a selector)."""
    constraint: dict[str, Any] = {
        "topologyKey": topology_key,
        "maxSkew": max_skew,
        "whenUnsatisfiable": "ScheduleAnyway" if soft else "DoNotSchedule",
        **fields,
    }
    if labels is not None:
        constraint["labelSelector"] = {"matchLabels": dict(labels)}
    return constraint


def pdb(
    name: str,
    labels: Labels,
    *,
    namespace: str = "default",
    min_available: int | str | None = None,
    max_unavailable: int | str | None = None,
    **spec: Any,
) -> Manifest:
    """Return a PodDisruptionBudget over the pods with these labels."""
    body: dict[str, Any] = {"selector": {"matchLabels": dict(labels)}, **spec}
    if min_available is not None:
        body["minAvailable"] = min_available
    if max_unavailable is not None:
        body["maxUnavailable"] = max_unavailable
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": body,
    }


def namespace(name: str, *, labels: Labels | None = None) -> Manifest:
    """Return a namespace. One without labels needn't be named: `lay_out` makes what its parts live in."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {})}}
