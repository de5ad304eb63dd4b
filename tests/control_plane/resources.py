"""The paths of Kubernetes objects, by their kinds.

A table instead of discovery: the kinds that tests use are few, and a wrong word fails at once.
"""

from __future__ import annotations

from typing import Any, Final

Manifest = dict[str, Any]

CLUSTER_KINDS: Final = frozenset(
    {
        "APIService",
        "ClusterRole",
        "ClusterRoleBinding",
        "CSIDriver",
        "CSINode",
        "CustomResourceDefinition",
        "DeviceClass",
        "FlowSchema",
        "IngressClass",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "PriorityLevelConfiguration",
        "ResourceSlice",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
    }
)


def plural(kind: str) -> str:
    """Return the resource's name in paths."""
    word = kind.lower()
    if word == "endpoints":
        return word
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("s") else f"{word}s"


def collection_path(manifest: Manifest) -> str:
    """Return the path at which an object of this kind is created. The namespace is `default` unless it is given."""
    group = manifest["apiVersion"]
    kind = manifest["kind"]
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    if kind in CLUSTER_KINDS:
        return f"{root}/{plural(kind)}"
    return f"{root}/namespaces/{namespace_of(manifest)}/{plural(kind)}"


def object_path(manifest: Manifest) -> str:
    """Return the path of an object."""
    return f"{collection_path(manifest)}/{manifest['metadata']['name']}"


def namespace_of(manifest: Manifest) -> str:
    """Return the namespace of an object, `default` if it names none."""
    namespace: str = manifest["metadata"].get("namespace") or "default"
    return namespace


def key_of(manifest: Manifest) -> tuple[str, str]:
    """Return namespace and name."""
    return namespace_of(manifest), manifest["metadata"]["name"]
