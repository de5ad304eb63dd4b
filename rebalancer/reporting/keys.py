"""Short names of topology keys, domains and sets of pods."""

from collections.abc import Mapping
from itertools import starmap

_SHORT = {
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "kubernetes.io/hostname": "node",
}


def short_key(key: str) -> str:
    """Shorten a well-known topology key: zone, region or node."""
    return _SHORT.get(key, key)


def domain_name(key: str, domain: str) -> str:
    """Name a domain at the start of a sentence: `Zone c`, or `Domain r1 of example.com/rack`."""
    return f"{_SHORT[key].capitalize()} {domain}" if key in _SHORT else f"Domain {domain} of {key}"


def key_text(key: Mapping[str, str]) -> str:
    """Name the pods that a limit counts: a workload as `kubectl` does, labels by their values."""
    if key.keys() == {"workload"}:
        return key["workload"]
    return ",".join(starmap(_label_text, key.items()))


def _label_text(label: str, value: str) -> str:
    return value if label == "workload" else f"{label.rpartition('/')[2]}={value}"
