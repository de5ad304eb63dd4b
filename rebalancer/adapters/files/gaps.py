"""The kinds that a file does not contain, and what they are needed for: such a kind is unknown, not empty."""

from collections.abc import Collection, Mapping
from typing import Final

_NEEDED_FOR: Final[Mapping[str, str]] = {
    "Pod": "everything",
    "Node": "domains",
    "PodDisruptionBudget": "disruption budgets",
    "ReplicaSet": "replacements",
    "Deployment": "replacements",
    "StatefulSet": "replacements",
    "ReplicationController": "replacements",
    "Namespace": "namespace annotations and selectors",
    "Service": "default constraints",
    "PersistentVolume": "volumes",
    "PersistentVolumeClaim": "volumes",
    "StorageClass": "volumes",
    "CSINode": "volume limits",
    "PriorityClass": "priorities",
}


def describe_missing_kinds(unknown: Collection[str]) -> str:
    """List the unknown kinds, in the plural, and what they are needed for; "" if every kind is known."""
    kinds: dict[str, list[str]] = {}
    for kind in _NEEDED_FOR:
        if kind in unknown:
            kinds.setdefault(_NEEDED_FOR[kind], []).append(kind)
    return ", ".join(f"{', '.join(map(_plural, named))} ({use})" for use, named in kinds.items())


def _plural(kind: str) -> str:
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"
