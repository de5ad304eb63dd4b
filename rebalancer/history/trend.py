"""The trend: samples of how much is violated, few enough for one ConfigMap.

All recent samples are kept. Of older samples a few of each period are kept: the first and the last, and the samples
with the least and the greatest of each number. So begin, end and extremes stay true. A period is a span of a power of
two seconds that grows with its age, so that two periods can merge, and none is cut in two.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from rebalancer.model.history import Entry, EntryKind

TREND_MAP, TREND_KEY = "rebalancer-history", "trend.json"
"""The ConfigMap that has the samples, and its key."""

MOST_SAMPLES: Final = 1_440
_ENOUGH: Final = 1_200
"""Samples that are left when older ones are thinned: some time passes before they are thinned again."""

_RECENT: Final = 480
"""The newest samples, which are all kept."""


class Sample(Struct, frozen=True, gc=False, array_like=True):
    """How much was violated from a time on, in seconds since 1970: workloads, pods above bounds, the largest skew."""

    at: int
    violated: int
    above: int
    skew: int


class Trend(Struct, frozen=True):
    """The samples, the oldest first; `seq` is the number of the last one's entry."""

    seq: int = 0
    samples: tuple[Sample, ...] = ()


def parse_trend(text: str) -> Trend:
    """Decode a trend; a damaged trend begins anew."""
    try:
        return msgspec.json.decode(text or "{}", type=Trend)
    except msgspec.DecodeError:
        return Trend()


def format_trend(trend: Trend) -> str:
    """Encode a trend."""
    return msgspec.json.encode(trend).decode()


def extend_trend(trend: Trend, entries: Iterable[Entry]) -> Trend:
    """Return the trend with the samples among these entries that it does not have yet."""
    new = [entry for entry in entries if entry.kind == EntryKind.SAMPLE and entry.seq > trend.seq]
    if not new:
        return trend
    added = (Sample(entry.at, entry.number, entry.above, entry.skew) for entry in new)
    return Trend(seq=new[-1].seq, samples=thin((*trend.samples, *added)))


def thin(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """Return at most MOST_SAMPLES of the samples."""
    if len(samples) <= MOST_SAMPLES:
        return samples
    old, recent = samples[:-_RECENT], samples[-_RECENT:]
    fineness = _RECENT
    kept = _thin_whiles(old, recent[0].at, fineness)
    while len(kept) + len(recent) > _ENOUGH and fineness:
        fineness //= 2
        kept = _thin_whiles(old, recent[0].at, fineness)
    return (*kept, *recent)[-MOST_SAMPLES:]  # a clock that was ahead has left samples that no while has together


def _thin_whiles(samples: Sequence[Sample], now: int, fineness: int) -> tuple[Sample, ...]:
    """Keep a few samples of each while, which is at least as long as a `fineness`th of its age."""
    whiles: dict[tuple[int, int], list[Sample]] = {}
    for sample in samples:
        span = (max(0, now - sample.at) // max(1, fineness)).bit_length()
        whiles.setdefault((span, sample.at >> span), []).append(sample)
    kept: list[Sample] = []
    for several in whiles.values():
        chosen = {0, len(several) - 1}
        for name in ("violated", "above", "skew"):
            numbers = [getattr(sample, name) for sample in several]
            chosen |= {numbers.index(min(numbers)), numbers.index(max(numbers))}
        kept += [several[place] for place in sorted(chosen)]
    return tuple(kept)
