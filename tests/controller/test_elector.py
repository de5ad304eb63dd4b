"""The lease's thread: leadership is reported once, lost in time, released at the end."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from rebalancer.controller.election import Election
from rebalancer.controller.elector import Elector
from rebalancer.controller.state import Leading, LoopEvent
from rebalancer.model.moves import NO_MEMORY, Memory
from rebalancer.ports import LeaseRecord
from tests.controller.test_election import Store


class Shaky:
    """A Lease that fails on demand."""

    def __init__(self) -> None:
        self.store = Store()
        self.broken = False

    def read(self) -> LeaseRecord | None:
        if self.broken:
            raise ConnectionError("no answer")
        return self.store.record

    def write(self, record: LeaseRecord) -> LeaseRecord | None:
        if self.broken:
            raise ConnectionError("no answer")
        return self.store.write(record)


def elector(
    lease: Shaky,
    reported: list[LoopEvent],
    load_memory: Callable[[], Memory] = lambda: NO_MEMORY,
    tell: Callable[[LoopEvent], None] | None = None,
) -> Elector:
    return Elector(
        lease=lease,
        election=Election(identity="me", duration=2.0, deadline=0.4),
        retry=0.05,
        clock=lambda: datetime.now(UTC),
        load_memory=load_memory,
        tell=tell or reported.append,
    )


def until(condition: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit, f"waited in vain for {what}"
        time.sleep(0.01)


def leads(reported: list[LoopEvent]) -> list[bool]:
    return [event.leads for event in reported if isinstance(event, Leading)]


def test_winning_losing_and_winning_again() -> None:
    """A lease that cannot be renewed ends leadership by its deadline; when it can, leadership comes back."""
    lease, reported = Shaky(), list[LoopEvent]()
    candidate = elector(lease, reported)
    candidate.start()
    until(candidate.leads, "leadership")
    lease.broken = True
    until(lambda: not candidate.leads(), "its end")
    until(lambda: leads(reported) == [True, False], "the report of it")
    assert "no answer" in candidate.problem
    lease.broken = False
    until(candidate.leads, "leadership again")
    candidate.stop(5)
    assert lease.store.record is not None
    assert lease.store.record.holder == "", "handed back"
    assert leads(reported) == [True, False, True]


def test_no_leadership_without_memory() -> None:
    """Who cannot read what the last leader left does not lead: it might repeat a move."""
    lease, reported = Shaky(), list[LoopEvent]()
    readable = False

    def remembered() -> Memory:
        if not readable:
            raise ConnectionError("no status")
        return NO_MEMORY

    candidate = elector(lease, reported, remembered)
    candidate.start()
    until(lambda: lease.store.record is not None, "the lease")
    time.sleep(0.2)
    assert not candidate.leads()
    assert reported == []
    readable = True
    until(candidate.leads, "leadership")
    lease.broken = True
    candidate.stop(5)
    assert lease.store.record is not None
    assert lease.store.record.holder == "me", "what cannot be handed back runs out"


def test_stopping_what_never_began() -> None:
    """An elector that was not started ends without a word."""
    elector(Shaky(), []).stop(1)


def test_a_loop_that_fails_does_not_end_the_thread() -> None:
    """What could not be reported to the loop is reported again; until then this process does not lead."""
    reported: list[LoopEvent] = []
    failing = True

    def tell(event: LoopEvent) -> None:
        if failing:
            raise RuntimeError("no loop")
        reported.append(event)

    candidate = elector(Shaky(), reported, tell=tell)
    candidate.start()
    until(lambda: candidate.problem == "no loop", "the failure")
    assert not candidate.leads()
    failing = False
    until(lambda: leads(reported) == [True], "the report of leadership")
    assert candidate.leads()
    candidate.stop(5)
