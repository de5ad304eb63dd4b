"""When a file was written: the newest timestamp of an event in the past that it contains.

A node's heartbeat is renewed every few minutes, so for a whole cluster this is close. Deletion timestamps do not count:
they are in the future by the pod's grace period.
"""

import re
from datetime import UTC, datetime
from typing import Final

_TIME: Final = re.compile(
    # Begins with a literal that all names share, with the rest in a look-behind: a search at memory speed, no parsing.
    # Quotes inside of strings are escaped in JSON, so only fields match.
    rb'Time(?:(?<="creationTime)stamp|(?<="lastTransitionTime)|(?<="lastHeartbeatTime)|(?<="startTime))'
    rb'":\s*"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?Z"'
)


def find_newest_time(document: bytes) -> datetime | None:
    """Return the newest time in a JSON document of Kubernetes objects, None if there is none."""
    for written in sorted({match[1] for match in _TIME.finditer(document)}, reverse=True):
        try:
            return datetime.fromisoformat(written.decode()).replace(tzinfo=UTC)
        except ValueError:  # the 31st of February: the object with it is reported when it is decoded
            continue
    return None
