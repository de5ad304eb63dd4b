"""One line, the same in every view: who leads, since when, how old the last cycle is, and what the controller does.

It is the first line of `status`, `plan`, `report` and the page. It begins with the leader, because the rest of a status
may describe a process that is gone.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from rebalancer.documents.phrases import NO_CONTROLLER, ago
from rebalancer.documents.status import (
    LeaseStatus,
    SlowStartStatus,
    StatusDocument,
)
from rebalancer.model.modes import Mode
from rebalancer.model.moves import MoveState
from rebalancer.model.reasons import Reason
from rebalancer.model.words import EVICT_RIGHT, format_rest, name_list

_ACTING: Final = {
    Mode.OBSERVE: "mode Observe: the controller will not evict",
    Mode.APPROVE: "mode Approve: the controller evicts what is approved",
    Mode.EVICT: "mode Evict: the controller evicts",
}


_RENEWAL: Final = timedelta(seconds=5)
"""A running leader renews the Lease more often than this; by default every 2 seconds."""

_FRESH: Final = timedelta(seconds=3)
"""Up to this age, readers treat anything as current."""

_LATE_INTERVALS: Final = 5
_LATE: Final = timedelta(minutes=2)
"""A leader is late if its last cycle is older than this and than several intervals, because planning takes time."""


def describe_mode(mode: Mode) -> str:
    """Say what the controller does with a plan in a mode."""
    return _ACTING[mode]


def find_idle(mode: Mode, lease: LeaseStatus | None = None, *, knows_approvals: bool = True) -> str:
    """Say why a controller in this mode makes none of the evictions that may go now; return "" if it makes them.

    The stored status says what is approved. Without a status, or for a file of a cluster, nothing counts as approved.
    """
    if lease is not None and not lease.holder:
        is_unknown = lease.free_since is None and lease.error
        return "whether a controller runs is not known" if is_unknown else NO_CONTROLLER
    if mode == Mode.APPROVE and not knows_approvals:
        return "mode Approve moves only what is approved"
    return "mode Observe moves none" if mode == Mode.OBSERVE else ""


def describe_status(status: StatusDocument) -> str:
    """Say in one line what a controller with this status does, and what keeps it from evicting."""
    if status.paused is not None and status.paused.error:
        return f"paused, since pause.yaml cannot be read ({status.paused.error}): the controller will not evict"
    if status.paused is not None:
        by = f" by {status.paused.by}" if status.paused.by else ""
        why = f": {status.paused.reason}" if status.paused.reason else ""
        return f"paused{by}{why}: the controller will not evict"
    if status.mode == Mode.OBSERVE:
        return _ACTING[Mode.OBSERVE]
    if hindrance := find_hindrance(status):
        return f"mode {status.mode}, but {hindrance}: no eviction now"
    if status.missing_rights:
        return f"mode {status.mode}, but {describe_missing_rights(status.missing_rights)}"
    return _ACTING[Mode(status.mode)]


def find_hindrance(status: StatusDocument) -> str:
    """Say what in the cluster or the policy keeps every eviction back; return "" if nothing does."""
    if status.breaker.open:
        return f"the breaker is open ({', '.join(status.breaker.causes)})"
    if status.stale:
        return status.stale
    bad = [guard.name for guard in status.guards if not guard.good]
    unsaved = (hold.message for hold in status.holds if hold.reason == Reason.MEMORY_NOT_SAVED)
    return next(unsaved, f"not every guard is good ({', '.join(bad)})" if bad else "")


def describe_missing_rights(namespaces: Sequence[str]) -> str:
    """Say where the account may not evict, and how to grant the right."""
    return f"no right to evict in {name_list(namespaces)}: apply {EVICT_RIGHT}, or deploy/namespace there"


def policy_source(status: StatusDocument) -> str:
    """Say where the policy in force is stored; while the newest policy is refused, the last valid one is in force."""
    return status.policy.source if status.policy.valid else "the last valid one, kept in rebalancer-policy-valid"


def runs(status: StatusDocument) -> bool:
    """Return whether a process leads or may lead; if none does, nothing follows the end of a wait."""
    lease = status.lease
    return lease is None or bool(lease.holder) or (lease.free_since is None and bool(lease.error))


def goes_on(status: StatusDocument) -> bool:
    """Return whether anything follows the end of a wait, because a process is known to lead."""
    return runs(status) and (status.lease is None or status.lease.unread_since is None)


def is_of_last_leader(status: StatusDocument) -> bool:
    """Return whether a new leader has not ended a cycle yet, so that the status is still the last leader's."""
    lease = status.lease
    return lease is not None and bool(lease.holder) and lease.unread_since is None and lease.holder != status.leader


def describe_stored(status: StatusDocument, now: datetime) -> str:
    """Say how old a status is that no running leader has stored; "" if one has, or none is stored."""
    last = status.last_cycle
    if last is None or (goes_on(status) and not is_of_last_leader(status)):
        return ""
    at = f"{last:%Y-%m-%d %H:%M:%SZ} ({ago(last, now)})"
    if is_of_last_leader(status):
        return f"What follows is of the last leader's last cycle, {at}: the new leader has not ended one yet."
    return f"What follows is of the last cycle, {at}."


def moving_word(status: StatusDocument) -> str:
    """Return the word for pods in flight, which count as moving only while a leader follows them."""
    return "moving" if goes_on(status) else "evicted, not watched"


def describe_unwatched(state: str, began: datetime, now: datetime) -> str:
    """Say what is known of a move that no controller follows; `began` is when it was requested."""
    done = "requested" if state == MoveState.PLANNED else "evicted"
    return f"{done} at {began:%Y-%m-%d %H:%M:%SZ} ({ago(began, now)}), not watched"


def _name_policy_problem(status: StatusDocument) -> str:
    """Say in a few words what is wrong with the policy as written, now or in the last cycle."""
    is_now = runs(status)
    if status.policy.missing:
        return "no policy can be read" if is_now else "no policy could be read in the last cycle"
    return "a newer policy is invalid" if is_now else "a newer policy was invalid in the last cycle"


def describe_policy_problem(status: StatusDocument) -> str:
    """Say what is wrong with the policy as written, and which one is in force; "" if the written one is."""
    if status.policy.valid:
        return ""
    what = "No policy can be read" if status.policy.missing else "A newer policy is refused"
    follows = "the last valid one stays in force"
    if not runs(status):
        what = "No policy could be read" if status.policy.missing else "A newer policy was refused"
        what, follows = f"{what} in the last cycle", "no controller runs, and none starts without a valid one"
        if status.lease is not None and status.lease.unread_since is not None:
            follows = "which one is in force now is not known"
    return f"{what}, {follows}: {status.policy.error}"


def leaders_time(status: StatusDocument, now: datetime) -> datetime:
    """Return the time by the leader's clock, which the status uses; `now` is the API server's."""
    return now + timedelta(seconds=status.lease.ahead_seconds) if status.lease is not None else now


def describe_controller(status: StatusDocument, now: datetime) -> str:
    """Say in one line who leads and what the controller does: without a leader nothing happens."""
    lease, last = status.lease, status.last_cycle
    ran = f"last cycle {ago(last, now)}" if last is not None else "no cycle yet"
    invalid = "" if status.policy.valid else f"; {_name_policy_problem(status)}: {_first_line(status.policy.error)}"
    if lease is not None and not lease.holder:
        by = f" by {status.leader}" if last is not None and status.leader else ""
        return f"{describe_no_leader(lease, ran + by, now)}{invalid}"
    leads = f"{_describe_leader(lease, now)}, " if lease is not None else ""
    if last is not None and status.as_of is not None and now - status.as_of >= _FRESH:
        # It is stored less often than cycles end.
        ran = f"last cycle at most {ago(last, now)}, as of {ago(status.as_of, now)}"
    return f"{leads}{ran}; {find_trouble(status, now) or describe_status(status)}{invalid}"


def find_trouble(status: StatusDocument, now: datetime) -> str:
    """Say how the leader deviates from the status; return "" if it does not. The status has a leader, or needs none."""
    lease, last = status.lease, status.last_cycle
    if lease is None:
        return ""
    if lease.unread_since is not None:
        return f"mode {status.mode}, but {_describe_silence(lease, now)}"
    if is_of_last_leader(status):
        return f"mode {status.mode}, but it has not ended a cycle yet"
    late = max(_LATE, _LATE_INTERVALS * timedelta(seconds=status.policy.interval_seconds))
    is_late = status.paused is None and last is not None and now - last > late
    return f"mode {status.mode}, but it is late" if is_late else ""


def _describe_silence(lease: LeaseStatus, now: datetime) -> str:
    """Say why it is not known who leads and what happens, and since when."""
    assert lease.unread_since is not None
    since = f"since {lease.unread_since:%Y-%m-%d %H:%M:%SZ} ({ago(lease.unread_since, now)})"
    return f"nothing is known {since}: {lease.error or 'the API server does not answer'}"


def _describe_leader(lease: LeaseStatus, now: datetime) -> str:
    since = f" since {lease.since:%Y-%m-%d %H:%M:%SZ} ({ago(lease.since, now)})" if lease.since is not None else ""
    ahead = timedelta(seconds=lease.ahead_seconds)
    behind = "behind" if ahead < timedelta(0) else "ahead of"
    clock = f" by its clock, which is {format_rest(abs(ahead))} {behind} the API server's" if ahead else ""
    is_silent = lease.renewed is not None and now - lease.renewed >= _RENEWAL
    renewed = f", last renewed {ago(lease.renewed, now)}" if is_silent and lease.renewed is not None else ""
    return f"{lease.holder} leads{since}{clock}{renewed}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def slow_start_text(windows: SlowStartStatus) -> str:
    """Say how many moves may be under way at once, and how many are."""
    places = [
        f"{windows.at_once} at once in the cluster ({windows.under_way} under way)",
        *(f"{one.at_once} in {one.namespace} ({one.under_way} under way)" for one in windows.namespaces),
    ]
    grows = "One that keeps evictions back grows by one with each replacement that arrives."
    return f"Slow start: {', '.join(places)}. {grows}"


def describe_no_leader(lease: LeaseStatus, ran: str, now: datetime) -> str:
    """Say in one line that no controller leads, or that this is not known; `ran` says when the last cycle was."""
    if lease.unread_since is not None and lease.free_since is not None:
        ended = f"{lease.free_since:%Y-%m-%d %H:%M:%SZ}"
        ended = (
            f"the Lease of {lease.last_holder} ran out at {ended}" if lease.last_holder else f"Lease free at {ended}"
        )
        return f"no controller runs as far as this process knows: {ended}, {_describe_silence(lease, now)}; {ran}"
    if lease.free_since is None and lease.error:
        return f"whether a controller runs is not known: {lease.error}; {ran}"
    known = " as far as this process knows" if lease.error else ""
    since = f" since {lease.free_since:%Y-%m-%d %H:%M:%SZ}" if lease.free_since is not None else ""
    why = f"; {lease.error}" if lease.error else ""
    held = (
        f" (held by {lease.last_holder}, last renewed {ago(lease.renewed, now)})" if lease.renewed is not None else ""
    )
    return f"no controller runs{known}: Lease free{since}{held}, {ran}{why}"
