"""Reads what an installation depends on: rights of its account, other programs that evict, kinds, the certificate."""

import socket
import ssl
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from kubernetes import client

from rebalancer.adapters.kubernetes.access import read_verdict
from rebalancer.adapters.kubernetes.cluster import BY_NAMESPACE
from rebalancer.adapters.kubernetes.transport import RequestRefused, Transport
from rebalancer.decoding.kinds import ENDPOINT_SLICES, KINDS, OPTIONAL_KINDS, ResourceKind

_NOT_FOUND: Final = 404
_LEASE: Final = "rebalancer"
_SECONDS: Final = 5.0
"""Seconds that one request may take."""

_PROGRAMS: Final = ("descheduler", "rebalancer")
"""Words in the image names of programs that evict pods for their placement."""


class Program(NamedTuple):
    """A workload whose program may evict pods for their placement, or a Lease that such a program holds."""

    kind: str
    namespace: str
    name: str


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _LeaseSpec = _LeaseSpec()


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: dict[str, Any] = {}


class _Leases(msgspec.Struct, frozen=True):
    items: tuple[_Lease, ...] = ()


class _Objects(msgspec.Struct, frozen=True):
    items: tuple[_Object, ...] = ()


def may(transport: Transport, account: str, verb: str, resource: str, namespace: str = "") -> bool:
    """Return whether an account may do this in a namespace ("": everywhere); raise ClusterError.

    `resource` may have a group and a subresource: `deployments.apps`, `pods/eviction`.
    """
    kind, _, sub = resource.partition("/")
    plural, _, group = kind.partition(".")
    attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": plural, "subresource": sub}
    body = {"spec": {"user": account, "groups": _groups_of(account), "resourceAttributes": attributes}}
    create = client.AuthorizationV1Api(transport).create_subject_access_review
    return read_verdict(transport.call(create, body, timeout=_SECONDS))


def _groups_of(account: str) -> list[str]:
    """Return the groups of a service account: a binding may name one of them."""
    namespace = account.split(":")[2]
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]


def list_leaders(transport: Transport, namespace: str) -> Iterator[Program]:
    """Yield the Leases of rebalancers in other namespaces that somebody holds; raise ClusterError."""
    query = {"fieldSelector": f"metadata.name={_LEASE}"}
    answer = transport.request("GET", "/apis/coordination.k8s.io/v1/leases", query=query, timeout=_SECONDS)
    for lease in msgspec.json.decode(answer, type=_Leases).items:
        if lease.metadata.namespace != namespace and lease.spec.holder_identity:
            yield Program("Lease", lease.metadata.namespace, lease.metadata.name)


def list_programs(transport: Transport, namespace: str) -> Iterator[Program]:
    """Yield Deployments and CronJobs whose images are deschedulers, or rebalancers elsewhere.

    Programs that run no pod are left out. Raises ClusterError.
    """
    for kind, path in (("Deployment", "/apis/apps/v1/deployments"), ("CronJob", "/apis/batch/v1/cronjobs")):
        answer = transport.request("GET", path, timeout=_SECONDS)
        for item in msgspec.json.decode(answer, type=_Objects).items:
            names = item.metadata
            if names.namespace != namespace and _runs(item.spec) and _evicts(_images(item.spec)):
                yield Program(kind, names.namespace, names.name)


def _runs(spec: dict[str, Any]) -> bool:
    return spec.get("replicas", 1) != 0 and not spec.get("suspend", False)


def _images(spec: dict[str, Any]) -> Iterator[str]:
    template = spec.get("jobTemplate", {}).get("spec", spec).get("template", {})
    for container in template.get("spec", {}).get("containers", ()):
        yield str(container.get("image", ""))


def _evicts(images: Iterator[str]) -> bool:
    return any(program in image.rpartition("/")[2] for image in images for program in _PROGRAMS)


def serves_monitoring(transport: Transport) -> bool:
    """Return whether the API server knows the kinds of the Prometheus operator; raise ClusterError."""
    try:
        transport.request("GET", "/apis/monitoring.coreos.com/v1", timeout=_SECONDS)
    except RequestRefused as error:
        if error.status == _NOT_FOUND:
            return False
        raise
    return True


def read_certificate_end(transport: Transport) -> datetime | None:
    """Return when the API server's certificate expires, None if there is none or it is not verified."""
    address = urlsplit(transport.host)
    configuration = transport.configuration
    if address.scheme != "https" or not configuration.verify_ssl:
        return None
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    try:
        with (
            socket.create_connection((address.hostname or "", address.port or 443), timeout=_SECONDS) as raw,
            context.wrap_socket(raw, server_hostname=configuration.tls_server_name or address.hostname) as secured,
        ):
            certificate = secured.getpeercert() or {}
    except OSError:  # other requests report problems with the connection
        return None
    end = certificate.get("notAfter")
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(end), UTC) if isinstance(end, str) else None


def find_missing_rights(
    transport: Transport, account: str, namespaces: Sequence[str], *, evicts: bool
) -> Mapping[str, Sequence[str]]:
    """Return the rights that an account lacks, each with its namespaces (none: everywhere); raise ClusterError.

    Each watched kind is checked; kinds that need not be readable everywhere are also checked in `namespaces`.
    """
    lacking: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for kind in (*KINDS, *OPTIONAL_KINDS):
        resource, places = f"{kind.plural}.{kind.group}".rstrip("."), _list_places(kind, namespaces)
        verbs = ("list",) if kind is ENDPOINT_SLICES else ("list", "watch")
        missing = {verb: _find_lacking(transport, account, verb, resource, places) for verb in verbs}
        for spaces in {one: None for one in missing.values() if one is not None}:
            together = " and ".join(verb for verb in verbs if missing[verb] == spaces)
            everywhere = len(spaces) == len(places)
            lacking[together, () if everywhere else spaces].append(resource)
    rights = {f"{verbs} {', '.join(resources)}": spaces for (verbs, spaces), resources in lacking.items()}
    asked = namespaces if evicts else ()
    unevicted = _find_lacking(transport, account, "create", "pods/eviction", asked) if asked else None
    return {**rights, "evict": unevicted} if unevicted is not None else rights


def _list_places(kind: ResourceKind, namespaces: Sequence[str]) -> Sequence[str]:
    """Return the namespaces in which reading a kind is enough if it may not be read everywhere; may be empty."""
    is_by_namespace = kind.name in BY_NAMESPACE or (kind in OPTIONAL_KINDS and kind.namespaced)
    return namespaces if is_by_namespace and kind is not ENDPOINT_SLICES else ()


def _find_lacking(
    transport: Transport, account: str, verb: str, resource: str, namespaces: Sequence[str]
) -> tuple[str, ...] | None:
    """Return the namespaces that lack a right, () if no namespaces are given; None if no namespace lacks it."""
    if may(transport, account, verb, resource):
        return None
    missing = tuple(name for name in namespaces if not may(transport, account, verb, resource, name))
    return missing if missing or not namespaces else None
