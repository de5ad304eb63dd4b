"""The ConfigMap with the records of surges. Only the leader writes it, on the version that it last read or wrote.

The records have their own ConfigMap, so none is left out for lack of space or lost with the status. Because of the
version, a leader that was deposed without knowing it cannot revive a surge that its successor has ended.
"""

from typing import Final

import msgspec
from kubernetes import client

from rebalancer.adapters.kubernetes.configmaps import SURGES, config_map_path
from rebalancer.adapters.kubernetes.transport import MERGE_PATCH, ClusterError, RequestRefused, Transport
from rebalancer.ports import ReadFailedError
from rebalancer.surge.record import RECORDS_KEY

_SECONDS: Final = 5.0
_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Stored(msgspec.Struct, frozen=True):
    metadata: _Metadata
    data: dict[str, str] | None = None


class SurgeMap:
    """Reads and writes the records."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self._namespace = namespace
        self._version = ""

    def load(self) -> str:
        """Return the records; raise ReadFailedError."""
        try:
            return self._take(self._request())
        except (ClusterError, msgspec.DecodeError) as error:
            raise ReadFailedError(self._explain(error)) from None

    def load_if_any(self) -> str:
        """Return the records, "" where the ConfigMap does not exist; raise ReadFailedError."""
        try:
            return self._take(self._request())
        except RequestRefused as error:
            if error.status == _NOT_FOUND:
                return ""
            raise ReadFailedError(self._explain(error)) from None
        except (ClusterError, msgspec.DecodeError) as error:
            raise ReadFailedError(self._explain(error)) from None

    def save(self, text: str) -> str:
        """Replace the records, unless somebody has since they were read; return why not, "" if done."""
        if not self._version:
            return f"ConfigMap {self._namespace}/{SURGES} has not been read"
        change = {"metadata": {"resourceVersion": self._version}, "data": {RECORDS_KEY: text}}
        self._version = ""  # until the answer comes, the stored content is unknown
        patch = client.CoreV1Api(self._transport).patch_namespaced_config_map
        try:
            answer = self._transport.call(patch, SURGES, self._namespace, change, _content_type=MERGE_PATCH)
            return "" if self._take(answer) == text else f"ConfigMap {self._namespace}/{SURGES} has other records"
        except (ClusterError, msgspec.DecodeError) as error:
            return self._explain(error)

    def _request(self) -> bytes:
        return self._transport.request("GET", config_map_path(self._namespace, SURGES), timeout=_SECONDS)

    def _take(self, answer: bytes) -> str:
        stored = msgspec.json.decode(answer, type=_Stored)
        self._version = stored.metadata.resource_version
        return (stored.data or {}).get(RECORDS_KEY, "")

    def _explain(self, error: Exception) -> str:
        place = f"ConfigMap {self._namespace}/{SURGES}"
        status = error.status if isinstance(error, RequestRefused) else 0
        if status in {_NOT_FOUND, _FORBIDDEN}:
            why = "does not exist" if status == _NOT_FOUND else "may not be read and written by this account"
            return f"{place} {why}: apply deploy/surge (in the chart policy.surge)"
        return f"{place} has been changed since it was read" if status == _CONFLICT else f"{place}: {error}"
