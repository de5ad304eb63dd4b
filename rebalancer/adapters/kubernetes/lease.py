"""The Lease object: read, created, and patched if its resourceVersion is unchanged since it was read.

A patch keeps fields that others have written. Times are formatted here, because the API server accepts only times with
six digits after the point, but the client's models write none for a whole second.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from kubernetes import client

from rebalancer.adapters.kubernetes.transport import MERGE_PATCH, RequestRefused, Transport
from rebalancer.model.moments import Moment, micro_time
from rebalancer.ports import LeaseRecord, LeaseUnavailable

_CONFLICTS = frozenset({404, 409})

_MOST_TRANSITIONS: Final = 2**31 - 1
"""The API server refuses a larger `leaseTransitions`."""


class _LeaseMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Lease(msgspec.Struct, frozen=True):
    metadata: _LeaseMetadata
    spec: dict[str, Any] | None = None
    """Read field by field, because an invalid edited field must not keep every process from leading."""


_LEASE = msgspec.json.Decoder(_Lease)


class KubernetesLease:
    """One Lease, by name."""

    def __init__(self, transport: Transport, *, namespace: str, name: str = "rebalancer", timeout: float) -> None:
        self._transport = transport
        self._namespace = namespace
        self._name = name
        self._timeout = timeout

    def read(self) -> LeaseRecord | None:
        """Return the lease, None if there is none; raise LeaseUnavailable or ClusterError if it cannot be read."""
        try:
            data = self._transport.call(
                self._api.read_namespaced_lease, self._name, self._namespace, timeout=self._timeout
            )
        except RequestRefused as error:
            if error.status == 404:
                return None
            self._check_rights(error)
            raise
        return _decode_record(data)

    def write(self, record: LeaseRecord) -> LeaseRecord | None:
        """Write the lease; return None if another writer was quicker. Raise LeaseUnavailable or ClusterError."""
        version = record.version
        try:
            version = version or self._create()
            data = self._patch(record, version)
        except RequestRefused as error:
            if not version and error.status == 404:
                raise LeaseUnavailable(
                    f"the namespace {self._namespace} of the Lease does not exist. Create it with "
                    f"`kubectl create namespace {self._namespace}`, or choose another with --controller-namespace"
                ) from error
            if error.status in _CONFLICTS:
                return None
            self._check_rights(error)
            raise
        return _decode_record(data)

    def _check_rights(self, error: RequestRefused) -> None:
        """Raise LeaseUnavailable where the answer says that this identity may not use the Lease."""
        if error.status == 403:
            raise LeaseUnavailable(
                f"{error.details.get('message', error)}. Grant the verbs get, create and patch on leases in namespace "
                f"{self._namespace} with the Role in deploy/base/role.yaml, or choose another with "
                "--controller-namespace"
            ) from error

    @property
    def _api(self) -> "client.CoordinationV1Api":
        return client.CoordinationV1Api(self._transport)

    def _create(self) -> str:
        """Create the Lease without a holder and a time; return its version."""
        body = {"metadata": {"name": self._name}, "spec": {}}
        data = self._transport.call(self._api.create_namespaced_lease, self._namespace, body, timeout=self._timeout)
        return _decode_record(data).version

    def _patch(self, record: LeaseRecord, version: str) -> bytes:
        spec: dict[str, Any] = {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": record.duration,
            "leaseTransitions": min(record.transitions, _MOST_TRANSITIONS),
        }
        for field, moment in (("acquireTime", record.acquired), ("renewTime", record.renewed)):
            spec[field] = None if moment is None else micro_time(moment)
        return self._transport.call(
            self._api.patch_namespaced_lease,
            self._name,
            self._namespace,
            {"metadata": {"resourceVersion": version}, "spec": spec},
            timeout=self._timeout,
            _content_type=MERGE_PATCH,
        )


def _decode_record(data: bytes) -> LeaseRecord:
    lease = _LEASE.decode(data)
    spec = lease.spec or {}
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        duration=_number(spec, "leaseDurationSeconds"),
        acquired=_moment(spec, "acquireTime"),
        renewed=_moment(spec, "renewTime"),
        transitions=_number(spec, "leaseTransitions"),
        version=lease.metadata.resource_version,
    )


def _number(spec: Mapping[str, Any], field: str) -> int:
    value = spec.get(field)
    return max(0, value) if isinstance(value, int) else 0


def _moment(spec: Mapping[str, Any], field: str) -> datetime | None:
    """Return a time, None where it is absent, or not valid in Python, such as a time in the year 0."""
    try:
        return msgspec.convert(spec.get(field), Moment | None)
    except msgspec.ValidationError:
        return None
