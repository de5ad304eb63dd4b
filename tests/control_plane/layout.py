"""Exact states of a cluster: which nodes exist, and which pods are on them.

    lay_out(plane, [*nodes({"a": 2, "b": 2}), deployment("web", {"a-0": 3, "b-1": 1}), pdb("web", {"app": "web"}, …)])

The builders are in `manifests` and `workloads`, and can be had from here.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Final

from tests.control_plane.accounts import ensure_namespace
from tests.control_plane.api import Api, in_parallel, wait_until
from tests.control_plane.manifests import namespace, node, nodes, pdb, pod, spread
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import CLUSTER_KINDS, Manifest, key_of, namespace_of, object_path
from tests.control_plane.settling import node_ready, wait_settled
from tests.control_plane.workloads import REVISION_HASH, Workload, deployment, replica_set, stateful_set

__all__ = [
    "LayoutError",
    "Workload",
    "deployment",
    "lay_out",
    "lay_out_owned",
    "lose_nodes",
    "namespace",
    "node",
    "nodes",
    "pdb",
    "pod",
    "replica_set",
    "return_nodes",
    "spread",
    "stateful_set",
    "wait_settled",
]

SCRATCH: Final = "layout-scratch"
BARRIER: Final = "layout-barrier"
PATIENCE: Final = 180.0
"""Seconds that the controllers may take for a step of a layout, on a busy machine."""


class LayoutError(AssertionError):
    """The cluster is not in the required state."""


def lay_out(
    plane: ControlPlane,
    parts: Iterable[Manifest | Workload],
    *,
    settle: bool = True,
    unschedulable: int = 0,
    timeout: float = 60.0,
) -> None:
    """Bring the cluster into exactly this state: manifests and workloads, in any order.

    Namespaces are made as needed. Returns when the cluster is settled (see `wait_settled`). Raises LayoutError if a
    controller replaced one of the pods instead of adopting it.
    """
    parts = list(parts)
    manifests = [part for part in parts if isinstance(part, dict)]
    workloads = [part for part in parts if isinstance(part, Workload)]
    api = plane.api
    _make_namespaces(api, manifests, workloads)
    _make(api, [manifest for manifest in manifests if manifest["kind"] in CLUSTER_KINDS - {"Namespace", "Node"}])
    new_nodes = [manifest for manifest in manifests if manifest["kind"] == "Node"]
    _make(api, new_nodes)
    _wait_ready(api, [new_node["metadata"]["name"] for new_node in new_nodes])
    pods = [manifest for manifest in manifests if manifest["kind"] == "Pod"]
    rest = [manifest for manifest in manifests if manifest["kind"] not in CLUSTER_KINDS | {"Pod"}]
    # Claims, accounts, priority classes: what pods need to be admitted. Budgets and services do no harm before them.
    _make(api, [*rest, *(claim for workload in workloads for claim in workload.claims)])
    adopted = in_parallel(lambda workload: _with_revision(api, workload), workloads)
    _make(api, [*pods, *(pod for workload in adopted for pod in workload.pods)])
    _wait_seen(api, {workload.namespace for workload in adopted})
    for depth in (0, 1):
        _make(api, [workload.owners[depth] for workload in adopted if len(workload.owners) > depth])
        owners = [workload for workload in adopted if len(workload.owners) > depth]
        _wait_adopted(api, owners, depth, timeout=max(PATIENCE, timeout))
    if settle:
        wait_settled(plane, unschedulable=unschedulable, timeout=timeout)
        _check(plane, adopted)


def lay_out_owned(
    plane: ControlPlane, new_nodes: Sequence[Manifest], deployments: Sequence[Workload], *, timeout: float
) -> None:
    """Lay out thousands of Deployments: faster than `lay_out`, since nothing has to be adopted.

    While the controller manager is stopped everything is made with its owner; when it starts again, it finds every
    Deployment complete and only writes the statuses. Adoption takes three requests a pod, one after the other.
    """
    api = plane.api
    _make(api, new_nodes)
    _wait_ready(api, [new_node["metadata"]["name"] for new_node in new_nodes])
    _make_namespaces(api, (), deployments)
    with plane.without("kube-controller-manager"):
        tops = api.create_all(workload.owners[1] for workload in deployments)
        inner = api.create_all(
            _with_owner(workload.owners[0], top) for workload, top in zip(deployments, tops, strict=True)
        )
        _make(
            api,
            [
                _with_owner(member, owner)
                for workload, owner in zip(deployments, inner, strict=True)
                for member in workload.pods
            ],
        )
    wait_settled(plane, timeout=timeout)
    _check(plane, deployments)


def _with_owner(manifest: Manifest, owner: Manifest) -> Manifest:
    """Return a manifest that an object which exists owns."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [reference]}}


def lose_nodes(plane: ControlPlane, *names: str, gc: bool = False) -> list[Manifest]:
    """Take nodes away as if they had died, with their pods. Returns the nodes' manifests, for `return_nodes`.

    The pods of a deleted node are collected by the controller manager after some 40 seconds; to save that time they are
    deleted here unless `gc` is true.
    """
    api = plane.api
    lost = [_stripped(api.get(f"/api/v1/nodes/{name}")) for name in names]
    for name in names:
        api.delete(f"/api/v1/nodes/{name}")

    def emptied() -> bool:
        left = [pod for name in names for pod in api.list("/api/v1/pods", fields=f"spec.nodeName={name}")]
        if not gc:
            in_parallel(lambda name: api.delete(object_path(name), grace_seconds=0, missing_ok=True), _typed(left))
        return not left

    wait_until(emptied, what=f"the pods of {', '.join(names)} to go", timeout=120)
    return lost


def return_nodes(plane: ControlPlane, lost: Sequence[Manifest]) -> None:
    """Bring lost nodes back, empty, and wait until they are Ready."""
    _make(plane.api, lost)
    _wait_ready(plane.api, [node["metadata"]["name"] for node in lost])


def _make(api: Api, manifests: Iterable[Manifest]) -> None:
    api.create_all(manifests)


def _make_namespaces(api: Api, manifests: Sequence[Manifest], workloads: Sequence[Workload]) -> None:
    # Those of earlier tests are still there, without their labels.
    api.apply(manifest for manifest in manifests if manifest["kind"] == "Namespace")
    names = {namespace_of(manifest) for manifest in manifests if manifest["kind"] not in CLUSTER_KINDS}
    names |= {workload.namespace for workload in workloads}
    names |= {manifest["metadata"]["name"] for manifest in manifests if manifest["kind"] == "Namespace"}
    for name in sorted(names):
        ensure_namespace(api, name)


def _wait_ready(api: Api, names: Sequence[str]) -> None:
    wanted = set(names)

    def ready() -> bool:
        return wanted <= {node["metadata"]["name"] for node in api.list("/api/v1/nodes") if node_ready(node)}

    if wanted:
        wait_until(ready, what=f"{len(wanted)} nodes to become Ready", timeout=PATIENCE)


def _wait_seen(api: Api, namespaces: Iterable[str]) -> None:
    """Wait until the controllers know all pods of the namespaces: an owner that comes before its pods makes new ones.

    The disruption controller reads pods from the same cache as those of ReplicaSets and StatefulSets. A budget over all
    pods, for a moment, tells through its status how many that cache has.
    """
    for name in namespaces:
        barrier = pdb(BARRIER, {}, namespace=name, min_available=0)
        path = object_path(barrier)
        api.create(barrier)

        def seen(name: str = name, path: str = path) -> bool:
            count = len(api.list(f"/api/v1/namespaces/{name}/pods"))
            status = api.get(path).get("status", {})
            return bool(status.get("observedGeneration")) and status.get("expectedPods") == count

        wait_until(seen, what=f"the controllers to see the pods of {name}", timeout=PATIENCE)
        api.delete(path)


def _wait_adopted(api: Api, workloads: Sequence[Workload], depth: int, *, timeout: float) -> None:
    """Wait until the owners have their dependents: a Deployment must find its ReplicaSet with its pods in it.

    A pod that is gone was adopted, and evicted since by a controller that runs.
    """
    collection = "/apis/apps/v1/replicasets" if depth else "/api/v1/pods"
    wanted = {key_of(owner) for workload in workloads for owner in (workload.owners[:1] if depth else workload.pods)}

    def adopted() -> bool:
        free = {key_of(one) for one in api.list(collection) if not one["metadata"].get("ownerReferences")}
        return wanted.isdisjoint(free)

    if wanted:
        interval = 0.05 if len(wanted) < 1_000 else 2.0  # lists of thousands keep the server from what is waited for
        wait_until(adopted, what="the adoption of laid out pods", timeout=timeout, interval=interval)


def _with_revision(api: Api, workload: Workload) -> Workload:
    """Label the pods of a StatefulSet with their revision, or its controller would roll them over.

    The revision's name follows from the set's name and template. So the same set, without pods, is made in a namespace
    of its own, and its controller says the name.
    """
    owner = workload.owners[0]
    if owner["kind"] != "StatefulSet":
        return workload
    ensure_namespace(api, SCRATCH)
    twin = copy.deepcopy(owner)
    twin["metadata"]["namespace"] = SCRATCH
    twin["spec"]["replicas"] = 0
    path = object_path(twin)
    api.create(twin)
    revision = wait_until(
        lambda: api.get(path).get("status", {}).get("updateRevision"), what="the revision of a StatefulSet"
    )
    api.delete(path)
    pods = copy.deepcopy(workload.pods)
    for member in pods:
        member["metadata"]["labels"][REVISION_HASH] = revision
    return dataclasses.replace(workload, pods=pods)


def _check(plane: ControlPlane, workloads: Sequence[Workload]) -> None:
    existing = {key_of(pod): pod for pod in plane.api.list("/api/v1/pods")}
    for wanted in itertools.chain.from_iterable(workload.pods for workload in workloads):
        path = object_path(wanted)
        stored = existing.get(key_of(wanted))
        if stored is None:
            deleted = plane.audit.requests(verb="delete", where=lambda request, path=path: request.path == path)  # type: ignore[misc]
            users = ", ".join(request.user for request in deleted) or "somebody"
            message = f"{path} was laid out, but {users} deleted it"
            raise LayoutError(message)
        place = wanted["spec"].get("nodeName")
        if place and stored["spec"].get("nodeName") != place:
            message = f"{path} was laid out on {place}, but is on {stored['spec'].get('nodeName')}"
            raise LayoutError(message)


def _typed(pods: Iterable[Manifest]) -> list[Manifest]:
    """Items of a list have no kind; give them theirs."""
    return [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in pods]


def _stripped(manifest: Manifest) -> Manifest:
    """Return what a node was made from, without what the server and the controllers wrote into it."""
    metadata = {
        name: manifest["metadata"][name] for name in ("name", "labels", "annotations") if name in manifest["metadata"]
    }
    spec = {name: value for name, value in manifest["spec"].items() if name in {"taints", "unschedulable"}}
    spec["taints"] = [t for t in spec.get("taints", ()) if not t["key"].startswith("node.kubernetes.io/")]
    status = {name: manifest["status"][name] for name in ("capacity", "allocatable")}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}
