"""The trend as shapes: what held at each moment, and what happened meanwhile."""

import re
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.adapters.web.trend_drawing import draw_trend
from rebalancer.documents.history import HistoryEntry, TrendSample
from rebalancer.model.history import EntryKind

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SPAN = timedelta(hours=2)
WIDTH = 342


def sample(minutes: float, violated: int) -> TrendSample:
    return TrendSample(at=NOW - timedelta(minutes=minutes), violated=violated, above=0, skew=0)


def entry(minutes: float, kind: EntryKind, *, outcome: str = "", what: str = "") -> HistoryEntry:
    return HistoryEntry(seq=1, at=NOW - timedelta(minutes=minutes), kind=kind, text="-", outcome=outcome, what=what)


@st.composite
def drawn_samples(draw: st.DrawFn) -> list[TrendSample]:
    minutes = sorted(draw(st.sets(st.integers(0, 400), max_size=12)), reverse=True)
    return [sample(minute, draw(st.integers(0, 30))) for minute in minutes]


@given(drawn_samples())
def test_the_line_is_what_held(samples: list[TrendSample]) -> None:
    """From the last sample before the time, as a step at each within it, until now; as high as the number is large."""
    trend = draw_trend(samples, [], NOW, SPAN)
    begin = NOW - SPAN
    shown = [one for one in samples if one.at > begin]
    held = [one for one in samples if one.at <= begin][-1:]
    steps = [*held, *shown]
    assert trend.last == (samples[-1].violated if samples else 0)
    if not steps:
        assert trend.line == ""
        assert trend.sentence == "No sample yet"
        return
    highest = max(one.violated for one in steps)
    assert trend.sentence == f"Now {trend.last} violated, at most {highest} in this time"
    heights = [float(y) for y in re.findall(r"(?:M[\d.]+ |V)([\d.]+)", trend.line)]
    assert heights == [round(64 - one.violated / (highest or 1) * 52, 1) for one in steps]
    places = [float(x) for x in re.findall(r"[MH]([\d.]+)", trend.line)]
    assert places == sorted(places)
    assert places[-1] == WIDTH


def test_moves_pauses_and_zones_are_marked_where_they_were() -> None:
    entries = [
        entry(150, EntryKind.PAUSED),
        entry(90, EntryKind.RESUMED),
        entry(80, EntryKind.ZONE_LOST, what="zone c"),
        entry(60, EntryKind.MOVED, outcome="verified"),
        entry(58, EntryKind.ZONE_RETURNED, what="zone d"),
        entry(56, EntryKind.ZONE_RETURNED, what="zone c"),
        entry(30, EntryKind.MOVED, outcome="lost"),
        entry(12, EntryKind.PAUSED),
    ]
    trend = draw_trend([sample(100, 1)], entries, NOW, SPAN)
    assert trend.moves == [WIDTH / 2]
    assert trend.failures == [WIDTH * 3 / 4]
    assert trend.pauses == [(0, 85.5), (307.8, 34.2)]
    assert [(flag.x, flag.text) for flag in trend.flags] == [(114.0, "zone c lost"), (182.4, "zone c back")]


def test_the_axis_has_times_of_a_day_or_days() -> None:
    assert [label.text for label in draw_trend([], [], NOW, SPAN).labels] == ["10:00", "10:30", "11:00", "11:30"]
    week = draw_trend([], [], NOW, timedelta(days=7)).labels
    assert [label.text for label in week] == ["25 Dec", "27 Dec", "29 Dec", "30 Dec"]
