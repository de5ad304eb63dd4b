"""Points in time as the memory stores them, and the time at which a snapshot is evaluated."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta

Moment = Annotated[datetime, Meta(tz=True)]
"""A point in time with a time zone. A value without a zone, in a memory that somebody has edited, is refused."""

ALWAYS: Final = datetime.max.replace(tzinfo=UTC)
"""Later than every time."""


def micro_time(moment: datetime) -> str:
    """Return a time as Kubernetes' MicroTime, with six digits after the point even on a whole second."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def seconds_of(moment: datetime) -> int:
    """Return a time in whole seconds, as entries of the history have it."""
    return int(moment.timestamp())


def seconds_between(earlier: datetime, later: datetime) -> int:
    """Return the seconds between two moments, as clocks without fractions show them; 0 if clocks disagree."""
    return max(0, seconds_of(later) - seconds_of(earlier))


class Clock:
    """The time at which a snapshot is evaluated; it notes until when each of its answers holds.

    Code that asks the clock instead of comparing times need not ask again before `holds_until`: until then the same
    objects give the same results.
    """

    def __init__(self, now: datetime, holds_until: datetime = ALWAYS) -> None:
        self.now: Final = now
        self.holds_until = holds_until

    def has_passed(self, moment: datetime) -> bool:
        """Return whether a moment lies in the past, or is now."""
        if moment <= self.now:
            return True
        self.holds_until = min(self.holds_until, moment)
        return False

    def has_lasted(self, since: datetime, span: timedelta) -> bool:
        """Return whether a span of time has passed since a moment."""
        left = span - (self.now - since)
        if left <= timedelta(0):
            return True
        if left < self.holds_until - self.now:  # comparing spans avoids an overflow of the time
            self.holds_until = self.now + left
        return False

    def minute(self) -> int:
        """Return the number of the minute; the answer changes every minute."""
        minute = int(self.now.timestamp() // 60)
        self.holds_until = min(self.holds_until, datetime.fromtimestamp(60 * (minute + 1), UTC))
        return minute

    def age_of(self, moment: datetime) -> timedelta:
        """Return how long ago a moment was, for display; the value changes every instant.

        A time in the future comes from another clock: it counts as now.
        """
        self.holds_until = self.now
        return max(timedelta(0), self.now - moment)
