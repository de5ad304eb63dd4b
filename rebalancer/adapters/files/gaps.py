"""What cannot be judged because a file does not mention a kind: absent is unknown, not empty."""

from collections.abc import Collection, Mapping
from typing import Final

_NEEDED_FOR: Final[Mapping[str, str]] = {
    "Pod": "what is to be counted",
    "Node": "which domains there are",
    "PodDisruptionBudget": "whether a budget lets a pod go",
    "ReplicaSet": "who replaces a pod",
    "Deployment": "who replaces a pod",
    "StatefulSet": "who replaces a pod",
    "ReplicationController": "who replaces a pod",
    "Namespace": "annotations of namespaces and affinity that selects them",
    "Service": "the scheduler's default constraints",
    "PersistentVolume": "where volumes tie a pod to",
    "PersistentVolumeClaim": "where volumes tie a pod to",
    "StorageClass": "where volumes tie a pod to",
    "CSINode": "how many volumes a node may attach",
    "PriorityClass": "priorities of new pods",
}


def describe_missing_kinds(unknown: Collection[str]) -> str:
    """Name the kinds and what hangs on them in one line; "" where every kind is known."""
    kinds: dict[str, list[str]] = {}
    for kind in _NEEDED_FOR:
        if kind in unknown:
            kinds.setdefault(_NEEDED_FOR[kind], []).append(kind)
    return "; ".join(f"{', '.join(named)} ({judged})" for judged, named in kinds.items())
