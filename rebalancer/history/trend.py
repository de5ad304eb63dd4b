"""The trend: samples of how much is violated, few enough for one ConfigMap.

All recent samples are kept. For each older period a few samples are kept: the first and the last, and those with the
least and the greatest of each number. So start, end and extremes stay true. A period has a power of two of seconds and
grows with its age, so periods only merge and are never cut.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from rebalancer.model.history import Entry, EntryKind

TREND_MAP, TREND_KEY = "rebalancer-history", "trend.json"
"""The ConfigMap that has the samples, and the key in it."""

MOST_SAMPLES: Final = 1_440
_ENOUGH: Final = 1_200
"""Thinning leaves this many samples, so some time passes before the next thinning."""

_RECENT: Final = 480
"""This many of the newest samples are always kept."""


class Sample(Struct, frozen=True, gc=False, array_like=True):
    """A sample, from a time in seconds since 1970: violated workloads, pods above bounds, and the largest skew."""

    at: int
    violated: int
    above: int
    skew: int


class Trend(Struct, frozen=True):
    """The samples, oldest first; `seq` is the number of the last sample's entry."""

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
    """Return the trend with the new samples among these entries."""
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
    return (*kept, *recent)[-MOST_SAMPLES:]  # samples from a clock that was ahead belong to no common period


def _thin_whiles(samples: Sequence[Sample], now: int, fineness: int) -> tuple[Sample, ...]:
    """Keep a few samples of each period; a period's length is at least its age divided by `fineness`."""
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
