"""The ring: the entries as JSON lines in a few texts of limited size, each in its own ConfigMap.

Entries are appended to the text that has the last entry. When it is full, the next text, which has the oldest entries,
is emptied and begun anew. So a write changes one text, seldom two. Even after a failed write, the number of the last
entry says which entries are still missing.

    0: 1 2 3   1: 4 5 6   2: 7 8      + 9 10    ──►    2: 7 8 9, then 0: 10
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from rebalancer.model.history import Entry
from rebalancer.model.visible import visible_json

SEGMENTS: Final = 8
SEGMENT_MAPS: Final = tuple(f"rebalancer-history-{number}" for number in range(SEGMENTS))
"""The names of the ConfigMaps of the ring."""

ENTRIES_KEY: Final = "entries.jsonl"
SEGMENT_BYTES: Final = 100 * 1024
"""Most bytes of one text."""

LATEST: Final = 253_402_300_800
"""The first second of the year 10000, which no date can have."""

_DECODER: Final = msgspec.json.Decoder(Entry)


def parse_segment(text: str) -> Iterator[Entry]:
    """Yield the entries of one text; damaged lines are left out.

    Lines end with a line feed only: entries may contain other characters that Python takes for an end of line.
    """
    for line in filter(None, text.split("\n")):
        try:
            entry = _DECODER.decode(line)
        except msgspec.DecodeError:
            continue
        if 0 <= entry.at < LATEST and 0 <= entry.since < LATEST and 0 <= entry.until < LATEST:
            yield entry


def read_ring(segments: Iterable[str]) -> tuple[Entry, ...]:
    """Return all entries, the oldest first."""
    return tuple(sorted((entry for text in segments for entry in parse_segment(text)), key=attrgetter("seq")))


def find_last(segments: Iterable[str]) -> int:
    """Return the number of the last entry, 0 if there is none."""
    return max(map(_find_last, segments), default=0)


def _find_last(segment: str) -> int:
    return max((entry.seq for entry in parse_segment(segment)), default=0)


def append_entries(segments: Sequence[str], entries: Iterable[Entry]) -> Mapping[int, str]:
    """Return the texts that change when entries are appended, by their index, in the order in which to write them."""
    lasts = list(map(_find_last, segments))
    place = lasts.index(max(lasts))
    changed: dict[int, str] = {}
    lines = [segments[place]]
    size = len(segments[place].encode())
    for entry in entries:
        line = visible_json(msgspec.json.encode(entry).decode()) + "\n"
        length = len(line.encode())
        if size + length > SEGMENT_BYTES:
            place, lines, size = (place + 1) % len(segments), [], 0
            changed.pop(place, None)  # more than the ring holds: what is overwritten at once is not written first
        lines.append(line)
        size += length
        changed[place] = "".join(lines)
    return changed
