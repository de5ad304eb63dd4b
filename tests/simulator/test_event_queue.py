"""Simulated time."""

from datetime import timedelta

from rebalancer.simulator import START
from rebalancer.simulator.event_queue import EventQueue


def test_everything_happens_at_its_own_moment_in_order() -> None:
    event_queue, seen = EventQueue(START), list[tuple[str, float]]()
    for seconds, name in ((3.0, "late"), (1.0, "early"), (3.0, "later")):
        event_queue.after(seconds, lambda name=name: seen.append((name, (event_queue.now - START).total_seconds())))  # type: ignore[misc]
    event_queue.run(START + timedelta(seconds=10))
    assert seen == [("early", 1.0), ("late", 3.0), ("later", 3.0)]
    assert event_queue.now == START + timedelta(seconds=10)


def test_what_falls_due_later_stays() -> None:
    event_queue, seen = EventQueue(START), list[str]()
    event_queue.after(5, lambda: seen.append("x"))
    event_queue.run(START + timedelta(seconds=4.9))
    assert not seen
    assert event_queue.next_due == START + timedelta(seconds=5)


def test_what_an_action_puts_down_happens_in_the_same_play() -> None:
    event_queue, seen = EventQueue(START), list[str]()
    event_queue.after(1, lambda: event_queue.after(1, lambda: seen.append("x")))
    event_queue.run(START + timedelta(seconds=2))
    assert seen == ["x"]


def test_a_key_is_put_down_once_until_it_has_happened() -> None:
    event_queue, seen = EventQueue(START), list[str]()
    for _ in range(3):
        event_queue.after(1, lambda: seen.append("x"), key="k")
    event_queue.run(START + timedelta(seconds=1))
    event_queue.after(1, lambda: seen.append("y"), key="k")
    event_queue.run(START + timedelta(seconds=2))
    assert seen == ["x", "y"]
