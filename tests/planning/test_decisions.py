"""Decisions for drawn states are those on record: a change that is not meant to decide otherwise does not."""

from pathlib import Path

import pytest

from tools.decisions.record import decisions, differing, digest, line_of, read_record

RECORD = read_record(Path(__file__).with_name("decisions.txt"))


def decided(part: int) -> dict[str, str]:
    lines = (line_of(name, decision).rstrip("\n").split("\t", 1) for name, decision in decisions(part))
    return {name: decision for name, decision in lines}  # noqa: C416  # pairs of lists, not of tuples


def test_decisions_are_those_on_record() -> None:
    """Evictions, waiting pods, states, reasons, bounds and known counts of one in twenty states are the same."""
    now = decided(20)
    assert len(now) > 100
    assert differing({name: RECORD[name] for name in now}, now) == []


@pytest.mark.thorough
def test_every_decision_is_the_one_on_record() -> None:
    """The same of all states; a changed decision is renewed in the record on purpose (tools/decisions/record.py)."""
    now = decided(1)
    assert len(now) > 4000
    assert differing(RECORD, now) == []


def test_a_changed_decision_is_noticed() -> None:
    """So is a state that only one record has; a digest stands for the decision it was made of."""
    assert differing({"a": "x", "b": digest("y")}, {"a": "x", "b": "y"}) == []
    assert differing({"a": "x", "b": digest("y")}, {"a": "z", "b": "z", "c": ""}) == ["a", "b", "c"]
    assert differing({"a": "x"}, {}) == ["a"]
