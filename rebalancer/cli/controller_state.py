"""What the controller of a live cluster does, read from what it has written: its status and its policy."""

import os
import time
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import structs

from rebalancer.adapters.kubernetes.configmaps import StatusMap, read_config_map
from rebalancer.adapters.kubernetes.lease import KubernetesLease
from rebalancer.adapters.kubernetes.transport import ClusterError, Transport
from rebalancer.cli.errors import CliError
from rebalancer.locations import PREFIX, own_namespace
from rebalancer.model.moves import NO_MEMORY, Memory
from rebalancer.policy import Mode, Policy, PolicyError, load_policy
from rebalancer.policy.team_maps import POLICY_KEY, POLICY_MAP
from rebalancer.ports import MEMORY_KEY, STATUS_KEY, LeaseRecord, LeaseUnavailable
from rebalancer.reporting.acting import Acting, describe_controller, describe_mode, describe_no_leader
from rebalancer.reporting.documents.memory import parse_memory
from rebalancer.reporting.documents.status import LeaseStatus, StatusDocument

_LEASE_SECONDS: Final = 5.0
"""How long the answer to a read of the Lease may take."""

_USUAL_SECONDS: Final = 15.0
"""How long a Lease lasts that does not say so, or says something absurd: the default of `--lease-duration`."""

_RENEWAL_SECONDS: Final = 3.0
"""A leader renews the Lease more often than this: every 2 seconds by default."""


def controller_namespace() -> str:
    """Return the namespace of the controller's objects: by the environment, else the pod's own or the usual one."""
    return os.environ.get(f"{PREFIX}NAMESPACE") or own_namespace()


def read_status(transport: Transport, namespace: str) -> StatusDocument | None:
    """Return the controller's last status, None if it has written none; raise ClusterError or CliError."""
    text = StatusMap(transport, namespace).load(STATUS_KEY)
    if not text.strip():
        return None
    try:
        return msgspec.json.decode(text, type=StatusDocument)
    except msgspec.DecodeError as error:
        raise CliError(f"the status in namespace {namespace} is of another version: {error}") from None


def read_lease(transport: Transport, namespace: str, now: datetime) -> LeaseStatus:
    """Return who leads; a Lease that its holder has not renewed for its duration is free.

    One that has run out by this machine's clock is read again: the clock may be fast, and the holder renew it.
    """
    lease = KubernetesLease(transport, namespace=namespace, timeout=_LEASE_SECONDS)
    try:
        record = lease.read()
        if record is not None and record.holder and not _is_held(record, now):
            time.sleep(_RENEWAL_SECONDS)
            before, record = record, lease.read()
            if record is not None and record.holder and record.renewed != before.renewed:
                return LeaseStatus(holder=record.holder)
    except LeaseUnavailable:
        name = f"Lease {namespace}/rebalancer"
        return LeaseStatus(error=f"not allowed to get {name}; the ClusterRole rebalancer-view has the right")
    except ClusterError as error:
        return LeaseStatus(error=str(error))
    if record is None or record.renewed is None:
        return LeaseStatus()
    if _is_held(record, now):
        return LeaseStatus(holder=record.holder)
    return LeaseStatus(free_since=record.renewed + (_lifetime(record) if record.holder else timedelta(0)))


def _is_held(record: LeaseRecord, now: datetime) -> bool:
    """Return whether a Lease has a holder and has not run out; one without `renewTime` has."""
    fresh = record.renewed is not None and now - record.renewed < _lifetime(record)
    return bool(record.holder) and fresh


def _lifetime(record: LeaseRecord) -> timedelta:
    """Return how long after its last renewal a Lease is free, as processes that wait for it count."""
    return timedelta(seconds=record.expires_after(_USUAL_SECONDS))


def read_acting(transport: Transport, now: datetime, mode: Mode) -> Acting:
    """Say what the controller of this cluster will do, by its status, or by the mode where that is not readable."""
    namespace = controller_namespace()
    status: StatusDocument | None = None
    memory, unread = NO_MEMORY, ""
    try:
        status = read_status(transport, namespace)
        memory = _read_motion(transport, namespace)
    except (ClusterError, CliError):
        unread = "its status cannot be read"

    def describe() -> str:
        if unread:
            lease = read_lease(transport, namespace, now)
            return f"{describe_mode(mode)}; {unread}" if lease.holder else describe_no_leader(lease, unread)
        if status is None or status.last_cycle is None:
            return f"no controller has run in namespace {namespace}: nothing will be evicted"
        return describe_controller(structs.replace(status, lease=read_lease(transport, namespace, now)), now)

    if status is None or unread:
        return Acting(describe)
    return Acting(describe, status.breaker.namespaces, status.refused_evictions, memory)


def _read_motion(transport: Transport, namespace: str) -> Memory:
    """Return the part of the controller's memory that is about nodes in motion, and about others who evict."""
    memory = parse_memory(StatusMap(transport, namespace).load(MEMORY_KEY))
    return Memory(
        node_changes=memory.node_changes,
        domains_in_motion=memory.domains_in_motion,
        settling=memory.settling,
        evicted_by_others=memory.evicted_by_others,
    )


def read_cluster_policy(transport: Transport, namespace: str, name: str) -> Policy | None:
    """Return the policy of a ConfigMap, None if there is none; raise ClusterError, LookupError or PolicyError."""
    config_map = read_config_map(transport, namespace, name)
    if config_map is None:
        return None
    if POLICY_KEY not in config_map.data:
        raise LookupError(f"ConfigMap {namespace}/{name} has no key {POLICY_KEY}")
    return load_policy(config_map.data[POLICY_KEY].encode(), source=f"configmap:{namespace}/{name}")


def describe_other_policy(transport: Transport, used: Policy) -> str:
    """Say that the cluster has another policy than the one that is used; "" if it has not, or it cannot be read."""
    namespace = controller_namespace()
    try:
        policy = read_cluster_policy(transport, namespace, POLICY_MAP)
    except (ClusterError, LookupError, PolicyError):
        return ""
    if policy is None or policy.hash == used.hash:
        return ""
    place = f"configmap:{namespace}/{POLICY_MAP}"
    return f"the shipped policy is used, not the one in force in this cluster; pass --policy {place} for that"
