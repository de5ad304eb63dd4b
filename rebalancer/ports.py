"""What the loop needs from the outside, as Protocols: a cluster, and somewhere the policy comes from.

The adapter for a real cluster and the simulator stand behind the same ones, so every run can be simulated.
"""

from datetime import datetime
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from rebalancer.model.events import Event
from rebalancer.model.moves import Move
from rebalancer.model.snapshot import Snapshot


class EvictionResult(StrEnum):
    """What came of an eviction request; also the label of `rebalancer_evictions_total`."""

    EVICTED = "evicted"
    BUDGET = "budget"
    """A PodDisruptionBudget has no room."""
    STALE = "stale"
    """A PodDisruptionBudget was just changed."""
    THROTTLED = "throttled"
    """The API server asks for patience."""
    GONE = "gone"
    CONFLICT = "conflict"
    """Another pod has the name now."""
    FORBIDDEN = "forbidden"
    FAILED = "failed"
    """Refused for a reason that will not pass by itself."""
    UNKNOWN = "unknown"
    """No answer, or one that says nothing: the pod may be evicted or not."""


class EvictionAnswer(Struct, frozen=True):
    """The answer to an eviction request, in words that a person understands."""

    result: EvictionResult
    message: str = ""


class Document(Struct, frozen=True):
    """A named text that is kept in the status ConfigMap."""

    key: str
    text: str


class Cluster(Protocol):
    """A cluster, real or simulated."""

    def snapshot(self, now: datetime) -> Snapshot:
        """Return everything known of the cluster."""
        ...

    def staleness(self) -> str:
        """Say why the snapshot cannot be trusted, "" if it can."""
        ...

    def evict(self, move: Move) -> EvictionAnswer:
        """Ask for an eviction, with the pod's UID as a precondition. Never raises."""
        ...

    def record(self, event: Event) -> None:
        """Publish an event; never blocks, never raises."""
        ...

    def save(self, documents: tuple[Document, ...]) -> bool:
        """Keep documents for the next process and for people; say whether the first is safe. Never raises."""
        ...

    def load(self, key: str) -> str:
        """Return a kept document, "" if there is none."""
        ...


class LeaseRecord(Struct, frozen=True, kw_only=True):
    """The state of a Lease: who holds it, for how many seconds after its renewal. `version` "" if not yet created."""

    holder: str
    duration: int
    acquired: datetime | None = None
    renewed: datetime | None = None
    transitions: int = 0
    version: str = ""


class Lease(Protocol):
    """The Lease that says who leads."""

    def read(self) -> LeaseRecord | None:
        """Return it, None if there is none; raise where that cannot be told."""
        ...

    def write(self, record: LeaseRecord) -> LeaseRecord | None:
        """Write it if nobody else has since it was read, else return None; raise where that cannot be told."""
        ...
