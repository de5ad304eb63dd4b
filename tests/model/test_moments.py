"""A clock's answers stay the same until the time that it names."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.model.moments import ALWAYS, Clock

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
seconds = st.integers(-1000, 1000).map(lambda number: timedelta(seconds=number))
drawn = st.lists(st.tuples(seconds, st.none() | seconds.map(abs)), max_size=6)


def ask(clock: Clock, comparisons: list[tuple[timedelta, timedelta | None]]) -> list[bool]:
    return [
        clock.has_passed(NOW + offset) if span is None else clock.has_lasted(NOW + offset, span)
        for offset, span in comparisons
    ]


@given(drawn, seconds.map(abs))
def test_answers_hold_until_the_time_that_is_named(
    comparisons: list[tuple[timedelta, timedelta | None]], later: timedelta
) -> None:
    """Before it every later clock answers alike, and at it at least one answer is another."""
    clock = Clock(NOW)
    answers = ask(clock, comparisons)
    if NOW + later < clock.holds_until:
        assert ask(Clock(NOW + later), comparisons) == answers
    if clock.holds_until < ALWAYS:
        assert ask(Clock(clock.holds_until), comparisons) != answers


def test_what_shows_an_age_holds_at_no_later_time() -> None:
    """And a time in the future, of another clock, has no age."""
    clock = Clock(NOW)
    assert clock.age_of(NOW - timedelta(seconds=5)) == timedelta(seconds=5)
    assert clock.age_of(NOW + timedelta(seconds=5)) == timedelta(0)
    assert clock.holds_until == NOW


def test_no_span_is_too_long() -> None:
    """The largest one cannot be added to any time."""
    clock = Clock(NOW)
    assert not clock.has_lasted(NOW, timedelta.max)
    assert clock.holds_until == ALWAYS
