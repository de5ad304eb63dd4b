"""Topology keys as people say them."""

_SHORT = {
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "kubernetes.io/hostname": "node",
}


def short(key: str) -> str:
    """Name a topology key as people say it."""
    return _SHORT.get(key, key)
