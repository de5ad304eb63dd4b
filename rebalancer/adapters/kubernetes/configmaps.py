"""ConfigMaps: the policy and the switches that people write, the status that the controller writes."""

from typing import Any

import msgspec
import structlog

from rebalancer.adapters.kubernetes.transport import ClusterError, RequestRefused, Transport
from rebalancer.admission import approval
from rebalancer.admission.pause import KEY, Pause, find_misnamed, read_pause
from rebalancer.decoding.config_maps import CONFIG_MAPS, decode_config_map
from rebalancer.decoding.interning import Interner
from rebalancer.model.cluster import ConfigMap
from rebalancer.ports import Document, SaveAnswer

STATUS, CONTROL, APPROVAL = "rebalancer-status", "rebalancer-control", "rebalancer-approval"
LIMIT = 256 * 1024
"""Bytes that the status may take; a document that exceeds them is left out, not truncated."""

_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409
_LABELS = {"app.kubernetes.io/name": "rebalancer"}
_log = structlog.get_logger("rebalancer.configmaps")


def find_pause(config_map: ConfigMap) -> Pause | None:
    """Return the pause in the control ConfigMap, None if it has none; one under a wrong name is one, too."""
    if KEY in config_map.binary:
        return Pause(unreadable="it is not text in UTF-8")
    if KEY in config_map.data:
        return read_pause(config_map.data[KEY])
    return find_misnamed((*config_map.data, *config_map.binary))


def find_approval(config_map: ConfigMap) -> str:
    """Return the hash of the approved plan in the approval ConfigMap, "" if it has none."""
    return config_map.data.get(approval.KEY, "").strip()


def read_config_map(
    transport: Transport, namespace: str, name: str, *, timeout: float | None = None
) -> ConfigMap | None:
    """Return a ConfigMap, None if there is none; `timeout` in seconds, None: the transport's own.

    Raises ClusterError, or msgspec.DecodeError for an answer that is no ConfigMap.
    """
    try:
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        config_map = CONFIG_MAPS.decoder.decode(transport.request("GET", path, timeout=timeout))
    except RequestRefused as error:
        if error.status == _NOT_FOUND:
            return None
        raise
    return decode_config_map(config_map, Interner())


class _StoredConfigMap(msgspec.Struct, frozen=True):
    metadata: dict[str, Any]
    data: dict[str, str] | None = None


class StatusMap:
    """The status ConfigMap of one namespace; only the leader writes it.

    Every write replaces the version that this process has read or written last, so that a leader who has been deposed
    without knowing it cannot overwrite what its successor has written.
    """

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._saved: dict[str, str] = {}
        self._metadata: dict[str, Any] = {}
        """As it was last read or written, {} where it does not exist."""

    def save(self, documents: tuple[Document, ...]) -> SaveAnswer:
        """Replace the stored documents.

        Documents that do not fit are left out; if the first does not fit, nothing is written. Failures are logged.
        """
        data: dict[str, str] = {}
        capacity = LIMIT
        for document in documents:
            size = len(document.text.encode())
            if size > capacity and not data:
                _log.error("status document too large", key=document.key, bytes=size, available=capacity)
                return SaveAnswer(f"{document.key} has {size} bytes, the ConfigMap may have {capacity}")
            if size > capacity:
                _log.warning("status document left out", key=document.key, bytes=size, available=capacity)
                continue
            capacity -= size
            data[document.key] = document.text
        if data == self._saved:
            return SaveAnswer()
        try:
            self._write(data)
        except ClusterError as error:
            answer = self._explain(error)
            _log.warning("status not saved", error=answer.problem)
            return answer
        self._saved = data
        return SaveAnswer()

    def _explain(self, error: ClusterError) -> SaveAnswer:
        """Say what is missing where the object does not exist and this account may not create it."""
        status = error.status if isinstance(error, RequestRefused) else 0
        if status == _FORBIDDEN and not self._metadata:
            problem = (
                f"ConfigMap {self._namespace}/{STATUS} does not exist, and this account has no right to create it; "
                f"run: kubectl create configmap {STATUS} --namespace {self._namespace}"
            )
            return SaveAnswer(problem, conflict=True)  # by the time somebody has created it, it must be read first
        # Not found: somebody has deleted the object since.
        return SaveAnswer(str(error), conflict=status in {_CONFLICT, _NOT_FOUND})

    def _write(self, data: dict[str, str]) -> None:
        # What others wrote into the metadata stays, such as what `kubectl apply` compares with.
        labels = {**_LABELS, "app.kubernetes.io/managed-by": "rebalancer"}
        metadata = self._metadata or {"name": STATUS, "namespace": self._namespace, "labels": labels}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        self._saved = {}  # until the answer says so, nobody knows what is stored
        # The installation has the object. Only a user with more rights than the controller's Role can create it here.
        method, path = ("PUT", f"{self._path}/{STATUS}") if self._metadata else ("POST", self._path)
        self._decode(self._transport.request(method, path, body=body))

    def _decode(self, answer: bytes) -> dict[str, str]:
        """Keep the metadata of an answer and return its data."""
        config_map = msgspec.json.decode(answer, type=_StoredConfigMap)
        self._metadata = {key: value for key, value in config_map.metadata.items() if key != "managedFields"}
        return config_map.data or {}

    def load(self, key: str) -> str:
        """Return a document, "" if there is none; raise ClusterError if the request fails."""
        try:
            data = self._decode(self._transport.request("GET", f"{self._path}/{STATUS}"))
        except RequestRefused as error:
            if error.status != _NOT_FOUND:
                raise
            self._saved, self._metadata = {}, {}
            return ""
        self._saved = {}
        return data.get(key, "")


class ControlMap:
    """A ConfigMap that people write, that of the kill switch or of approvals, for the command line.

    Every method that sends may raise ClusterError.
    """

    def __init__(self, transport: Transport, namespace: str, name: str = CONTROL) -> None:
        self._transport = transport
        self._namespace = namespace
        self._name = name
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"

    def __str__(self) -> str:
        """Name it."""
        return f"ConfigMap {self._namespace}/{self._name}"

    def read(self, *, timeout: float | None = None) -> ConfigMap | None:
        """Return it, None if there is none; `timeout` in seconds, None: the transport's own."""
        return read_config_map(self._transport, self._namespace, self._name, timeout=timeout)

    def put(self, key: str, text: str) -> None:
        """Write one key; the others stay as they are."""
        try:
            self._merge(key, text)
        except RequestRefused as error:
            if error.status != _NOT_FOUND:
                raise
            self._create(key, text)

    def remove(self, key: str) -> None:
        """Remove one key; the others stay as they are."""
        self._merge(key, None)

    def _merge(self, key: str, text: str | None) -> None:
        body = {"data": {key: text}, "binaryData": {key: None}}
        merge = "application/merge-patch+json"
        self._transport.request("PATCH", f"{self._path}/{self._name}", body=body, content_type=merge)

    def _create(self, key: str, text: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self._name, "namespace": self._namespace, "labels": _LABELS},
            "data": {key: text},
        }
        try:
            self._transport.request("POST", self._path, body=body)
        except RequestRefused as error:
            if error.status != _CONFLICT:
                raise
            self._merge(key, text)  # created by somebody else in the meantime
