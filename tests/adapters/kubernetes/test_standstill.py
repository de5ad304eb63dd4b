"""A stop of the process is noticed by whoever looks first, and by nobody twice."""

import math
import threading
import time

from structlog.testing import capture_logs

from rebalancer.adapters.kubernetes.standstill import Standstill, elapsed
from tests.controller.waiting import until


class Beating:
    """A Standstill whose clock is in the test's hand, and the stops that it has noticed."""

    def __init__(self, limit: float) -> None:
        self.now = 100.0
        self.stops: list[float] = []
        self.standstill = Standstill(self.stops.append, clock=lambda: self.now)
        self.standstill.set_limit(limit)
        self.standstill._beat_at = self.now  # without its thread


def test_a_gap_beyond_the_limit_is_a_stop() -> None:
    """One of the limit is none; each is noticed once, and logged."""
    beating = Beating(10.0)
    with capture_logs() as logs:
        for gap in (0.5, 10.0, 10.1, 3.0):
            beating.now += gap
            beating.standstill.check()
            beating.standstill.check()
    assert [round(stop, 1) for stop in beating.stops] == [10.1]
    assert [(entry["event"], entry["seconds"]) for entry in logs] == [("the process was stopped", 10.1)]


def test_the_limit_can_be_changed() -> None:
    """With the interval of a new policy."""
    beating = Beating(10.0)
    beating.standstill.set_limit(2.0)
    beating.now += 3.0
    beating.standstill.check()
    assert beating.stops == [3.0]


def test_what_does_not_beat_notices_nothing() -> None:
    """Before its start nobody has relied on what is known."""
    stops: list[float] = []
    standstill = Standstill(stops.append, clock=iter((0.0, 1e6)).__next__)
    standstill.set_limit(1.0)
    standstill.check()
    standstill.check()
    assert stops == []


def test_a_check_waits_for_what_another_thread_has_noticed() -> None:
    """Else it would go by a view that is about to be declared stale."""
    noticing, over = threading.Event(), threading.Event()
    order: list[str] = []

    def resumed(_: float) -> None:
        noticing.set()
        over.wait(5)
        order.append("declared stale")

    now = [0.0]
    standstill = Standstill(resumed, clock=lambda: now[0])
    standstill.set_limit(1.0)
    standstill._beat_at = 0.0
    now[0] = 5.0
    first = threading.Thread(target=standstill.check)
    first.start()
    assert noticing.wait(5)

    def check() -> None:
        standstill.check()
        order.append("checked")

    second = threading.Thread(target=check)
    second.start()
    time.sleep(0.05)
    over.set()
    for thread in (first, second):
        thread.join(5)
    assert order == ["declared stale", "checked"]


def test_its_thread_beats() -> None:
    """So that a check after a long time without one notices nothing; and it ends at once."""
    stops: list[float] = []
    standstill = Standstill(stops.append)
    standstill.set_limit(0.4)
    standstill.start()
    time.sleep(1.0)
    standstill.check()
    assert stops == []
    standstill.stop()
    until(lambda: not standstill.thread.is_alive(), "the end of the thread")


def test_the_clock_goes_on_while_the_machine_sleeps() -> None:
    """On Linux it is CLOCK_BOOTTIME, which is never behind CLOCK_MONOTONIC."""
    assert math.isclose(elapsed(), time.clock_gettime(time.CLOCK_BOOTTIME), abs_tol=1.0)
    assert elapsed() >= time.monotonic() - 0.01
