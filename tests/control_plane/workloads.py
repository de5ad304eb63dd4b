"""Workloads whose pods are exactly where a test wants them.

Kubernetes has no way to say where the pods of a ReplicaSet go, but it adopts: pods that exist already, match the
selector and have no owner are taken over, and nothing is made in their place. So the pods come first, already bound to
their nodes, then their owner with `replicas` equal to their number. Replacements come from the owner's template and are
placed by the real scheduler. For each kind something has to fit, or the controller would replace the pods at once:

* ReplicaSet: the labels.
* Deployment: it adopts a ReplicaSet whose template equals its own; only the label `pod-template-hash` is overlooked, so
  that any value will do for it. The ReplicaSet adopts the pods, the Deployment the ReplicaSet.
* StatefulSet: ordinals in the names, and the label `controller-revision-hash` with the hash that the controller itself
  computes. `lay_out` finds it out, see there.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.control_plane.manifests import Labels, pod_template
from tests.control_plane.resources import Manifest
from tests.control_plane.stages import NEVER_READY

TEMPLATE_HASH: Final = "pod-template-hash"
REVISION_HASH: Final = "controller-revision-hash"

Placement = Sequence[str] | Mapping[str, int]
"""Node names, one a pod in the pods' order; or how many pods on each node. An empty name leaves it to the scheduler."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Pods bound to their nodes, and the owners that will adopt them, the nearest first."""

    pods: tuple[Manifest, ...]
    owners: tuple[Manifest, ...]
    claims: tuple[Manifest, ...] = ()
    """The pods' volume claims: a StatefulSet makes none for pods that have their volumes already."""

    @property
    def pod_names(self) -> list[str]:
        """The names of the pods, in the order of the placement."""
        return [pod["metadata"]["name"] for pod in self.pods]

    @property
    def namespace(self) -> str:
        """The namespace of all of it."""
        namespace: str = self.owners[0]["metadata"]["namespace"]
        return namespace


def replica_set(
    name: str,
    on: Placement,
    *,
    namespace: str = "default",
    labels: Labels | None = None,
    replicas: int | None = None,
    never_ready: Collection[int] = (),
    cpu: str = "100m",
    memory: str = "64Mi",
    annotations: Labels | None = None,
    **spec: Any,
) -> Workload:
    """Return a ReplicaSet with pods `<name>-0`, `<name>-1`, … on the given nodes.

    Labels (`app: <name>` unless given) are selector and pods' labels. `replicas` beyond the placement are made by the
    controller. Pods at the positions in `never_ready` don't become Ready; their replacements do. Annotations are the
    pods'; all else goes into the pods' `spec`.
    """
    labels = labels or {"app": name}
    template = pod_template(labels=labels, annotations=annotations, cpu=cpu, memory=memory, **spec)
    owner = _owner("ReplicaSet", name, namespace, labels, template, _count(on, replicas))
    return Workload(owners=(owner,), pods=_pods(name, on, namespace, template, never_ready=never_ready))


def deployment(
    name: str,
    on: Placement,
    *,
    namespace: str = "default",
    labels: Labels | None = None,
    replicas: int | None = None,
    never_ready: Collection[int] = (),
    cpu: str = "100m",
    memory: str = "64Mi",
    annotations: Labels | None = None,
    workload: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Workload:
    """Return a Deployment with its ReplicaSet and pods `<name>-<hash>-0`, … on the given nodes.

    As for `replica_set`; `workload` has further fields of the Deployment's own `spec`, such as `strategy`.
    """
    labels = labels or {"app": name}
    template = pod_template(labels=labels, annotations=annotations, cpu=cpu, memory=memory, **spec)
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
    hashed = copy.deepcopy(template)
    hashed["metadata"]["labels"][TEMPLATE_HASH] = digest
    count = _count(on, replicas)
    inner = f"{name}-{digest}"
    replica_set_labels = hashed["metadata"]["labels"]
    owners = (
        _owner("ReplicaSet", inner, namespace, replica_set_labels, hashed, count),
        _owner("Deployment", name, namespace, labels, template, count, **(workload or {})),
    )
    return Workload(owners=owners, pods=_pods(inner, on, namespace, hashed, never_ready=never_ready))


def stateful_set(
    name: str,
    on: Placement,
    *,
    namespace: str = "default",
    labels: Labels | None = None,
    replicas: int | None = None,
    never_ready: Collection[int] = (),
    cpu: str = "100m",
    memory: str = "64Mi",
    annotations: Labels | None = None,
    workload: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Workload:
    """Return a StatefulSet with pods `<name>-0`, … on the given nodes.

    As for `replica_set`; `workload` has further fields of the StatefulSet's own `spec`, such as
    `podManagementPolicy` or `volumeClaimTemplates`. The claims are made too, but nobody provisions volumes for them:
    lay out PersistentVolumes with a `claimRef` where replacements should be schedulable.
    """
    labels = labels or {"app": name}
    template = pod_template(labels=labels, annotations=annotations, cpu=cpu, memory=memory, **spec)
    fields = {"serviceName": name, **(workload or {})}
    owner = _owner("StatefulSet", name, namespace, labels, template, _count(on, replicas), **fields)
    pods = _pods(name, on, namespace, template, never_ready=never_ready)
    for ordinal, pod in enumerate(pods):
        _give_identity(pod, owner, ordinal)
    return Workload(owners=(owner,), pods=pods, claims=_claims(pods, owner))


def _give_identity(pod: Manifest, owner: Manifest, ordinal: int) -> None:
    """Make the pod look as the StatefulSet controller would have made it, or the controller tries to fix it."""
    name = pod["metadata"]["name"]
    pod["metadata"]["labels"] |= {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
    }
    pod["spec"] |= {"hostname": name, "subdomain": owner["spec"]["serviceName"]}
    claims = [claim["metadata"]["name"] for claim in owner["spec"].get("volumeClaimTemplates", ())]
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}} for claim in claims]
    if volumes:
        pod["spec"]["volumes"] = [*pod["spec"].get("volumes", ()), *volumes]


def _claims(pods: Iterable[Manifest], owner: Manifest) -> tuple[Manifest, ...]:
    namespace, labels = owner["metadata"]["namespace"], owner["spec"]["selector"]["matchLabels"]
    claims = []
    for pod in pods:
        for template in owner["spec"].get("volumeClaimTemplates", ()):
            name = f"{template['metadata']['name']}-{pod['metadata']['name']}"
            metadata = {**template["metadata"], "name": name, "namespace": namespace, "labels": labels}
            claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
            claims.append({**claim, "spec": template["spec"]})
    return tuple(claims)


def _owner(
    kind: str, name: str, namespace: str, labels: Labels, template: dict[str, Any], replicas: int, **fields: Any
) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {"replicas": replicas, "selector": {"matchLabels": dict(labels)}, "template": template, **fields},
    }


def _pods(
    prefix: str, on: Placement, namespace: str, template: dict[str, Any], *, never_ready: Collection[int]
) -> tuple[Manifest, ...]:
    pods = []
    for index, node in enumerate(_nodes_of(on)):
        body = copy.deepcopy(template)
        metadata = {**body["metadata"], "name": f"{prefix}-{index}", "namespace": namespace}
        if index in never_ready:
            metadata["labels"][NEVER_READY] = ""
        spec = body["spec"] | ({"nodeName": node} if node else {})
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return tuple(pods)


def _nodes_of(on: Placement) -> list[str]:
    if isinstance(on, Mapping):
        return [node for node, count in on.items() for _ in range(count)]
    return list(on)


def _count(on: Placement, replicas: int | None) -> int:
    return len(_nodes_of(on)) if replicas is None else replicas
