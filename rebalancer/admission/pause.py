"""The kill switch: the file `pause.yaml`, and how long nothing is evicted.

People and the command line write it, the controller only reads it. A file that cannot be read counts as a pause until
somebody fixes it, because its author meant to stop evictions.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import yaml

KEY = "pause.yaml"
_LONGEST = 200
"""Characters of a reason that are shown in events, logs and every plan."""


_LARGEST = 16_384
"""Longer files are not read: YAML is slow, and this must not take a second."""

_DEEPEST = 4
_MOST_NODES = 3_000
"""The most YAML nodes read: an approval may name two thousand workloads and namespaces."""


@dataclass(frozen=True, kw_only=True)
class Pause:
    """A pause. `until` None: until somebody resumes; `unreadable` says what is wrong with the file, else ""."""

    until: datetime | None = None
    reason: str = ""
    by: str = ""
    unreadable: str = ""

    def holds(self, now: datetime) -> bool:
        """Return whether the pause is still in force."""
        return self.until is None or now < self.until

    def explain_end(self, now: datetime) -> str:
        """Say why the pause is not in force, "" if it is; its author may have meant another time."""
        if self.until is None or self.holds(now):
            return ""
        return (
            f"{KEY}: until {_format_time(self.until)} is in the past, so evictions are not paused. Set a later time, "
            "leave `until` out to pause until resumed, or remove the key"
        )

    @property
    def message(self) -> str:
        """Who paused the controller, until when, and why, in a line."""
        if self.unreadable:
            return f"{KEY} cannot be read, which counts as a pause. Fix or remove it: {self.unreadable}"
        end = f"until {_format_time(self.until)}" if self.until is not None else "until somebody resumes"
        return f"paused{f' by {self.by}' if self.by else ''} {end}: {self.reason or 'no reason given'}"


def _format_time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%SZ}"


class StrictLoader(yaml.SafeLoader):
    """YAML without its own timestamps, which accept a date or a time without a zone, and without aliases.

    A file of a few fields needs neither depth nor many values, and aliases can expand a short text to billions.
    """

    depth = 0
    nodes = 0

    yaml_implicit_resolvers = {  # noqa: RUF012  # as PyYAML declares it
        first: [resolver for resolver in resolvers if resolver[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Refuse deep or large YAML and aliases before any value is built."""
        if self.check_event(yaml.AliasEvent):
            raise ValueError("it has an alias; write the value itself")
        self.depth += 1
        self.nodes += 1
        if self.depth > _DEEPEST or self.nodes > _MOST_NODES:
            raise ValueError(f"it has more than {_DEEPEST} levels or {_MOST_NODES:,} values")
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse a duplicate key: of two times nobody knows which was meant."""
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((name for name, number in Counter(names).items() if number > 1), None)
        if twice is not None:
            raise ValueError(f"{twice} is there twice")
        return super().construct_mapping(node, deep)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    until: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    reason: str | None = None
    by: str | None = None


def read_pause(text: str) -> Pause:
    """Read the text of `pause.yaml`; an empty file pauses until it is removed."""
    if not text.strip():
        return Pause()
    if len(text) > _LARGEST:
        return Pause(unreadable=f"it has {len(text):,} characters; expected at most {_LARGEST:,}")
    try:
        file = msgspec.convert(yaml.load(text, StrictLoader), _File)  # noqa: S506  # it is a safe one
        until = file.until.astimezone(UTC) if file.until is not None else None
    except Exception as error:  # noqa: BLE001  # YAML fails in many ways, and each of them must count as a pause
        return Pause(unreadable=to_one_line(str(error)) or type(error).__name__)
    return Pause(until=until, reason=to_one_line(file.reason or ""), by=to_one_line(file.by or ""))


def is_pause_key(key: str) -> bool:
    """Return whether a key of the ConfigMap means a pause: `pause.yaml`, and a wrong name of it such as `pause.yml`."""
    return key.lower().startswith("pause")


def find_misnamed(keys: Iterable[str]) -> Pause | None:
    """Return a pause if a key has a wrong name such as `pause.yml`, because its author meant to stop evictions."""
    misnamed = min((key for key in keys if key != KEY and is_pause_key(key)), default=None)
    return Pause(unreadable=f"found the key {misnamed}; expected {KEY}") if misnamed is not None else None


def format_pause(pause: Pause) -> str:
    """Return a pause as text for `read_pause`, to the second."""
    fields = {"reason": pause.reason, "by": pause.by}
    if pause.until is not None:
        until = pause.until.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        fields = {"until": until, **fields}
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)


def to_one_line(text: str) -> str:
    """Return a text as one line of limited length, without control characters."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
