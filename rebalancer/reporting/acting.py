"""What the controller does, in one line: the same for commands and the status page."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from rebalancer.model.moves import NO_MEMORY, Memory
from rebalancer.policy import Mode
from rebalancer.reporting.documents.status import (
    BlockedNamespace,
    LeaseStatus,
    RefusedEviction,
    SlowStartStatus,
    StatusDocument,
)
from rebalancer.reporting.phrases import ago

_ACTING: Final = {
    Mode.OBSERVE: "mode Observe: the controller will not evict",
    Mode.APPROVE: "mode Approve: the controller evicts what is approved",
    Mode.EVICT: "mode Evict: the controller evicts",
}


_LATE_INTERVALS: Final = 5
_LATE: Final = timedelta(minutes=2)
"""A leader is late whose last cycle is longer ago than this and than several intervals: planning takes time, too."""


def describe_mode(mode: Mode) -> str:
    """Say what the controller does with a plan in a mode."""
    return _ACTING[mode]


def describe_status(status: StatusDocument) -> str:
    """Say in one line what a controller with this status does, and what keeps it from evicting."""
    if status.paused is not None and status.paused.error:
        return f"paused: {status.paused.error}: the controller will not evict"
    if status.paused is not None:
        by = f" by {status.paused.by}" if status.paused.by else ""
        return f"paused{by}: {status.paused.reason}: the controller will not evict"
    if status.mode == Mode.OBSERVE:
        return _ACTING[Mode.OBSERVE]
    if status.breaker.open:
        return f"mode {status.mode}, but the breaker is open ({', '.join(status.breaker.causes)}): no eviction now"
    if status.stale:
        return f"mode {status.mode}, but {status.stale}: no eviction now"
    bad = [guard.name for guard in status.guards if not guard.good]
    if bad:
        return f"mode {status.mode}, but not every guard is good ({', '.join(bad)}): no eviction now"
    return _ACTING[Mode(status.mode)]


def describe_controller(status: StatusDocument, now: datetime) -> str:
    """Say in one line what the controller does, by its status and by who leads: without a leader nothing happens."""
    lease, last = status.lease, status.last_cycle
    ran = f"last cycle {ago(last, now)}" if last is not None else "no cycle yet"
    if lease is None:
        return describe_status(status)
    if not lease.holder:
        return describe_no_leader(lease, ran)
    if lease.holder != status.leader:
        return f"mode {status.mode}, but {lease.holder} leads and has not ended a cycle yet: {ran}"
    late = max(_LATE, _LATE_INTERVALS * timedelta(seconds=status.policy.interval_seconds))
    if status.paused is None and last is not None and now - last > late:
        return f"mode {status.mode}, but {lease.holder} leads and is late: {ran}"
    return describe_status(status)


def slow_start_text(windows: SlowStartStatus) -> str:
    """Say how many moves may be under way at once, and how many are."""
    places = [
        f"{windows.at_once} at once in the cluster ({windows.under_way} under way)",
        *(f"{one.at_once} in {one.namespace} ({one.under_way} under way)" for one in windows.namespaces),
    ]
    return f"Slow start: {', '.join(places)}."


def describe_no_leader(lease: LeaseStatus, ran: str) -> str:
    """Say in one line that nobody leads, or that this is not known; `ran` says when the last cycle was."""
    if lease.free_since is None and lease.error:
        return f"whether a controller leads is not known: {lease.error}; {ran}"
    known = " as far as this process knows" if lease.error else ""
    since = f" since {lease.free_since:%Y-%m-%d %H:%M:%SZ}" if lease.free_since is not None else ""
    why = f"; {lease.error}" if lease.error else ""
    return f"no controller leads{known}: Lease free{since}, {ran}{why}"


@dataclass(frozen=True)
class Acting:
    """What the controller does with a plan, and what it does not send, as far as that is known.

    `blocked` are the namespaces in which it evicts nothing, `refused` evictions that it requests again later. `memory`
    is what it knows of nodes that have changed, and of evictions by others: nothing in the cluster says so.
    """

    describe: Callable[[], str]
    blocked: tuple[BlockedNamespace, ...] = ()
    refused: tuple[RefusedEviction, ...] = ()
    memory: Memory = NO_MEMORY

    @cached_property
    def line(self) -> str:
        """What it does, in one line. Reads the Lease, which may take seconds: only for whoever prints it."""
        return self.describe()
