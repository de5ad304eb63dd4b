"""The ring keeps the newest entries within its bounds, the trend what matters of all samples."""

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.history.contents import NO_CONTENTS, find_writes
from rebalancer.history.outbox import Stored
from rebalancer.history.ring import (
    ENTRIES_KEY,
    SEGMENT_BYTES,
    SEGMENT_MAPS,
    SEGMENTS,
    append_entries,
    parse_segment,
    read_ring,
)
from rebalancer.history.trend import (
    MOST_SAMPLES,
    Sample,
    Trend,
    extend_trend,
    format_trend,
    parse_trend,
    thin,
)
from rebalancer.history.words import cut
from rebalancer.model.history import NAME_LIMIT, TEXT_LIMIT, Entry, EntryKind
from rebalancer.model.moves import MoveState
from tests.drawing import examples
from tests.history.build import AT, HISTORY, entry, moved

LARGEST = Entry(
    seq=AT * 1_000,
    at=AT,
    kind=EntryKind.MOVED,
    namespace="n" * 63,
    workload="w" * NAME_LIMIT,
    what="\\" * TEXT_LIMIT,
    pod="p" * NAME_LIMIT,
    uid="u" * 36,
    node="f" * NAME_LIMIT,
    to="\\" * TEXT_LIMIT,
    replacement_node="o" * NAME_LIMIT,
    since=AT,
)


def ordinary(number: int) -> tuple[Entry, ...]:
    """Return what a repair of two evictions leaves."""
    return (
        entry(
            EntryKind.VIOLATED,
            10 * number,
            namespace="shop",
            workload="Deployment/cart",
            token="0123456789abcdef",
            what="zone skew 3, maxSkew 1",
            cause="DomainReturned",
            number=1,
        ),
        moved(10 * number + 1, MoveState.VERIFIED, replacement_node="node-c-2"),
        moved(10 * number + 2, MoveState.VERIFIED, replacement_node="node-c-1"),
        entry(
            EntryKind.SATISFIED,
            10 * number + 3,
            namespace="shop",
            workload="Deployment/cart",
            token="0123456789abcdef",
            since=AT,
            number=1,
        ),
    )


def test_three_thousand_ordinary_entries_are_kept() -> None:
    """Also right after the oldest of the texts was begun anew; no text is larger than its bound."""
    segments = [""] * SEGMENTS
    least = 10_000
    # Many at once where nothing is looked at.
    for first, last in [*((number, number + 50) for number in range(0, 1_350, 50)), *pairwise(range(1_350, 1_600))]:
        entries = [one for number in range(first, last) for one in ordinary(number)]
        begun_anew = False
        for place, text in append_entries(segments, entries).items():
            assert len(text.encode()) <= SEGMENT_BYTES
            begun_anew |= len(text) < len(segments[place])
            segments[place] = text
        if first >= 1_350 and (begun_anew or first % 10 == 0):
            kept = read_ring(segments)
            assert kept[-1] == entries[-1]
            assert [one.seq for one in kept] == sorted({one.seq for one in kept})
            least = min(least, len(kept))
    assert 3_000 <= least < 10_000


def test_what_is_read_is_what_was_written() -> None:
    """All kinds; a line that somebody has damaged is left out, and the others stay."""
    changed = append_entries([""] * SEGMENTS, HISTORY)
    assert read_ring(changed.values()) == tuple(sorted(HISTORY, key=lambda one: one.seq))
    (text,) = changed.values()
    assert list(parse_segment("no entry\n" + text + "{}\n")) == list(HISTORY)


def test_more_than_a_ring_holds() -> None:
    """What would be overwritten at once is not written; the newest entries are there, in the order of the writes."""
    entries = [Entry(seq=number, at=AT, kind="Moved", what="x" * 1_000) for number in range(1, 1_001)]
    changed = append_entries([""] * SEGMENTS, entries)
    assert len(changed) == SEGMENTS
    assert list(changed.values())[-1].endswith(next(iter(append_entries([""], entries[-1:]).values())))
    assert [one.seq for one in read_ring(changed.values())][-1] == 1_000


def test_the_largest_entry_fits() -> None:
    """Names as long as Kubernetes allows them: an entry of a text that holds dozens."""
    changed = append_entries([""] * SEGMENTS, [LARGEST] * 40)
    assert list(changed) == [0]


@examples(50)
@given(st.lists(st.integers(1, 40), max_size=30), st.integers(20, 3_000))
def test_appending_is_the_same_in_any_portions(portions: list[int], size: int) -> None:
    """However the entries are divided among writes, the ring ends with the same newest entries."""
    seq = 0
    segments = [""] * SEGMENTS
    every: list[Entry] = []
    for portion in portions:
        entries = [Entry(seq=seq + number, at=AT, kind="Moved", what="x" * size) for number in range(1, portion + 1)]
        seq += portion
        every += entries
        for place, text in append_entries(segments, entries).items():
            segments[place] = text
    once = append_entries([""] * SEGMENTS, every)
    assert [segments[place] for place in sorted(once)] == [once[place] for place in sorted(once)]
    kept = [one.seq for one in read_ring(segments)]
    assert kept == list(range(seq - len(kept) + 1, seq + 1))


def test_only_what_is_missing_is_written() -> None:
    """An entry changes one text, a sample the trend, what is stored nothing."""
    outbox = (entry(EntryKind.LEADS, 1, who="a"), entry(EntryKind.SAMPLE, 2, number=1))
    first, second = find_writes(NO_CONTENTS, outbox)
    assert (first.name, first.key) == (SEGMENT_MAPS[0], ENTRIES_KEY)
    assert (second.name, second.key) == ("rebalancer-history", "trend.json")
    contents = NO_CONTENTS.after(first).after(second)
    assert contents.stored == Stored(outbox[0].seq, outbox[1].seq)
    assert list(find_writes(contents, outbox)) == []
    assert [write.name for write in find_writes(NO_CONTENTS.after(first), outbox)] == ["rebalancer-history"]


@examples(30)
@given(st.integers(0, 2**32), st.integers(1, 600), st.sampled_from([5, 600, 100_000]))
def test_thinning_keeps_begin_end_and_extremes(seed: int, more: int, apart: int) -> None:
    """However they came: few enough, in order, none invented, the newest whole."""
    random = Random(seed)
    at, samples = AT, list[Sample]()
    for _ in range(MOST_SAMPLES + more):
        at += random.randint(1, apart)
        samples.append(Sample(at, random.randint(0, 5), random.randint(0, 50), random.randint(0, 9)))
    thinned = thin(tuple(samples))
    assert len(thinned) <= MOST_SAMPLES
    assert list(thinned) == [sample for sample in samples if sample in set(thinned)]
    assert (thinned[0], thinned[-480:]) == (samples[0], tuple(samples[-480:]))
    for name in ("violated", "above", "skew"):
        numbers, kept = ([getattr(sample, name) for sample in some] for some in (samples, thinned))
        assert (min(kept), max(kept)) == (min(numbers), max(numbers))


def test_a_year_of_samples_fits() -> None:
    """A sample every ten minutes: at most 1,440 of them, more of today than of any older day, in 100 KiB."""
    trend = Trend()
    for number in range(52_560):
        sample = Entry(seq=number + 1, at=AT + 600 * number, kind=EntryKind.SAMPLE, number=number, above=number % 97)
        trend = extend_trend(trend, [sample])
        assert len(trend.samples) <= MOST_SAMPLES
    assert trend.samples[0].at == AT
    assert trend.seq == 52_560
    months = [len([one for one in trend.samples if (one.at - AT) // (30 * 86_400) == month]) for month in range(12)]
    assert months[-1] > months[0] > 0
    assert len(format_trend(trend)) <= SEGMENT_BYTES


def test_a_trend_has_each_sample_once() -> None:
    """What it has already, and what is no sample, changes nothing; a damaged one begins anew."""
    samples = [one for one in HISTORY if one.kind == EntryKind.SAMPLE]
    trend = extend_trend(Trend(), HISTORY)
    assert trend.samples == (Sample(samples[0].at, 2, 4, 6),)
    assert extend_trend(trend, HISTORY) == trend
    assert parse_trend(format_trend(trend)) == trend
    assert parse_trend("") == parse_trend("[") == Trend()


def test_no_character_of_a_text_ends_a_line() -> None:
    """Some that JSON leaves as they are end a line for Python; what nobody can read any more has no date."""
    odd = tuple(entry(EntryKind.APPROVED, 1, what=f"a{letter}b") for letter in "\u2028\u2029\x85\x0b\x1c")
    written = append_entries(("",) * SEGMENTS, odd)
    assert tuple(parse_segment(written[0])) == odd
    assert list(parse_segment('{"q":1,"t":1000000000000}\n{"\n')) == []


def test_a_text_of_somebody_forges_no_line() -> None:
    assert cut("a\nResumed by alice\u2028\x1b[2J") == "a Resumed by alice [2J"


def test_samples_of_a_clock_that_was_ahead_are_thinned_too() -> None:
    """However many there are; the newest stay."""
    ahead = tuple(Sample(2_000 + number, number % 7, 0, 0) for number in range(961))
    later = tuple(Sample(number, 1, 0, 0) for number in range(480))
    kept = thin((*ahead, *later))
    assert len(kept) <= MOST_SAMPLES
    assert kept[-480:] == later
