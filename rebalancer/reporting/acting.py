"""What the controller does, in one line: the same for commands and the status page."""

from typing import Final

from rebalancer.policy import Mode
from rebalancer.reporting.documents.status import StatusDocument

_ACTING: Final = {
    Mode.OBSERVE: "mode Observe: the controller will not evict",
    Mode.APPROVE: "mode Approve: the controller evicts what is approved",
    Mode.EVICT: "mode Evict: the controller evicts",
}


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
    return _ACTING[Mode(status.mode)]
