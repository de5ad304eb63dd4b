"""Decodes ConfigMaps. They are no part of a snapshot: only those with the names of the rebalancer's own are read."""

from collections.abc import Mapping

import msgspec

from rebalancer.decoding import wire
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import ResourceKind


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


CONFIG_MAPS = ResourceKind(
    name="ConfigMap",
    group="",
    version="v1",
    plural="configmaps",
    namespaced=True,
    field="config_maps",
    decoder=msgspec.json.Decoder(_WireConfigMap),
    convert=decode_config_map,
)
