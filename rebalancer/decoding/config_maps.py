"""Decodes ConfigMaps. They are no part of a snapshot: only those with the names of the rebalancer's own are read."""

from collections.abc import Mapping

import msgspec

from rebalancer.decoding import wire
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import make_kind


class _WireConfigMap(wire.Wire, frozen=True):
    metadata: wire.Metadata
    data: dict[str, str] | None = None
    binary_data: dict[str, msgspec.Raw] | None = None


class ConfigMap(msgspec.Struct, frozen=True, kw_only=True):
    """A ConfigMap: its keys with text, and the names of its keys with binary data."""

    namespace: str
    name: str
    uid: str
    data: Mapping[str, str]
    binary: frozenset[str] = frozenset()


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
