"""The trace of a simulated cluster: every action in order, readable for people and comparable by tests."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class TraceKind(StrEnum):
    """The kinds of actions in a simulated cluster."""

    CREATED = "Created"
    ADOPTED = "Adopted"
    SCHEDULED = "Scheduled"
    UNSCHEDULABLE = "Unschedulable"
    STARTED = "Started"
    DELETED = "Deleted"
    """The pod is terminating from now on."""
    PREEMPTED = "Preempted"
    """The scheduler has deleted the pod to make room for another pod."""
    GONE = "Gone"
    EVICTED = "Evicted"
    REFUSED = "Refused"
    """An eviction was not granted."""
    SCALED = "Scaled"
    ROLLED_OUT = "RolledOut"
    """The template of the workload has changed."""
    BUDGET_CHANGED = "BudgetChanged"
    NODE_REMOVED = "NodeRemoved"
    NODE_ADDED = "NodeAdded"
    NODE_CORDONED = "NodeCordoned"
    NODE_UNCORDONED = "NodeUncordoned"
    NODE_TAINTED = "NodeTainted"
    EVENT = "Event"
    """A Kubernetes event was published."""


class TraceEntry(NamedTuple):
    """One action: its time, its kind, its object, and details."""

    at: datetime
    kind: TraceKind
    object: str
    detail: str = ""

    def __str__(self) -> str:
        """Format it as one line."""
        moment = self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f"{moment} {self.kind} {self.object}{f': {self.detail}' if self.detail else ''}"
