"""Whether a window of the policy is open, and when the next one opens.

A window is open if its schedule occurred within the last `duration`. So the schedule's first occurrence after `now -
duration` answers both. If it is not after `now`, the window is open; otherwise the window opens next at that moment.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from rebalancer.model.facts import Refusal
from rebalancer.model.reasons import Reason
from rebalancer.policy import Window


class OutsideWindow(Refusal):
    """No window of the policy is open; the next opens at `opens_at`, by its schedule."""

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
    """A window that is closed now, and when it opens next."""

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
