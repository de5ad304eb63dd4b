"""Fates: what waits until a moment may have to wait for something that ends later."""

from datetime import timedelta

from rebalancer.admission.admit import NotProposedYet, Paused
from rebalancer.model.facts import Refusal
from rebalancer.planning.fates import Fate, Fates, Goes, Never, UnderWay, Waits
from tests.planning.clusters import planned, returned

PLAN = planned(returned())
SAID = PLAN.made_at
ONE = PLAN.fates.evictions[0]


def paused(minutes: float) -> Refusal:
    return Paused("an incident", SAID + timedelta(minutes=minutes))


def outlasted(fate: Fate, later: Refusal | None) -> Fate:
    (row,) = Fates((fate,)).outlast(lambda _: later, SAID).rows
    return row


def test_the_wait_that_ends_last_is_said() -> None:
    """At a later moment, or at no known one; what goes, is under way, or never goes stays so."""
    waits = Waits(ONE, paused(5))
    assert outlasted(waits, paused(6)) == Waits(ONE, paused(6))
    assert outlasted(waits, NotProposedYet()) == Waits(ONE, NotProposedYet())
    for later in (paused(4), paused(5), None):
        assert outlasted(waits, later) == waits
    event = Waits(ONE, NotProposedYet())
    assert outlasted(event, paused(6)) == Waits(ONE, paused(6)), "while people hold everything, no event lets it go"
    others = (Goes(ONE), UnderWay(ONE), Never(ONE, paused(5)))
    assert [outlasted(fate, paused(6)) for fate in others] == list(others)


def awaited(fate: Fate, *following: Refusal) -> Fate:
    (row,) = Fates((fate,)).await_last(lambda _: following, SAID).rows
    return row


def test_of_several_waits_the_last_one_is_said() -> None:
    """The latest moment, and above all what does not end by itself; an event may come before a moment or after it."""
    never, event = Paused("an incident"), NotProposedYet()
    waits = Waits(ONE, paused(5))
    assert awaited(waits, paused(4), paused(7), paused(6)) == Waits(ONE, paused(7))
    assert awaited(waits, event, paused(4)) == waits
    assert awaited(waits, paused(6), never, paused(7)) == Waits(ONE, never)
    assert awaited(Waits(ONE, event), paused(6)) == Waits(ONE, event)
    assert awaited(Waits(ONE, event), never) == Waits(ONE, never)
    assert awaited(Waits(ONE, never), paused(6), event) == Waits(ONE, never)
    others = (Goes(ONE), UnderWay(ONE), Never(ONE, paused(5)))
    assert [awaited(fate, never) for fate in others] == list(others)


def test_what_is_under_way_was_let_go() -> None:
    rows = (UnderWay(ONE), Goes(ONE), Waits(ONE, paused(5)))
    assert Fates(rows).as_decided().rows == (Goes(ONE), Goes(ONE), rows[2])
