"""Whether a window of the policy is open, and when the next one opens.

A window is open if its schedule occurred within the last `duration`. So one question answers both: its first occurrence
after `now - duration` either lies not after now, then the window is open, or it is the moment at which it opens next.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from rebalancer.model.facts import Refusal
from rebalancer.model.reasons import Reason
from rebalancer.policy import Window


class OutsideWindow(Refusal):
    """No window of the policy is open; the one with this schedule opens next, `opens_at`."""

    reason = Reason.OUTSIDE_WINDOW
    is_standing = True
    ends_at = "opens_at"
    opens_at: datetime
    schedule: str
    time_zone: str

    def __str__(self) -> str:
        return (
            f"no window is open; the next one ({self.schedule}, {self.time_zone}) opens at "
            f"{self.opens_at:%Y-%m-%d %H:%MZ}"
        )


class Opening(Struct, frozen=True, kw_only=True):
    """A window that is closed now, and when it opens."""

    window: Window
    at: datetime


def find_opening(windows: Sequence[Window], now: datetime) -> Opening | None:
    """Return the window that opens next and when; None while a window is open, or if there are no windows."""
    following: Opening | None = None
    for window in windows:
        at = window.first_opening(now - window.duration)
        if at <= now:
            return None
        if following is None or at < following.at:
            following = Opening(window=window, at=at)
    return following
