"""The loop's part of the history: puts entries about the occurrences of a step into the outbox."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from msgspec import structs

from rebalancer.controller.state import (
    Leading,
    LoopEvent,
    LoopState,
)
from rebalancer.history.moves import move_entries
from rebalancer.history.outbox import add_entries, begin_term
from rebalancer.history.people import people_entries
from rebalancer.history.samples import note_sample
from rebalancer.history.surges import surge_entries
from rebalancer.history.violations import find_gone, still_open, still_waiting, violation_entries
from rebalancer.history.words import cut
from rebalancer.history.zones import zone_entries
from rebalancer.model.history import NAME_LIMIT, Entry, EntryKind, Noted
from rebalancer.model.moments import seconds_of
from rebalancer.model.moves import Memory

_ENDS: Final = frozenset(
    {
        EntryKind.SATISFIED,
        EntryKind.NODE_FOUND,
        EntryKind.NO_LONGER_REQUIRED,
        EntryKind.ZONE_RETURNED,
        EntryKind.RESUMED,
    }
)


def note_step(before: LoopState, event: LoopEvent, after: LoopState, now: datetime) -> LoopState:
    """Return the state after a step with entries for the step's observations."""
    if not after.process.history_name:
        return after
    if not after.leadership.leads:  # only a leader's memory is stored, so no other process makes entries
        return after
    known, memory = before.memory, after.memory
    entries: list[Entry] = []
    if isinstance(event, Leading):
        # Compare with the last leader's memory: earlier observations of this process may never have been reported.
        known, memory = event.memory, begin_term(memory, now)
        # The first cycle always takes a sample, because no process has counted since the last one.
        memory = structs.replace(memory, noted=structs.replace(memory.noted, violated=-1))
        who = cut(after.process.history_name, NAME_LIMIT)
        entries.append(Entry(seq=0, at=seconds_of(now), kind=EntryKind.LEADS, who=who))
    said = people_entries(after.happened, now)
    is_new = isinstance(event, Leading) or before.cycle is None  # nothing was observed yet in this term
    entries += (_note_late(entry, now) for entry in said) if is_new else said
    entries += move_entries(after.happened, after.cycle.snapshot if after.cycle is not None else None)
    entries += surge_entries(after.happened, now)
    if after.cycle is not None and after.cycle is not before.cycle:
        still = still_open(known, memory, after.happened, now)
        waiting = still_waiting(known, after.happened)
        gone = find_gone(known, memory, still, now, late=is_new)
        noted = structs.replace(memory.noted, open=still, gone=gone, waiting=waiting)
        sample, noted = note_sample(noted, after.cycle.assessment, after.cycle.overview.violated, now)
        memory = _with_noted(memory, noted)
        seen = (*zone_entries(after.happened, now), *violation_entries(after.happened, now))
        entries += (_note_late(entry, now) for entry in seen) if is_new else seen
        entries += sample
    memory = add_entries(memory, entries)
    return after if memory is after.memory else replace(after, memory=memory)


def _note_late(entry: Entry, now: datetime) -> Entry:
    """Mark a new leader's entry about an end, because it may have come while no process led.

    An end with its own time is not marked.
    """
    is_found_now = entry.kind in _ENDS and not entry.until and entry.at == seconds_of(now)
    return structs.replace(entry, late=True) if is_found_now else entry


def _with_noted(memory: Memory, noted: Noted) -> Memory:
    return memory if noted == memory.noted else structs.replace(memory, noted=noted)
