"""Every fault of events does what its name says, and says whether the client's view is damaged."""

import random
from collections import Counter

import pytest

from tests.faults.events import EventStream
from tests.faults.schedule import Fault

LINES = [f'{{"object": {number}}}\n'.encode() for number in range(40)]


def deliver(fault: Fault, probability: float = 0.0) -> tuple[list[bytes], bool]:
    stream = EventStream(fault, probability, random.Random(1))
    return [passed for line in LINES for passed in stream.pass_on(line)], stream.damaged


def test_a_silent_watch_delivers_nothing() -> None:
    assert deliver(Fault.SILENT) == ([], False)


def test_duplicates_are_whole_and_in_order() -> None:
    assert deliver(Fault.DUPLICATED, 1.0) == ([line for line in LINES for _ in range(2)], False)


def test_reordering_loses_nothing() -> None:
    lines, damaged = deliver(Fault.REORDERED, 1.0)
    assert lines[:4] == [LINES[1], LINES[0], LINES[3], LINES[2]]
    assert sorted(lines) == sorted(LINES)
    assert damaged


def test_dropping_keeps_the_order_of_the_rest() -> None:
    lines, damaged = deliver(Fault.DROPPED, 0.5)
    assert 5 < len(lines) < 35
    assert lines == [line for line in LINES if line in lines]
    assert damaged


def test_rewinding_repeats_old_events_after_newer_ones() -> None:
    lines, damaged = deliver(Fault.REWOUND, 1.0)
    assert lines[:6] == [LINES[0], LINES[1], LINES[0], LINES[2], LINES[0], LINES[1]]
    assert max(Counter(lines).values()) == 4
    assert damaged


def test_a_truncated_event_is_no_json() -> None:
    lines, damaged = deliver(Fault.TRUNCATED)
    assert all(line.endswith(b"\n") and len(line) < len(LINES[0]) for line in lines)
    assert damaged


@pytest.mark.parametrize("fault", [Fault.REORDERED, Fault.DROPPED, Fault.REWOUND])
def test_a_view_is_damaged_only_by_what_happened(fault: Fault) -> None:
    stream = EventStream(fault, 1e-9, random.Random(1))
    assert [passed for line in LINES for passed in stream.pass_on(line)] == LINES
    assert not stream.damaged
