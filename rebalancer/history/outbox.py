"""The outbox: entries that wait in the memory until the ConfigMaps of the history have them.

The numbers of entries increase strictly over all leaders, even if the memory was lost. So the ConfigMaps lack exactly
the entries with numbers greater than their own. Each leader begins with a number that contains the time. This number is
well above those of the last leader, which may have stored a few more entries since its memory was read.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct, structs

from rebalancer.model.history import Entry, EntryKind
from rebalancer.model.moments import seconds_of
from rebalancer.model.moves import Memory

MOST_WAITING: Final = 500
"""Entries that may wait; beyond that, the oldest are dropped and counted."""

_TERM: Final = 1_000
"""A leader's first number is the time, in seconds, multiplied by this."""


class Stored(Struct, frozen=True):
    """The numbers of the last entry and the last sample in the ConfigMaps."""

    entries: int = 0
    samples: int = 0

    def has(self, entry: Entry) -> bool:
        return entry.seq <= (self.samples if entry.kind == EntryKind.SAMPLE else self.entries)


def begin_term(memory: Memory, now: datetime) -> Memory:
    """Return the memory of a new leader, whose entries get greater numbers than all earlier entries."""
    first = max(seconds_of(now), memory.noted.seq // _TERM + 2) * _TERM
    return structs.replace(memory, noted=structs.replace(memory.noted, seq=first))


def add_entries(memory: Memory, entries: Iterable[Entry]) -> Memory:
    """Return the memory with further entries, numbered in order; if there are too many, the oldest are dropped."""
    numbered = tuple(
        structs.replace(entry, seq=number) for number, entry in enumerate(entries, start=memory.noted.seq + 1)
    )
    if not numbered:
        return memory
    return structs.replace(
        memory,
        outbox=_limit((*memory.outbox, *numbered)),
        noted=structs.replace(memory.noted, seq=numbered[-1].seq),
    )


def _limit(outbox: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Return the newest entries, preceded by an entry that counts the dropped ones."""
    excess = len(outbox) - MOST_WAITING
    if excess <= 0:
        return outbox
    dropped = outbox[: excess + 1]
    last = dropped[-1]
    number = sum(entry.number if entry.kind == EntryKind.DROPPED else 1 for entry in dropped)
    return (Entry(seq=last.seq, at=last.at, kind=EntryKind.DROPPED, number=number), *outbox[excess + 1 :])


def find_missing(outbox: Sequence[Entry], stored: Stored) -> tuple[Entry, ...]:
    """Return the entries that are not stored."""
    return tuple(entry for entry in outbox if not stored.has(entry))


def forget_stored(memory: Memory, stored: Stored) -> Memory:
    """Return the memory without the entries that are stored.

    If the ConfigMaps have greater numbers than this leader has given, the memory was lost and the clock is behind. Then
    none of this leader's entries is stored, and all are numbered anew.
    """
    last = max(stored.entries, stored.samples)
    if last > memory.noted.seq:
        anew = structs.replace(memory, outbox=(), noted=structs.replace(memory.noted, seq=last))
        return add_entries(anew, memory.outbox)
    missing = find_missing(memory.outbox, stored)
    return memory if len(missing) == len(memory.outbox) else structs.replace(memory, outbox=missing)
