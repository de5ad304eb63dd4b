"""When the next cycle begins: the earliest of what was asked for, and how much of a processor early cycles take."""

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.controller.cycle_timer import CycleTimer


class Time:
    """A clock that a test moves."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def timer_of(time: Time, *, took: float = 0.0) -> CycleTimer:
    """Return a timer whose last cycle has just ended."""
    timer = CycleTimer(time)
    began = timer.begin()
    time.seconds += took
    timer.end(began)
    return timer


@given(asked=st.lists(st.none() | st.floats(0, 1000), min_size=1))
def test_the_earliest_counts(asked: list[float | None]) -> None:
    """Whoever asks for something later changes nothing, and is told so."""
    timer = timer_of(Time())
    assert timer.left() is None
    earlier = [timer.ask(seconds) for seconds in asked]
    times = [-1.0 if seconds is None else seconds for seconds in asked]
    assert (timer.is_asked, timer.left()) == ((True, None) if None in asked else (False, min(times)))
    assert earlier == [time < min(times[:number], default=1e9) for number, time in enumerate(times)]


def test_a_cycle_answers_what_was_asked_before_it() -> None:
    """And nothing that is asked while it runs."""
    time = Time()
    timer = timer_of(time)
    timer.ask(None)
    began = timer.begin()
    assert not timer.is_asked
    timer.ask(None)
    timer.end(began)
    assert timer.is_asked


def test_early_cycles_take_a_third_of_a_processor_and_an_order_waits_for_none_of_that() -> None:
    time = Time()
    timer = timer_of(time, took=3)
    timer.ask(1)
    assert timer.left() == 6
    time.seconds += 2
    assert timer.left() == 4
    timer.ask(None)
    assert timer.is_asked


def test_what_is_overdue_is_due_now() -> None:
    time = Time()
    timer = timer_of(time)
    timer.ask(5)
    time.seconds += 60
    assert timer.left() == 0
