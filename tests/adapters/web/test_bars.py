"""Bars of counts against a bound: nothing is drawn that is not so, and nothing that matters is left out."""

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.adapters.web.bars import Bar, common_prefix, draw_bars, shorten

NAMES = st.text("ab-1", min_size=1, max_size=6)


@st.composite
def drawn_bars(draw: st.DrawFn) -> list[Bar]:
    names = draw(st.lists(NAMES, min_size=1, max_size=30, unique=True))
    high = draw(st.none() | st.integers(0, 9))
    low = draw(st.integers(0, 9 if high is None else high))
    return [Bar(name, draw(st.integers(0, 12)), low, high) for name in names]


@given(drawn_bars())
def test_lengths_are_in_proportion(bars: list[Bar]) -> None:
    """What is filled and what is beyond the bound are together as long as the count is large, with one unit for all."""
    drawing = draw_bars(bars)
    units = {round((one.filled + one.over) / one.bar.pods, 1) for one in drawing.shapes if one.bar.pods}
    assert len(units) <= 2, "one unit, but for rounding"
    for one in drawing.shapes:
        assert (one.over > 0) == (one.bar.above > 0)
        assert one.bar.high is None or one.over > 0 or one.filled <= one.room + 0.1


@given(drawn_bars())
def test_every_domain_that_is_off_is_drawn_or_counted(bars: list[Bar]) -> None:
    """Of many domains those within their bounds are left out, and it is said how many are."""
    drawing = draw_bars(bars)
    assert len(drawing.shapes) + drawing.left_out == len(bars)
    assert len(drawing.shapes) <= 12
    shown = {one.bar for one in drawing.shapes}
    off = [bar for bar in bars if bar.note]
    assert len(bars) > 12 or shown == set(bars)
    assert len(bars) <= 12 or len(shown) == min(12, len(off))
    assert len(bars) <= 12 or shown <= set(off)
    least = min((one.bar.above for one in drawing.shapes), default=0)
    assert len(bars) <= 12 or all(bar.above <= least for bar in set(off) - shown)
    assert drawing.off == (len(off) - len(shown) if len(bars) > 12 else 0)
    for one in drawing.shapes:
        assert one.bar.sentence in drawing.sentence


def test_a_bar_says_what_it_shows() -> None:
    assert Bar("a", 5, 2, 4).sentence == "a holds 5, at most 4, 1 above"
    assert Bar("b", 1, 2, 4).sentence == "b holds 1, at most 4, 1 short"
    assert Bar("", 3, 0, None).sentence == "(empty) holds 3"


@given(st.lists(NAMES, max_size=6, unique=True))
def test_short_names_are_still_different(names: list[str]) -> None:
    """What all begin with is left out up to a hyphen, and never a whole name."""
    short = shorten(names)
    assert len(set(short)) == len(names)
    prefix = common_prefix(names)
    assert [prefix + name for name in short] == names
    assert all(short)


def test_zones_of_a_cloud_lose_their_region() -> None:
    assert shorten(["eu-west-1a", "eu-west-1b"]) == ["1a", "1b"]
    assert shorten(["eu-west-1a"]) == ["eu-west-1a"]


@given(drawn_bars(), st.sampled_from(["", "eu-west-1", "a-region-with-a-very-long-name-"]))
def test_a_whole_name_is_whole_and_beside_no_other(bars: list[Bar], begin: str) -> None:
    """Beside its bar, or above it where it is long; upright bars leave it as much room as it takes."""
    named = [bar._replace(domain=begin + bar.domain) for bar in bars]
    drawing = draw_bars(named, whole_names=True)
    for one in drawing.shapes:
        assert one.label == one.bar.domain
        room = drawing.bound if drawing.upright else one.x or drawing.width
        assert 6.7 * len(one.label) <= room
    lines = [one.label_y for one in drawing.shapes]
    assert drawing.upright or len(set(lines)) == len(lines)
