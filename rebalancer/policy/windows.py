"""Windows: when evictions are allowed, as a cron schedule with a duration and a time zone.

A schedule is a local time, so its meaning depends on the zone's rules for summer time. They are those of Debian's cron:

* A schedule of given minutes and hours (`30 2 * * *`) occurs once on every day that it names. Where the clock skips its
  time, it occurs at the first moment after the gap; where the clock repeats its time, the first one counts.
* A schedule whose minutes or hours begin with `*` occurs each time that the clock shows such a time: not in a gap, and
  twice where the hour is repeated. Where a clock changes by half an hour (Australia/Lord_Howe), a search across the
  change may miss the first half hour: a window then opens later than written, never earlier.

`duration` is elapsed time: a window of 4h is open for four hours on each day, even if the clock is changed meanwhile.
The rules of the zones are data that come with the program; reading them is no input.
"""

import re
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Final
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from pydantic import Field, PlainValidator, WithJsonSchema

from rebalancer.policy.base import Section, unexpected
from rebalancer.policy.durations import PositiveDuration, at_most

_LONGEST: Final = timedelta(days=7)
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)

_NUMBER_OR_NAME = r"(?:[0-9]{1,2}|[A-Za-z]{3})"
_TERM = rf"(?:\*|{_NUMBER_OR_NAME}(?:-{_NUMBER_OR_NAME})?)(?:/[0-9]{{1,2}})?"
_FIELD = rf"{_TERM}(?:,{_TERM})*"
_SCHEDULE = rf"^{_FIELD}(?: +{_FIELD}){{4}}$"
_WRITTEN = re.compile(_SCHEDULE.removesuffix("$") + r"\Z")
_ZONE = r"^[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*$"
_EXAMPLE = '"0 22 * * 1-5"'
_FIELDS = f"a cron schedule of minute, hour, day of month, month and day of week such as {_EXAMPLE}"
_MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
}
_MACHINE_ZONES: Final = frozenset({"localtime", "Factory"})
"""Names that mean no time zone, or another one on every machine."""


def _validate_schedule(value: object) -> str:
    if not isinstance(value, str):
        raise unexpected(_FIELDS)
    text = " ".join(value.split())
    if not _WRITTEN.match(text):
        macro = _MACROS.get(text.lower())
        raise unexpected(_FIELDS, suggestion=f'"{macro}"' if macro is not None else None)
    try:
        CronSim(text, _ANY_TIME)
    except CronSimError as error:
        field = str(error).removeprefix("Bad ").replace("-", " ")
        raise unexpected(f"{_FIELDS}, with a valid {field}") from None
    return text


@cache
def _known_zones() -> frozenset[str]:
    """Return the names of the IANA database.

    It is read once, because releases are rare, and no process lives for many of them.
    """
    return frozenset(available_timezones()) - _MACHINE_ZONES


def _validate_zone(value: object) -> str:
    expected = "a time zone of the IANA database such as Europe/Berlin"
    if not isinstance(value, str):
        raise unexpected(expected)
    if value in _known_zones():
        return value
    by_lower = {name.lower(): name for name in _known_zones()}
    close = get_close_matches(value.lower().replace(" ", "_"), sorted(by_lower), n=1)
    raise unexpected(expected, suggestion=by_lower[close[0]] if close else None)


Schedule = Annotated[
    str,
    PlainValidator(_validate_schedule),
    WithJsonSchema({"type": "string", "pattern": _SCHEDULE, "examples": ["0 22 * * 1-5", "*/30 1-4 * * *"]}),
]
"""A field for a cron schedule of five fields."""

Zone = Annotated[
    str,
    PlainValidator(_validate_zone),
    WithJsonSchema({"type": "string", "pattern": _ZONE, "examples": ["UTC", "Europe/Berlin"]}),
]
"""A field for the name of a time zone."""


class Window(Section):
    """A time in which evictions are allowed, from each occurrence of the schedule for the given duration."""

    schedule: Schedule
    """When it opens: minute, hour, day of month, month, day of week; in quotes, since YAML gives `*` a meaning."""
    duration: Annotated[PositiveDuration, at_most(_LONGEST)]
    """How long it stays open, at most 168h (a week)."""
    time_zone: Zone = Field(default="UTC")
    """The time zone of the schedule, by its name in the IANA database."""

    def first_opening(self, after: datetime) -> datetime:
        """Return when the window opens for the first time after a moment, in UTC."""
        occurrences = CronSim(self.schedule, after.astimezone(ZoneInfo(self.time_zone)))
        moments = (occurrence.astimezone(UTC) for occurrence in occurrences)
        # In an hour that the clock repeats, the occurrences of the first pass come again: those are over.
        return next(moment for moment in moments if moment > after)
