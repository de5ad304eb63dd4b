"""Leadership as pure functions: who holds the lease, as far as one process can know.

A lease is no fence: for a moment, two processes can both believe that they lead. So a leader stops acting when it could
not renew for `deadline` seconds by its own monotonic clock. That is well before another process may take over, after
`duration`. Besides, a duplicated eviction does no harm. A process times another's renewals by when it saw them, never
by the other's clock.

The holder's written duration counts. In a rolling update that shortens it, the old process still acts by the longer
duration. Example: the Lease says 60 s, and the deadline is 40 s. A new process that waited only for its own 15 s would
act beside the old one for 25 s.
"""

from datetime import datetime

from msgspec import Struct, structs

from rebalancer.ports import LeaseRecord


class Election(Struct, frozen=True, kw_only=True):
    """The state of one candidate. Times ending in `_at` are of its monotonic clock, in seconds."""

    identity: str
    duration: float
    deadline: float
    seen: LeaseRecord | None = None
    seen_at: float = 0.0
    renewed_at: float | None = None
    read_at: float | None = None
    saw_renewal: bool = False
    """Whether the last two reads were close together, so that they show about when the Lease was renewed."""

    def leads(self, at: float) -> bool:
        return self.renewed_at is not None and at - self.renewed_at < self.deadline


def observe_lease(election: Election, record: LeaseRecord | None, at: float) -> Election:
    """Record the lease that was read."""
    if record is not None and record == election.seen:
        return structs.replace(election, read_at=at)
    close = election.read_at is not None and at - election.read_at <= election.duration / 2
    saw = close and election.seen is not None and record is not None and record.renewed != election.seen.renewed
    return structs.replace(election, seen=record, seen_at=at, read_at=at, saw_renewal=saw)


def has_expired(election: Election, at: float) -> bool:
    """Return whether the lease that was seen has not been renewed for its duration.

    A lease without a duration, or with one beyond LONGEST_LEASE, has the candidate's own duration, so the lease of a
    leader that is gone can always be taken.
    """
    return at - election.seen_at >= patience(election)


def patience(election: Election) -> float:
    """Return after how many seconds without a renewal the lease that was seen can be taken."""
    return election.duration if election.seen is None else election.seen.expires_after(election.duration)


def free_since(election: Election, at: float) -> float | None:
    """Return since when nobody leads as far as this process knows, None while somebody does."""
    seen = election.seen
    if seen is None or not seen.holder:
        return election.seen_at
    if seen.holder == election.identity:
        renewed_at = election.seen_at if election.renewed_at is None else election.renewed_at
        return None if election.leads(at) else renewed_at + election.deadline
    return election.seen_at + patience(election) if has_expired(election, at) else None


def renewed_ago(election: Election, at: float, now: datetime) -> float:
    """Return how many seconds ago another holder has renewed the Lease, to be shown: no decision goes by it.

    Of a renewal that this process has not seen, only the Lease says when it was, by the holder's clock.
    """
    seen, own = election.seen, at - election.seen_at
    if seen is None or seen.renewed is None or election.saw_renewal:
        return own
    return max(own, (now - seen.renewed).total_seconds())


def next_record(election: Election, at: float, now: datetime) -> LeaseRecord | None:
    """Return the record to write: a renewal, or a take-over of an expired lease; None while another holds it."""
    seen = election.seen
    if seen is not None and seen.holder not in {"", election.identity} and not has_expired(election, at):
        return None
    ours = seen is not None and seen.holder == election.identity
    fresh = LeaseRecord(
        holder=election.identity,
        duration=max(1, round(election.duration)),
        acquired=seen.acquired if seen is not None and ours else now,
        renewed=now,
        transitions=(seen.transitions if seen is not None else 0) + (0 if ours or seen is None else 1),
    )
    return structs.replace(fresh, version=seen.version) if seen is not None else fresh


def record_renewal(election: Election, written: LeaseRecord, at: float) -> Election:
    """Record that a claim was written; `at` is when the attempt began."""
    return structs.replace(election, seen=written, seen_at=at, renewed_at=at)


def release_record(election: Election, now: datetime) -> LeaseRecord | None:
    """Return the lease that lets others take over at once, or None if this process does not hold it."""
    seen = election.seen
    if seen is None or seen.holder != election.identity:
        return None
    return structs.replace(seen, holder="", duration=1, renewed=now)
