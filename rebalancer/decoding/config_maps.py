"""Decodes ConfigMaps: only those with the rebalancer's own names are read."""

from typing import Final

import msgspec

from rebalancer.decoding import wire
from rebalancer.decoding.interning import Interner
from rebalancer.decoding.kinds import make_kind
from rebalancer.history.declared import ANNOTATION
from rebalancer.model.cluster import ConfigMap, FieldManager
from rebalancer.model.moments import Moment

_OWNED: Final = "f:"
"""How the name of a field begins that a manager owns."""


class _OwnedFields(wire.Wire, frozen=True):
    data: dict[str, msgspec.Raw] | None = msgspec.field(default=None, name="f:data")


class _FieldManager(wire.Wire, frozen=True):
    manager: str = ""
    time: Moment | None = None
    fields_v1: _OwnedFields = _OwnedFields()


class _Metadata(wire.Metadata, frozen=True):
    managed_fields: list[_FieldManager] | None = None


class _WireConfigMap(wire.Wire, frozen=True):
    metadata: _Metadata
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
        declared=(metadata.annotations or {}).get(ANNOTATION, ""),
        managers=tuple(map(_decode_manager, metadata.managed_fields or ())),
    )


def _decode_manager(manager: _FieldManager) -> FieldManager:
    keys = (name.removeprefix(_OWNED) for name in manager.fields_v1.data or () if name.startswith(_OWNED))
    return FieldManager(manager.manager, manager.time, frozenset(keys))


CONFIG_MAPS = make_kind(_WireConfigMap, decode_config_map, "v1/configmaps", "config_maps", name="ConfigMap")
