"""What the controller of a live cluster does, read from its stored status and policy."""

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Final, NamedTuple

import msgspec
from msgspec import structs

from rebalancer.adapters.kubernetes.configmaps import STATUS, StatusMap, find_namespaces, read_config_map
from rebalancer.adapters.kubernetes.lease import KubernetesLease
from rebalancer.adapters.kubernetes.transport import LIKE_CLOCKS, ClusterError, RequestRefused, Transport
from rebalancer.cli.acting import Acting
from rebalancer.cli.errors import CliError, warn
from rebalancer.cli.refusals import VIEW
from rebalancer.documents.memory import parse_memory
from rebalancer.documents.phrases import NO_CONTROLLER
from rebalancer.documents.status import LeaseStatus, PolicyStatus, StatusDocument
from rebalancer.locations import ConfigMapPolicy, parse_policy_location
from rebalancer.model.moves import NO_MEMORY
from rebalancer.model.words import format_rest, name_list
from rebalancer.policy import Mode, Policy, PolicyError, default_policy, is_team_policy, load_policy
from rebalancer.policy.team_maps import POLICY_KEY, POLICY_MAP, VALID_POLICY_MAP
from rebalancer.ports import MEMORY_KEY, STATUS_KEY, LeaseRecord, LeaseUnavailable
from rebalancer.reporting.acting import (
    describe_controller,
    describe_mode,
    describe_no_leader,
    find_idle,
    leaders_time,
    runs,
)

_LEASE_SECONDS: Final = 5.0
"""Seconds that a read of the Lease may take."""

_USUAL_SECONDS: Final = 15.0
"""Duration of a Lease without a duration, or with an absurd one: the default of `--lease-duration`."""

_LONGEST_AHEAD: Final = timedelta(days=1)
"""A clock that seems further ahead means that somebody has written the Lease by hand."""

_RENEWAL_SECONDS: Final = 3.0
"""A leader renews the Lease more often than this: every 2 seconds by default."""


def read_status(transport: Transport, namespace: str) -> StatusDocument | None:
    """Return the controller's last status, None if it has written none; raise ClusterError or CliError."""
    text = StatusMap(transport, namespace).load(STATUS_KEY)
    if not text.strip():
        return None
    try:
        return msgspec.json.decode(text, type=StatusDocument)
    except msgspec.DecodeError as error:
        raise CliError(f"the status in namespace {namespace} is of another version: {error}") from None


def warn_of_clock(transport: Transport) -> None:
    """Warn if this machine's clock differs from the API server's, as far as answers have shown it."""
    if ahead := transport.clock_ahead:
        behind = "behind" if ahead > timedelta(0) else "ahead of"
        warn([f"this machine's clock is {format_rest(abs(ahead))} {behind} the API server's, by which status counts"])


def read_lease(transport: Transport, namespace: str) -> LeaseStatus:
    """Return who leads; a Lease that was not renewed for its duration is free.

    A Lease that has run out by the API server's clock is read again, because its holder's clock may be slow.
    """
    lease = KubernetesLease(transport, namespace=namespace, timeout=_LEASE_SECONDS)
    try:
        record = lease.read()
        if record is not None and record.holder and not _is_held(record, transport.now()):
            time.sleep(_RENEWAL_SECONDS)
            before, record = record, lease.read()
            if record is not None and record.holder and record.renewed != before.renewed:
                return _held_lease(record, transport.now())
    except LeaseUnavailable:
        name = f"Lease {namespace}/rebalancer"
        return LeaseStatus(error=f"not allowed to get {name}; {VIEW}")
    except ClusterError as error:
        return LeaseStatus(error=str(error))
    if record is None or record.renewed is None:
        return LeaseStatus()
    if _is_held(record, transport.now()):
        return _held_lease(record, transport.now())
    if not record.holder:
        return LeaseStatus(free_since=record.renewed)
    return LeaseStatus(last_holder=record.holder, renewed=record.renewed, free_since=record.renewed + _lifetime(record))


def _held_lease(record: LeaseRecord, now: datetime) -> LeaseStatus:
    """Return who leads, and how far its clock is ahead; `now` is by the API server's clock, just after a renewal.

    An older renewal says nothing about the clock.
    """
    ahead = record.renewed - now if record.renewed is not None else timedelta(0)
    differs = LIKE_CLOCKS < ahead < _LONGEST_AHEAD or ahead < -_lifetime(record)
    seconds = round(ahead.total_seconds()) if differs else 0
    return LeaseStatus(holder=record.holder, renewed=record.renewed, since=record.acquired, ahead_seconds=seconds)


def _is_held(record: LeaseRecord, now: datetime) -> bool:
    """Return whether a Lease has a holder and has not run out; a Lease without `renewTime` has run out."""
    fresh = record.renewed is not None and now - record.renewed < _lifetime(record)
    return bool(record.holder) and fresh


def _lifetime(record: LeaseRecord) -> timedelta:
    """Return how long after its last renewal a Lease is free, by the rules of the processes that wait for it."""
    return timedelta(seconds=record.expires_after(_USUAL_SECONDS))


def read_acting(transport: Transport, namespace: str, mode: Mode) -> Acting:
    """Return what the controller of a namespace will do, by its status, or by `mode` if the status is unreadable."""
    status: StatusDocument | None = None
    memory, unread = NO_MEMORY, ""
    try:
        status = read_status(transport, namespace)
        stored = StatusMap(transport, namespace).load(MEMORY_KEY)
        memory = parse_memory(stored)
        if memory is NO_MEMORY and stored.strip():
            warn(["what the controller has stored of its moves cannot be read by this version: moves may be in flight"])
    except (ClusterError, CliError):
        unread = "its status cannot be read"

    @cache
    def lease() -> LeaseStatus:
        return read_lease(transport, namespace)

    elsewhere = cache(partial(find_elsewhere, transport, namespace))

    def describe() -> str:
        if unread:
            by_mode = f"{describe_mode(mode)}; {unread}"
            return by_mode if lease().holder else describe_no_leader(lease(), unread, transport.now())
        if status is None or status.last_cycle is None:
            return _describe_absent(namespace, elsewhere())
        known = structs.replace(status, lease=lease())
        return describe_controller(known, leaders_time(known, transport.now()))

    if unread:
        return Acting(describe, find_idle=lambda: find_idle(mode, lease(), knows_approvals=False))
    if status is None:
        return Acting(describe, find_idle=lambda: "it is another controller's" if elsewhere() else NO_CONTROLLER)
    own = Mode(status.mode)
    known = status
    return Acting(
        describe,
        status,
        memory,
        find_idle=lambda: find_idle(own, lease()),
        is_led=lambda: runs(structs.replace(known, lease=lease())),
    )


def find_elsewhere(transport: Transport, namespace: str) -> str:
    """Say in which other namespaces a controller has written its status, "" if none is known."""
    try:
        others = [other for other in find_namespaces(transport, STATUS) if other != namespace]
    except (ClusterError, msgspec.DecodeError):
        return ""
    return f"ConfigMap {STATUS} is in {name_list(others)}" if others else ""


def _describe_absent(namespace: str, elsewhere: str) -> str:
    nowhere = f"no controller has run in namespace {namespace}"
    if elsewhere:
        return f"{nowhere}; {elsewhere}: --controller-namespace says which one is meant"
    return f"{nowhere}, and nothing is known of another one (--controller-namespace says where it runs)"


class MapPolicy(NamedTuple):
    """The policy of a ConfigMap, and its other keys, which are files beside the policy if it is mounted."""

    policy: Policy
    files: Mapping[str, str]


def read_map_policy(transport: Transport, namespace: str, name: str) -> MapPolicy | None:
    """Return the policy of a ConfigMap, None if it has none or only a team policy.

    Raises ClusterError, LookupError or PolicyError.
    """
    config_map = read_config_map(transport, namespace, name)
    if config_map is None or is_team_policy(config_map.data.get(POLICY_KEY, "").encode()):
        return None
    if POLICY_KEY not in config_map.data:
        raise LookupError(f"ConfigMap {namespace}/{name} has no key {POLICY_KEY}")
    policy = load_policy(config_map.data[POLICY_KEY].encode(), source=f"configmap:{namespace}/{name}")
    return MapPolicy(policy, config_map.data)


_UNREAD: Final = "cannot be read"
_INVALID: Final = "is invalid"


class _Problem(NamedTuple):
    """The problem with the written policy, and its reason."""

    what: str
    why: str


class PolicyInForce(NamedTuple):
    """The policy by which the controller of a cluster acts, if it is not the shipped one."""

    place: ConfigMapPolicy
    """The ConfigMap that has the policy in force."""
    map_policy: MapPolicy | None
    doubt: str
    """Why another policy may be in force, "" without a doubt."""
    sure: bool
    """Whether the controller itself confirms that this policy is in force."""
    missing: bool
    """Whether `written` has no policy."""
    written: ConfigMapPolicy
    """The ConfigMap in which people write the policy."""


def find_policy_in_force(transport: Transport, namespace: str) -> PolicyInForce:
    """Return the policy in force: from the ConfigMap that the controller names, or from the mounted one.

    A mounted ConfigMap is a file for the controller, and reaches it up to a minute late; the hash shows whether it has
    arrived. While the written policy is refused, the last valid policy is in force, which the controller has stored. If
    no controller runs, no policy is in force; the next controller begins with the written policy if that is valid.

    A ClusterError is raised only if the cluster does not answer at all.
    """
    status, unread = None, ""
    try:
        status = read_status(transport, namespace)
    except RequestRefused:
        pass
    except CliError as error:
        unread = f"what the controller says of its policy cannot be read: {error}"
    place = _find_policy_map(status, namespace)
    found, problem = _read_written(transport, place)
    missing = found is None and not problem
    used = found.policy if found is not None else default_policy()
    sure = status is not None and status.policy.hash == used.hash and not problem
    if status is not None and not (sure and status.policy.valid):  # the message depends on who leads; may take seconds
        status = structs.replace(status, lease=read_lease(transport, namespace))
    is_led = status is None or runs(status)
    if status is not None and (found is None or (is_led and not status.policy.valid)):
        last = _find_last_valid(transport, namespace, place, status.policy.hash)
        if last is not None:
            doubt = _doubt_written(status, place, problem)
            valid = ConfigMapPolicy(namespace, VALID_POLICY_MAP)
            return PolicyInForce(valid, last, doubt, sure=True, missing=missing, written=place)
    doubt = unread
    if problem:
        doubt = f"the policy in {place} {problem.what}: {problem.why}" if is_led else _describe_next(place, problem)
    elif status is not None and not sure:
        doubt = _doubt_other(status.policy, place, is_led=is_led, is_written=found is not None)
    if doubt and found is None:
        doubt += "; the shipped policy is used: give the controller's with --policy"
    return PolicyInForce(place, found, doubt, sure, missing, written=place)


def doubt_next_policy(transport: Transport, namespace: str, status: StatusDocument) -> str:
    """Say that the policy of the next controller is invalid, "" if it is valid or a controller runs."""
    if runs(status):
        return ""
    place = _find_policy_map(status, namespace)
    _, problem = _read_written(transport, place)
    return _describe_next(place, problem) if problem is not None and problem.what == _INVALID else ""


def _describe_next(place: ConfigMapPolicy, problem: _Problem) -> str:
    return f"the policy of the next controller, {place}, {problem.what}: {problem.why}"


def _doubt_other(acts_by: PolicyStatus, place: ConfigMapPolicy, *, is_led: bool, is_written: bool) -> str:
    """Say that the controller has a policy other than the chosen one, "" if the next controller begins with this."""
    if is_written and not is_led:
        return ""
    why = "which it has not read yet or refuses, see rebalancer status" if is_written else "which is not there"
    acts = "the controller acts" if is_led else "no controller runs; the last one acted"
    return f"{acts} by policy {acts_by.hash} ({acts_by.source}), not by {place}, {why}"


def _doubt_written(status: StatusDocument, place: ConfigMapPolicy, problem: _Problem | None) -> str:
    """Say why the stored policy is used instead of the written one; `status` says who leads."""
    written = f"there is no policy in {place}"
    if problem is not None:
        written = f"the policy in {place} {problem.what} ({problem.why})"
    if not runs(status):
        return f"{written}, and no controller runs; the last valid one is used here, as a controller has stored it"
    if not (status.policy.valid or status.policy.missing):
        why = problem.why if problem is not None else _one_line(status.policy.error)
        written = f"the controller refuses the policy in {place} ({why})"
    return f"{written}; the last valid one is in force, and used here, as the controller has stored it"


def _one_line(error: str) -> str:
    """Return a policy's error, which may have several lines, as part of a sentence."""
    return "; ".join(error.splitlines())


def _read_written(transport: Transport, place: ConfigMapPolicy) -> tuple[MapPolicy | None, _Problem | None]:
    """Return the policy written there, None if there is none, or the problem with reading it."""
    try:
        return read_map_policy(transport, place.namespace, place.name), None
    except RequestRefused as error:
        right = f"; {VIEW}" if error.status == 403 else ""
        return None, _Problem(_UNREAD, f"{error.details.get('message', error)}{right}")
    except LookupError as error:
        return None, _Problem(_UNREAD, str(error.args[0]))
    except PolicyError as error:
        return None, _Problem(_INVALID, _one_line(str(error)))


def _find_last_valid(
    transport: Transport, namespace: str, place: ConfigMapPolicy, policy_hash: str
) -> MapPolicy | None:
    """Return the policy that the controller has stored, None if it acts by another policy.

    The files beside the policy come from `place`, because the controller reads their current content.
    """
    try:
        stored = read_map_policy(transport, namespace, VALID_POLICY_MAP)
        if stored is None or stored.policy.hash != policy_hash:
            return None
        beside = read_config_map(transport, place.namespace, place.name)
    except (RequestRefused, LookupError, PolicyError):
        return None
    return stored if beside is None else MapPolicy(stored.policy, {**beside.data, **stored.files})


def _find_policy_map(status: StatusDocument | None, namespace: str) -> ConfigMapPolicy:
    """Return the ConfigMap of a controller's policy: the one named in its status, else the one mounted by deploy/."""
    if status is not None:
        try:
            named = parse_policy_location(status.policy.source)
        except ValueError:
            named = None
        if isinstance(named, ConfigMapPolicy):
            return named
    return ConfigMapPolicy(namespace, POLICY_MAP)
