"""Simulated time."""

from datetime import timedelta

from rebalancer.adapters.simulator import START
from rebalancer.adapters.simulator.event_queue import EventQueue


def test_everything_happens_at_its_own_moment_in_order() -> None:
    agenda, seen = EventQueue(START), list[tuple[str, float]]()
    for seconds, name in ((3.0, "late"), (1.0, "early"), (3.0, "later")):
        agenda.after(seconds, lambda name=name: seen.append((name, (agenda.now - START).total_seconds())))  # type: ignore[misc]
    agenda.play(START + timedelta(seconds=10))
    assert seen == [("early", 1.0), ("late", 3.0), ("later", 3.0)]
    assert agenda.now == START + timedelta(seconds=10)


def test_what_falls_due_later_stays() -> None:
    agenda, seen = EventQueue(START), list[str]()
    agenda.after(5, lambda: seen.append("x"))
    agenda.play(START + timedelta(seconds=4.9))
    assert not seen
    assert agenda.next_due == START + timedelta(seconds=5)


def test_what_an_action_puts_down_happens_in_the_same_play() -> None:
    agenda, seen = EventQueue(START), list[str]()
    agenda.after(1, lambda: agenda.after(1, lambda: seen.append("x")))
    agenda.play(START + timedelta(seconds=2))
    assert seen == ["x"]


def test_a_key_is_put_down_once_until_it_has_happened() -> None:
    agenda, seen = EventQueue(START), list[str]()
    for _ in range(3):
        agenda.after(1, lambda: seen.append("x"), key="k")
    agenda.play(START + timedelta(seconds=1))
    agenda.after(1, lambda: seen.append("y"), key="k")
    agenda.play(START + timedelta(seconds=2))
    assert seen == ["x", "y"]
