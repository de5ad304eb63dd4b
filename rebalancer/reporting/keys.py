"""Keys as people say them: those of topologies, and what tells one set of pods from another."""

from collections.abc import Mapping
from itertools import starmap

_SHORT = {
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "kubernetes.io/hostname": "node",
}


def short(key: str) -> str:
    """Name a topology key as people say it."""
    return _SHORT.get(key, key)


def key_text(key: Mapping[str, str]) -> str:
    """Name the pods that a limit is about: a workload as `kubectl` does, labels by their values."""
    if key.keys() == {"workload"}:
        return key["workload"]
    return ",".join(starmap(_labelled, key.items()))


def _labelled(label: str, value: str) -> str:
    return value if label == "workload" else f"{label.rpartition('/')[2]}={value}"
