"""The contents of the history's ConfigMaps, and the texts to write to add an outbox's entries."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct, structs

from rebalancer.history.outbox import Stored, find_missing
from rebalancer.history.ring import ENTRIES_KEY, SEGMENT_MAPS, append_entries, find_last
from rebalancer.history.trend import TREND_KEY, TREND_MAP, extend_trend, format_trend, parse_trend
from rebalancer.model.history import Entry, EntryKind


class Write(Struct, frozen=True):
    """A text to write, with the name of the ConfigMap and the key in it."""

    name: str
    key: str
    text: str


class Contents(Struct, frozen=True):
    """The texts by the names of their ConfigMaps."""

    segments: tuple[str, ...] = ("",) * len(SEGMENT_MAPS)
    trend: str = ""

    @property
    def stored(self) -> Stored:
        """The numbers of the last entry and the last sample."""
        return Stored(find_last(self.segments), parse_trend(self.trend).seq)

    def after(self, write: Write) -> "Contents":
        """Return the contents after a write."""
        if write.name == TREND_MAP:
            return structs.replace(self, trend=write.text)
        place = SEGMENT_MAPS.index(write.name)
        return structs.replace(self, segments=(*self.segments[:place], write.text, *self.segments[place + 1 :]))


NO_CONTENTS: Final = Contents()


def find_writes(contents: Contents, outbox: Sequence[Entry]) -> Iterator[Write]:
    """Yield the writes, in order, after which the contents have all entries of an outbox; none if they have them.

    If only some of the writes succeed, call again with the new contents to find the rest.
    """
    missing = find_missing(outbox, contents.stored)
    entries = [entry for entry in missing if entry.kind != EntryKind.SAMPLE]
    for place, text in append_entries(contents.segments, entries).items():
        yield Write(SEGMENT_MAPS[place], ENTRIES_KEY, text)
    if len(entries) < len(missing):
        yield Write(TREND_MAP, TREND_KEY, format_trend(extend_trend(parse_trend(contents.trend), missing)))
