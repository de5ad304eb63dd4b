"""A thread that polls: at each signal, at the latest after one and a half intervals, never without a pause."""

import time

from rebalancer.controller.polling import LATEST, PollingThread
from tests.controller.waiting import until


def test_a_signal_polls_at_once_and_without_one_it_goes_on() -> None:
    times: list[float] = []
    thread = PollingThread("test", 0.2, lambda: times.append(time.monotonic()))
    began = time.monotonic()
    thread.start()
    thread.signal()
    until(lambda: bool(times), "the first")
    assert times[0] - began < LATEST * 0.2
    until(lambda: len(times) >= 3, "two more")
    thread.stop()
    thread.thread.join(5)
    assert not thread.thread.is_alive()


def test_what_takes_longer_than_an_interval_is_done_after_a_pause() -> None:
    """Signals that come meanwhile are of the past: a slow server would be asked without an end."""
    ended: list[float] = []
    begun: list[float] = []

    def poll() -> None:
        begun.append(time.monotonic())
        time.sleep(0.3)
        thread.signal()
        ended.append(time.monotonic())

    thread = PollingThread("test", 0.2, poll)
    thread.start()
    thread.signal()
    until(lambda: len(begun) >= 2, "the second")
    thread.stop()
    assert begun[1] - ended[0] >= 0.2
