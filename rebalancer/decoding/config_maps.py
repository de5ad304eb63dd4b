"""Decodes ConfigMaps: only those with the names of the rebalancer's own are read."""

import msgspec

from rebalancer.decoding import wire
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import make_kind
from rebalancer.model.cluster import ConfigMap


class _WireConfigMap(wire.Wire, frozen=True):
    metadata: wire.Metadata
    data: dict[str, str] | None = None
    binary_data: dict[str, msgspec.Raw] | None = None


def decode_config_map(config_map: _WireConfigMap, _: Interner) -> ConfigMap:
    """Convert a ConfigMap."""
    metadata = config_map.metadata
    return ConfigMap(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        data=config_map.data or {},
        binary=frozenset(config_map.binary_data or ()),
    )


CONFIG_MAPS = make_kind(_WireConfigMap, decode_config_map, "v1/configmaps", "config_maps", name="ConfigMap")
