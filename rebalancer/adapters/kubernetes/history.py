"""The ConfigMaps of the history in one namespace.

The installation creates them: the controller may read and patch these names, and create none.
"""

from typing import Final

import msgspec
from kubernetes import client

from rebalancer.adapters.kubernetes.configmaps import config_map_path
from rebalancer.adapters.kubernetes.transport import MERGE_PATCH, ClusterError, RequestRefused, Transport
from rebalancer.history.contents import Contents, Write
from rebalancer.history.ring import ENTRIES_KEY, SEGMENT_MAPS
from rebalancer.history.trend import TREND_KEY, TREND_MAP
from rebalancer.ports import HistoryError

_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409
_SECONDS: Final = 5.0
"""How long one request may take."""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _StoredConfigMap(msgspec.Struct, frozen=True):
    metadata: _Metadata
    data: dict[str, str] | None = None


class HistoryMaps:
    """Reads and writes the ConfigMaps; every write has the version that was read or written last."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self._namespace = namespace
        self._versions: dict[str, str] = {}

    def read(self) -> Contents:
        """Return the contents of the ConfigMaps, with one request for each; raise HistoryError."""
        self._versions = {}
        segments = tuple(self._read(name, ENTRIES_KEY) for name in SEGMENT_MAPS)
        return Contents(segments=segments, trend=self._read(TREND_MAP, TREND_KEY))

    def _read(self, name: str, key: str) -> str:
        try:
            answer = self._transport.request("GET", config_map_path(self._namespace, name), timeout=_SECONDS)
            return self._take(name, answer).get(key, "")
        except (ClusterError, msgspec.DecodeError) as error:
            raise self._explain(name, error) from None

    def write(self, write: Write) -> None:
        """Replace one text, if nobody has changed its ConfigMap since it was read; raise HistoryError."""
        change = {"metadata": {"resourceVersion": self._versions[write.name]}, "data": {write.key: write.text}}
        patch = client.CoreV1Api(self._transport).patch_namespaced_config_map
        try:
            answer = self._transport.call(patch, write.name, self._namespace, change, _content_type=MERGE_PATCH)
            self._take(write.name, answer)
        except (ClusterError, msgspec.DecodeError) as error:
            raise self._explain(write.name, error) from None

    def _take(self, name: str, answer: bytes) -> dict[str, str]:
        config_map = msgspec.json.decode(answer, type=_StoredConfigMap)
        self._versions[name] = config_map.metadata.resource_version
        return config_map.data or {}

    def _explain(self, name: str, error: Exception) -> HistoryError:
        """Name the object, and say what to do if it is missing or may not be written."""
        place = f"ConfigMap {self._namespace}/{name}"
        status = error.status if isinstance(error, RequestRefused) else 0
        if status == _NOT_FOUND:
            way = f"run: kubectl create configmap {name} --namespace {self._namespace}"
            return HistoryError(f"{place} does not exist; apply deploy/ again, or {way}")
        if status == _FORBIDDEN:
            return HistoryError(f"this account may not get and patch {place}; deploy/ has the Role that allows it")
        if status == _CONFLICT:
            return HistoryError(f"{place} has been changed since it was read; it is read again")
        return HistoryError(f"{place}: {error}")
