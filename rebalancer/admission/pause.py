"""The kill switch: what `pause.yaml` says, and for how long nothing is evicted.

People and the command line write it, the controller only reads it. Whatever cannot be understood counts as a pause
until somebody mends it: who reached for this switch did not mean "go on".
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import yaml

KEY = "pause.yaml"
_LONGEST = 200
"""Characters of a reason that are told; it stands in events, logs and every plan."""


_LARGEST = 16_384
"""Characters that are looked at: YAML is slow to read, and this must not take a second."""


@dataclass(frozen=True, kw_only=True)
class Pause:
    """A pause. `until` None is until somebody resumes; `unreadable` says what is wrong with the file, "" if nothing."""

    until: datetime | None = None
    reason: str = ""
    by: str = ""
    unreadable: str = ""

    def holds(self, now: datetime) -> bool:
        """Say whether it still holds."""
        return self.until is None or now < self.until

    @property
    def message(self) -> str:
        """Who paused it, until when, and why, in a line."""
        if self.unreadable:
            return f"{KEY} cannot be read, which counts as a pause until it is mended or removed: {self.unreadable}"
        end = f"until {self.until:%Y-%m-%d %H:%M:%SZ}" if self.until is not None else "until resumed"
        return f"paused {end}{f' by {self.by}' if self.by else ''}: {self.reason or 'no reason given'}"


class _Loader(yaml.SafeLoader):
    """YAML without its own notion of times, which takes a day or a time without a zone for a moment."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # as PyYAML declares it
        first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class _File(msgspec.Struct, forbid_unknown_fields=True):
    until: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    reason: str | None = None
    by: str | None = None


def read_pause(text: str) -> Pause:
    """Read the text of `pause.yaml`; an empty one pauses until it is removed."""
    if not text.strip():
        return Pause()
    if len(text) > _LARGEST:
        return Pause(unreadable=f"it has {len(text):,} characters; expected at most {_LARGEST:,}")
    try:
        found = msgspec.convert(yaml.load(text, _Loader), _File)  # noqa: S506  # it is a safe one
        until = found.until.astimezone(UTC) if found.until is not None else None
    except Exception as error:  # noqa: BLE001  # YAML fails in many ways, and in none of them may the switch be off
        return Pause(unreadable=one_line(str(error)) or type(error).__name__)
    return Pause(until=until, reason=one_line(found.reason or ""), by=one_line(found.by or ""))


def pause_text(pause: Pause) -> str:
    """Write a pause as `read_pause` reads it, to the second."""
    fields = {"reason": pause.reason, "by": pause.by}
    if pause.until is not None:
        until = pause.until.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        fields = {"until": until, **fields}
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)


def one_line(text: str) -> str:
    """Bring what somebody wrote into one line of a bearable length, without control characters."""
    shown = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"
