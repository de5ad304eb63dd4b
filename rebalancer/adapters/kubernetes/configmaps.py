"""ConfigMaps: the policy and the switches that people write, the status that the controller writes."""

import threading
from typing import Final

import msgspec
import structlog
from kubernetes import client

from rebalancer.adapters.kubernetes.transport import MERGE_PATCH, ClusterError, RequestRefused, Transport
from rebalancer.admission import approval
from rebalancer.admission.pause import KEY, Pause, find_misnamed, read_pause
from rebalancer.admission.written import APPROVAL_KEY, Written, read_written, unreadable
from rebalancer.decoding.config_maps import CONFIG_MAPS, decode_config_map
from rebalancer.decoding.interning import Interner
from rebalancer.history.declared import ANNOTATION, read_declaration
from rebalancer.model.cluster import ConfigMap
from rebalancer.model.history import Author
from rebalancer.model.moments import ALWAYS, seconds_of
from rebalancer.policy.team_maps import POLICY_KEY
from rebalancer.ports import STATUS_BYTES, Document, SaveAnswer

STATUS, CONTROL, APPROVAL = "rebalancer-status", "rebalancer-control", "rebalancer-approval"
SURGES: Final = "rebalancer-surges"
_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409
_LIST_SECONDS: Final = 5.0
"""The time limit of a request for an object's author, or for objects of its name elsewhere."""

_LABELS = {"app.kubernetes.io/name": "rebalancer"}
_log = structlog.get_logger("rebalancer.configmaps")


def find_pause(config_map: ConfigMap) -> Pause | None:
    """Return the pause in the control ConfigMap, None if it has none; a pause under a wrong name counts, too."""
    if KEY in config_map.binary:
        return Pause(unreadable="it is not text in UTF-8")
    if KEY in config_map.data:
        return read_pause(config_map.data[KEY])
    return find_misnamed((*config_map.data, *config_map.binary))


def find_approval(config_map: ConfigMap) -> str:
    """Return the hash of the approved plan in the approval ConfigMap, "" if there is none or the text is no hash."""
    text = config_map.data.get(approval.KEY, "").strip()
    return text if approval.HASH.fullmatch(text) else ""


def find_written(config_map: ConfigMap) -> Written:
    """Return the approval of a whole plan in the approval ConfigMap."""
    if APPROVAL_KEY in config_map.binary:
        return unreadable("it is not text in UTF-8")
    return read_written(config_map.data.get(APPROVAL_KEY, ""))


def find_author(config_map: ConfigMap, key: str) -> Author:
    """Return who changed a key last, as declared by the last command and as recorded by Kubernetes."""
    declared = read_declaration(config_map.declared)
    owners = [manager for manager in config_map.managers if key in manager.keys and manager.at is not None]
    last = max(owners, key=lambda manager: manager.at or ALWAYS, default=None)
    if last is None or last.at is None:
        return Author(who=declared.by, of=declared.of, ended=declared.ended)
    at = seconds_of(last.at)
    return Author(who=declared.by, of=declared.of, ended=declared.ended, manager=last.name, at=at)


def read_config_map(
    transport: Transport, namespace: str, name: str, *, timeout: float | None = None
) -> ConfigMap | None:
    """Return a ConfigMap, None if there is none; `timeout` in seconds, None: the transport's own.

    Raises ClusterError, or msgspec.DecodeError for an answer that is no ConfigMap.
    """
    try:
        answer = transport.request("GET", config_map_path(namespace, name), timeout=timeout)
        config_map = CONFIG_MAPS.decoder.decode(answer)
    except RequestRefused as error:
        if error.status == _NOT_FOUND:
            return None
        raise
    return decode_config_map(config_map, Interner())


class _List(msgspec.Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] = ()


def find_config_map(transport: Transport, namespace: str, name: str) -> ConfigMap | None:
    """Return a ConfigMap that this account may list by its name, but not get; None if there is none.

    Raises ClusterError, or msgspec.DecodeError for an answer that is no list of ConfigMaps.
    """
    query = {"fieldSelector": f"metadata.name={name}"}
    answer = transport.request("GET", config_map_path(namespace, "").rstrip("/"), query=query, timeout=_LIST_SECONDS)
    for item in msgspec.json.decode(answer, type=_List).items:
        return decode_config_map(CONFIG_MAPS.decoder.decode(item), Interner())
    return None


class _Place(msgspec.Struct, frozen=True):
    namespace: str = ""


class _Placed(msgspec.Struct, frozen=True):
    metadata: _Place


class _Places(msgspec.Struct, frozen=True):
    items: tuple[_Placed, ...] = ()


def find_namespaces(transport: Transport, name: str) -> tuple[str, ...]:
    """Return the namespaces that have a ConfigMap of this name, sorted.

    Raises ClusterError, or msgspec.DecodeError for an answer that is no list of ConfigMaps.
    """
    query = {"fieldSelector": f"metadata.name={name}"}
    answer = transport.request("GET", "/api/v1/configmaps", query=query, timeout=_LIST_SECONDS)
    return tuple(sorted(item.metadata.namespace for item in msgspec.json.decode(answer, type=_Places).items))


def config_map_path(namespace: str, name: str) -> str:
    """Return the path of a ConfigMap at the API server."""
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}"


def put_policy(transport: Transport, namespace: str, name: str, text: str) -> None:
    """Write a policy into a ConfigMap that the installation has; raise ClusterError."""
    change = {"data": {POLICY_KEY: text}, "binaryData": {POLICY_KEY: None}}
    patch = client.CoreV1Api(transport).patch_namespaced_config_map
    transport.call(patch, name, namespace, change, _content_type=MERGE_PATCH)


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _StoredConfigMap(msgspec.Struct, frozen=True):
    metadata: _Metadata
    data: dict[str, str] | None = None


class StatusMap:
    """The status ConfigMap of one namespace; only the leader writes it.

    A write succeeds only on the version that this process last read or wrote, so a leader that was deposed without
    knowing it cannot overwrite its successor. Labels and annotations of others stay; their documents are removed,
    because an outdated document would mislead.
    """

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self._namespace = namespace
        self._lock = threading.Lock()
        """A new leader loads in the thread of the Lease, while the loop may save."""

        self._version = ""
        """The version that was last read or written, "" if the ConfigMap does not exist."""

        self._stored: dict[str, str] = {}
        """The documents of that version."""

        self._certain = False
        """Whether the ConfigMap certainly has these documents: an answer to the last request confirmed it."""

    def save(self, documents: tuple[Document, ...]) -> SaveAnswer:
        """Replace the stored documents.

        Documents that do not fit are left out, not truncated. If the first does not fit, nothing is written. Failures
        are logged.
        """
        data: dict[str, str] = {}
        capacity = STATUS_BYTES
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
        if self._certain and data == self._stored:
            return SaveAnswer()
        try:
            with self._lock:
                self._write(data)
                self._certain = is_stored = self._stored == data
        except ClusterError as error:
            answer = self._explain(error)
            _log.warning("status not saved", error=answer.problem)
            return answer
        if not is_stored:
            return SaveAnswer(f"ConfigMap {self._namespace}/{STATUS} has other documents than were sent", conflict=True)
        return SaveAnswer()

    def _explain(self, error: ClusterError) -> SaveAnswer:
        """Say what to do if the object does not exist and this account may not create it."""
        status = error.status if isinstance(error, RequestRefused) else 0
        if status == _FORBIDDEN and not self._version:
            problem = (
                f"ConfigMap {self._namespace}/{STATUS} does not exist, and this account has no right to create it; "
                f"run: kubectl create configmap {STATUS} --namespace {self._namespace}"
            )
            return SaveAnswer(problem, conflict=True)  # by the time somebody has created it, it must be read first
        # Not found: somebody has deleted the object since.
        return SaveAnswer(str(error), conflict=status in {_CONFLICT, _NOT_FOUND})

    def _write(self, data: dict[str, str]) -> None:
        api = client.CoreV1Api(self._transport)
        self._certain = False  # until the answer comes, the stored content is unknown
        if self._version:
            changed = {key: text for key, text in data.items() if self._stored.get(key) != text}
            removed = dict.fromkeys(self._stored.keys() - data)
            change = {
                "metadata": {"resourceVersion": self._version},
                "data": changed | removed,
                "binaryData": dict.fromkeys(changed),  # no key may be in both
            }
            patch = api.patch_namespaced_config_map
            answer = self._transport.call(patch, STATUS, self._namespace, change, _content_type=MERGE_PATCH)
        else:
            # The installation creates the object. Only a user with more rights than the controller's Role can do so.
            labels = {**_LABELS, "app.kubernetes.io/managed-by": "rebalancer"}
            body = {"metadata": {"name": STATUS, "labels": labels}, "data": data}
            answer = self._transport.call(api.create_namespaced_config_map, self._namespace, body)
        self._decode(answer)

    def _decode(self, answer: bytes) -> None:
        config_map = msgspec.json.decode(answer, type=_StoredConfigMap)
        self._version, self._stored = config_map.metadata.resource_version, config_map.data or {}

    def load(self, key: str) -> str:
        """Return a document, "" if there is none; raise ClusterError if the request fails."""
        with self._lock:
            self._certain = False
            try:
                self._decode(self._transport.request("GET", config_map_path(self._namespace, STATUS)))
            except RequestRefused as error:
                if error.status != _NOT_FOUND:
                    raise
                self._version, self._stored = "", {}
            return self._stored.get(key, "")


class ControlMap:
    """A ConfigMap that people write, for the command line: the kill switch or the approvals.

    Every method that sends may raise ClusterError.
    """

    def __init__(self, transport: Transport, namespace: str, name: str = CONTROL) -> None:
        self._transport = transport
        self.namespace = namespace
        self.name = name

    def __str__(self) -> str:
        return f"ConfigMap {self.namespace}/{self.name}"

    def read(self, *, timeout: float | None = None) -> ConfigMap | None:
        """Return the ConfigMap, None if there is none; `timeout` in seconds, None: the transport's own."""
        return read_config_map(self._transport, self.namespace, self.name, timeout=timeout)

    def put(self, key: str, text: str, *, declared: str | None = None) -> None:
        """Write one key; other keys do not change. `declared` says who does it; None removes an earlier declaration.

        The ConfigMap is never created: if the installation has none, no controller reads it.
        """
        self._merge(key, text, declared)

    def remove(self, key: str, *, declared: str) -> None:
        """Remove one key; other keys do not change. `declared` says who does it."""
        self._merge(key, None, declared)

    def _merge(self, key: str, text: str | None, declared: str | None) -> None:
        metadata = {"annotations": {ANNOTATION: declared}}
        change = {"metadata": metadata, "data": {key: text}, "binaryData": {key: None}}
        patch = client.CoreV1Api(self._transport).patch_namespaced_config_map
        self._transport.call(patch, self.name, self.namespace, change, _content_type=MERGE_PATCH)
