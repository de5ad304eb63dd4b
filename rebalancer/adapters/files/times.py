"""When a file was printed: the newest time in it at which something happened.

A node's heartbeat is renewed every few minutes, so for a whole cluster this is close. Deletion timestamps are left out:
they lie ahead by the pod's grace period.
"""

import re
from datetime import UTC, datetime
from typing import Final

_TIME: Final = re.compile(
    # Begins with a literal that all names share, and looks back for the rest: a search at memory speed, no parsing.
    # Quotes inside of strings are escaped in JSON, so nothing but a field is found.
    rb'Time(?:(?<="creationTime)stamp|(?<="lastTransitionTime)|(?<="lastHeartbeatTime)|(?<="startTime))'
    rb'":\s*"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?Z"'
)


def find_newest_time(document: bytes) -> datetime | None:
    """Return the newest time in a JSON document of Kubernetes objects, None if there is none."""
    for written in sorted({match[1] for match in _TIME.finditer(document)}, reverse=True):
        try:
            return datetime.fromisoformat(written.decode()).replace(tzinfo=UTC)
        except ValueError:  # the 31st of February: the object that says so is reported when it is decoded
            continue
    return None
