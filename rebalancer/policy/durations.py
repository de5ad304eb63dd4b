"""Lengths of time as people write them in Kubernetes: `90s`, `5m`, `1h30m`.

A number without a unit is refused: `interval: 5` could mean seconds or minutes.
"""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, PlainSerializer, PlainValidator, WithJsonSchema

from rebalancer.model.words import format_duration
from rebalancer.policy.base import read_value, unexpected

LONGEST = timedelta(days=365)
"""A longer duration must be a typing error. The bound also keeps the sum of a duration and a time representable."""

_PATTERN = r"^(?=[0-9])(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?$"
_DURATION = re.compile(_PATTERN.removesuffix("$") + r"\Z")
_LOOSE = re.compile(r"([0-9]{1,9}) ?([A-Za-z]{0,7})\Z")
_EXPECTED = "a duration such as 90s, 5m or 1h30m"
_UNITS = {
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
}


def parse_duration(text: str) -> timedelta:
    """Read a duration; ValueError says what was expected."""
    match = _DURATION.match(text)
    if match is None:
        raise ValueError(f"expected {_EXPECTED}")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    duration = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if duration > LONGEST:
        raise ValueError(f"expected at most {format_duration(LONGEST)}")
    return duration


def _validate(value: object) -> timedelta:
    if isinstance(value, timedelta) and not (timedelta(0) <= value <= LONGEST and not value.microseconds):
        raise unexpected(f"whole seconds from 0s to {format_duration(LONGEST)}")
    expected = f"{_EXPECTED}, with its unit"
    return read_value(value, timedelta, parse_duration, accepts=str, expected=expected, meant=_suggest)


def _suggest(value: object) -> str | None:
    """Guess the unit of a number without one, or correct another spelling: `5 minutes`, `5M`, `2d`, a quoted number."""
    if not isinstance(value, str):
        return f"{value}s" if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
    match = _LOOSE.match(value)
    if match is None:
        return None
    number, word = match.group(1), match.group(2).lower()
    if word in {"d", "day", "days"}:
        guess = f"{int(number) * 24}h"
    else:
        unit = next((unit for unit, words in _UNITS.items() if word in words), None if word else "s")
        if unit is None:
            return None
        guess = number + unit
    return guess if _DURATION.match(guess) and guess != value else None


def _require_positive(duration: timedelta) -> timedelta:
    if duration:
        return duration
    raise unexpected("more than 0s")


def at_most(longest: timedelta) -> AfterValidator:
    """Refuse durations above a field's limit."""

    def check(duration: timedelta) -> timedelta:
        if duration <= longest:
            return duration
        raise unexpected(f"at most {format_duration(longest)}")

    return AfterValidator(check)


DAY, MONTH = timedelta(days=1), timedelta(days=30)
"""Bounds of fields: how long something is waited for, and how long something is remembered."""

Duration = Annotated[
    timedelta,
    PlainValidator(_validate),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _PATTERN, "examples": ["90s", "5m", "1h30m"]}),
]
"""A field for a length of time, 0s included."""

PositiveDuration = Annotated[
    Duration,
    AfterValidator(_require_positive),
    WithJsonSchema(
        {"type": "string", "pattern": r"^(?=.*[1-9])" + _PATTERN.removeprefix("^"), "examples": ["90s", "5m", "1h30m"]}
    ),
]
"""A field for a length of time above 0s."""
