"""The controller's memory as text, for the next process. Its size is bounded, however much is violated.

What must be known before anything is evicted is stored whole: the moves in flight, of which admission allows a fixed
number, the evictions of the last minute and what failed. The rest is bounded here, because its loss only delays: a
violation whose beginning is not stored lasts from the next process's first cycle on.
"""

import zlib
from base64 import b64decode, b64encode
from datetime import datetime
from typing import Final

import msgspec

from rebalancer.model.moments import Moment
from rebalancer.model.moves import NO_MEMORY, Memory

_FORMAT: Final = 2

MOST_SINCE: Final = 5_000
"""Groups and limits whose violation's beginning is stored, the oldest."""

MOST_FAILED: Final = 1_000
"""Groups whose failed predictions, and whose refused requests, are stored, the newest."""

_LARGEST: Final = 16 * 1024 * 1024
"""Bytes of a memory once it is decompressed; more was not written by a controller."""


class _StoredMemory(msgspec.Struct, frozen=True):
    """`since` are tokens of what is violated by the time since which it has been, because that needs a tenth of it."""

    memory: Memory
    since: dict[str, list[str]]


class _Envelope(msgspec.Struct, frozen=True):
    format: int
    deflated: str


def memory_text(memory: Memory) -> str:
    """Encode the memory for the next process."""
    oldest = sorted((moment, token) for token, moment in memory.seen)[:MOST_SINCE]
    since: dict[str, list[str]] = {}
    for moment, token in oldest:
        since.setdefault(moment.isoformat(), []).append(token)
    bounded = msgspec.structs.replace(
        memory,
        seen=(),
        failed_predictions=tuple(sorted(memory.failed_predictions, key=lambda failure: failure.last)[-MOST_FAILED:]),
        refused=tuple(sorted(memory.refused, key=lambda refused: refused.last)[-MOST_FAILED:]),
    )
    data = msgspec.json.encode(_StoredMemory(bounded, since))
    return msgspec.json.encode(_Envelope(_FORMAT, b64encode(zlib.compress(data)).decode())).decode()


def parse_memory(text: str) -> Memory:
    """Decode a memory; an unreadable one gives the empty memory, since moves are visible in the cluster itself."""
    if not text:
        return NO_MEMORY
    try:
        envelope = msgspec.json.decode(text, type=_Envelope)
        if envelope.format != _FORMAT:
            return NO_MEMORY
        data = zlib.decompressobj().decompress(b64decode(envelope.deflated), _LARGEST)
        stored = msgspec.json.decode(data, type=_StoredMemory)
        seen = ((token, _parse_moment(moment)) for moment, tokens in stored.since.items() for token in tokens)
        return msgspec.structs.replace(stored.memory, seen=tuple(sorted(seen)))
    except (msgspec.DecodeError, zlib.error, ValueError, RecursionError):
        return NO_MEMORY


def _parse_moment(text: str) -> datetime:
    return msgspec.convert(text, Moment)
