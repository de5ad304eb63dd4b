"""What happened in a simulated cluster, act by act: for people to follow, and for tests to compare."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class TraceKind(StrEnum):
    """Everything that can happen in a simulated cluster."""

    CREATED = "Created"
    ADOPTED = "Adopted"
    SCHEDULED = "Scheduled"
    UNSCHEDULABLE = "Unschedulable"
    STARTED = "Started"
    DELETED = "Deleted"
    """Marked for deletion: from here on it is terminating."""
    GONE = "Gone"
    EVICTED = "Evicted"
    REFUSED = "Refused"
    """An eviction was not granted."""
    SCALED = "Scaled"
    BUDGET_CHANGED = "BudgetChanged"
    NODE_REMOVED = "NodeRemoved"
    NODE_ADDED = "NodeAdded"
    NODE_CORDONED = "NodeCordoned"
    EVENT = "Event"
    """Somebody published a Kubernetes event."""


class TraceEntry(NamedTuple):
    """One act: when, what, to which object, and what else is to be said of it."""

    at: datetime
    kind: TraceKind
    object: str
    detail: str = ""

    def __str__(self) -> str:
        """Say it in one line."""
        moment = self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f"{moment} {self.kind} {self.object}{f': {self.detail}' if self.detail else ''}"
