"""Owners that Kubernetes itself does not have, on a real API server: their definitions, and a small controller of them.

The shapes are those of three projects: a CloneSet has a template and a scale subresource, a StrimziPodSet defines each
of its pods and has none, a Rollout owns ReplicaSets.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

from tests.control_plane.api import Api, ApiError, wait_until
from tests.control_plane.manifests import pod_template
from tests.control_plane.plane import ControlPlane
from tests.control_plane.resources import Manifest, collection_path

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SCALE: Final = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.labelSelector",
}


def _define(kind: str, group: str, version: str, scale: Mapping[str, str] | None) -> Manifest:
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = {"name": version, "served": True, "storage": True, "schema": schema}
    subresources = {"subresources": {"status": {}, **({"scale": scale} if scale else {})}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [{**served, **subresources}],
        },
    }


DEFINITIONS: Final = (
    _define("CloneSet", "apps.kruise.io", "v1alpha1", _SCALE),
    _define("StrimziPodSet", "core.strimzi.io", "v1beta2", None),
    _define("Rollout", "argoproj.io", "v1alpha1", {**_SCALE, "labelSelectorPath": ".status.selector"}),
    _define("Cluster", "search.example", "v1", None),
)
LISTED: Final = ("CloneSet.apps.kruise.io", "StrimziPodSet.core.strimzi.io", "Rollout.argoproj.io")


@contextmanager
def defined(plane: ControlPlane) -> Iterator[None]:
    """Serve the kinds while the block lasts; their objects go with them."""
    for definition in DEFINITIONS:
        plane.api.create(definition)

    def is_served(definition: Manifest) -> bool:
        spec = definition["spec"]
        version = spec["versions"][0]["name"]
        try:
            return plane.api.find(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}") is not None
        except ApiError as error:
            if error.code != 429:  # its storage is being made
                raise
            return False

    try:
        for definition in DEFINITIONS:
            wait_until(lambda definition=definition: is_served(definition), what="a kind to be served")  # type: ignore[misc]
        with plane.without(
            "kube-controller-manager"
        ):  # it looks for new kinds every half a minute, and budgets need them
            pass
        yield
    finally:
        for definition in DEFINITIONS:
            plane.api.delete(f"{_CRDS}/{definition['metadata']['name']}", missing_ok=True)


def an_owner(api_version: str, kind: str, name: str, namespace: str, **spec: Any) -> Manifest:
    """Return the manifest of an object that owns pods."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def clone_set(name: str, namespace: str, replicas: int, **spec: Any) -> Manifest:
    """Return a CloneSet; `spec` is that of its pods."""
    labels = {"app": name}
    template = pod_template(labels=labels, cpu="100m", memory="64Mi", **spec)
    fields = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return an_owner("apps.kruise.io/v1alpha1", "CloneSet", name, namespace, **fields)


def pod_set(name: str, namespace: str, pods: int, **spec: Any) -> Manifest:
    """Return a StrimziPodSet; each of its pods is defined."""
    labels = {"app": name}
    template = pod_template(labels=labels, cpu="100m", memory="64Mi", **spec)
    defined = [{**template, "metadata": {**template["metadata"], "name": f"{name}-{at}"}} for at in range(pods)]
    fields = {"selector": {"matchLabels": labels}, "pods": defined}
    return an_owner("core.strimzi.io/v1beta2", "StrimziPodSet", name, namespace, **fields)


def controlled_by(owner: Manifest) -> Manifest:
    """Return the reference to an owner that exists."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


class OwnerController:
    """Keeps the pods of CloneSets and StrimziPodSets: it creates what is missing, and writes their status."""

    def __init__(self, api: Api, owners: Sequence[Manifest]) -> None:
        self._api = api
        self._owners = list(owners)
        self._made = 0
        self._stopping = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def place(self, owner: Manifest, nodes: Sequence[str]) -> None:
        """Create the first pods of an owner, on these nodes."""
        for at, node in enumerate(nodes):
            self._create(owner, f"{owner['metadata']['name']}-{at}", at, node)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(20)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while not self._stopping.wait(0.3):
            try:
                for owner in self._owners:
                    self._reconcile(owner)
            except Exception as error:  # noqa: BLE001  # told at the end of the block
                self._error = error
                return

    def _reconcile(self, owner: Manifest) -> None:
        uid = owner["metadata"]["uid"]
        listed = self._api.list(f"/api/v1/namespaces/{owner['metadata']['namespace']}/pods")
        own = [pod for pod in listed if any(ref["uid"] == uid for ref in pod["metadata"].get("ownerReferences", ()))]
        living = [pod for pod in own if "deletionTimestamp" not in pod["metadata"]]
        spec, name = owner["spec"], owner["metadata"]["name"]
        if "pods" in spec:
            present = {pod["metadata"]["name"] for pod in own}
            for at, defined in enumerate(spec["pods"]):
                if defined["metadata"]["name"] not in present:
                    self._create(owner, defined["metadata"]["name"], at, "")
            status: dict[str, Any] = {"pods": len(own), "currentPods": len(living), "readyPods": len(living)}
        else:
            for _ in range(spec["replicas"] - len(living)):
                self._made += 1
                self._create(owner, f"{name}-new{self._made}", 0, "")
            status = {"replicas": len(living), "updatedReplicas": len(living), "labelSelector": f"app={name}"}
        self._api.patch(f"{collection_path(owner)}/{name}/status", {"status": {**status, "observedGeneration": 1}})

    def _create(self, owner: Manifest, name: str, at: int, node: str) -> None:
        spec = owner["spec"]
        template = spec["pods"][at] if "pods" in spec else spec["template"]
        metadata = {
            **template["metadata"],
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "ownerReferences": [controlled_by(owner)],
        }
        bound = {**template["spec"], **({"nodeName": node} if node else {})}
        try:
            self._api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": bound})
        except ApiError as error:
            if error.code != 409:  # it was created a moment ago
                raise
