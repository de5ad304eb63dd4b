"""The lease's thread: leadership is reported once, lost in time, released at the end."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from threading import Event

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from rebalancer.adapters.kubernetes.lease import KubernetesLease
from rebalancer.controller.election import Election
from rebalancer.controller.elector import Elector
from rebalancer.controller.state import Clocks, Leading, LoopEvent
from rebalancer.documents.status import LeaseStatus
from rebalancer.model.moves import NO_MEMORY, Memory, SentRequest
from rebalancer.ports import Lease, LeaseRecord, LeaseUnavailable
from rebalancer.settings import load_settings
from tests.adapters.kubernetes.fake_server import ApiServer, served
from tests.controller.test_election import Store
from tests.controller.waiting import until


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


SHORT = Election(identity="me", duration=2.0, deadline=0.4)


def elector(
    lease: Lease,
    reported: list[LoopEvent],
    load_memory: Callable[[], Memory] = lambda: NO_MEMORY,
    tell: Callable[[LoopEvent], None] | None = None,
    *,
    election: Election = SHORT,
    retry: float = 0.05,
) -> Elector:
    return Elector(
        lease=lease,
        election=election,
        retry=retry,
        clocks=Clocks(now=lambda: datetime.now(UTC), monotonic=time.monotonic),
        load_memory=load_memory,
        tell=tell or reported.append,
    )


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


@pytest.mark.parametrize("requests", [1, 2])
def test_requests_that_hang_do_not_cost_leadership(requests: int) -> None:
    """Each may take a third of the deadline and is repeated at once, so that the next one renews in time."""
    settings = load_settings({"renew_deadline": "3s", "lease_duration": "5s", "retry_period": "1s"})
    server, over, reported = ApiServer(), Event(), list[LoopEvent]()
    hangs = 0

    def handle(request: BaseHTTPRequestHandler) -> None:
        nonlocal hangs
        if hangs:
            hangs -= 1
            over.wait(30)
            return
        server(request)

    with served(handle) as transport:
        lease = KubernetesLease(transport, namespace="home", timeout=settings.lease_request_timeout.total_seconds())
        candidate = elector(lease, reported, election=Election(identity="me", duration=5.0, deadline=3.0), retry=0.4)
        candidate.start()
        until(candidate.leads, "leadership")
        hangs = requests
        until(lambda: not hangs, "the requests that hang")
        began = time.monotonic()
        while time.monotonic() - began < 2.5:
            assert candidate.leads()
            time.sleep(0.01)
        over.set()
        candidate.stop(5)
    assert leads(reported) == [True]


def test_it_knows_who_leads_and_since_when_nobody_does() -> None:
    """By its own clocks: another process's times are of another clock."""
    lease, seconds = Shaky(), [1000.0]
    start = datetime(2026, 1, 5, 9, tzinfo=UTC)
    candidate = Elector(
        lease=lease,
        election=Election(identity="me", duration=15.0, deadline=10.0),
        retry=2.0,
        clocks=Clocks(now=lambda: start + timedelta(seconds=seconds[0] - 1000), monotonic=lambda: seconds[0]),
        load_memory=lambda: NO_MEMORY,
        tell=lambda _: None,
    )

    def known(after: float) -> LeaseStatus:
        seconds[0] = 1000 + after
        candidate.take_part()
        return candidate.describe_lease()

    lease.store.record = LeaseRecord(holder="other", duration=5, renewed=datetime.max.replace(tzinfo=UTC))
    assert known(0) == LeaseStatus(holder="other", renewed=start)
    lease.broken = True
    assert known(4.9) == LeaseStatus(holder="other", renewed=start, error="no answer")
    ended = start + timedelta(seconds=5)
    assert known(9) == LeaseStatus(
        last_holder="other", renewed=start, free_since=ended, error="no answer", unread_since=start
    )
    lease.broken = False
    since = start + timedelta(seconds=20)
    assert known(20) == LeaseStatus(holder="me", renewed=since, since=since)
    lease.broken = True
    assert known(24.9) == LeaseStatus(holder="me", renewed=since, since=since, error="no answer")
    assert known(29.9) == LeaseStatus(holder="me", renewed=since, since=since, error="no answer", unread_since=since)
    free = start + timedelta(seconds=30)
    assert known(60) == LeaseStatus(
        last_holder="me", renewed=since, free_since=free, error="no answer", unread_since=since
    )


def test_of_a_lease_that_ran_out_before_it_looked_nobody_is_said_to_lead() -> None:
    """It takes the Lease only when it has seen it unchanged for its duration; meanwhile it says what is so."""
    lease, seconds = Shaky(), [1000.0]
    start = datetime(2026, 1, 5, 9, tzinfo=UTC)
    candidate = Elector(
        lease=lease,
        election=Election(identity="me", duration=15.0, deadline=10.0),
        retry=2.0,
        clocks=Clocks(now=lambda: start + timedelta(seconds=seconds[0] - 1000), monotonic=lambda: seconds[0]),
        load_memory=lambda: NO_MEMORY,
        tell=lambda _: None,
    )

    def known(after: float) -> LeaseStatus:
        seconds[0] = 1000 + after
        candidate.take_part()
        return candidate.describe_lease()

    def write(holder: str, renewed: datetime) -> None:
        lease.store.record = LeaseRecord(holder=holder, duration=15, renewed=renewed)

    died = start - timedelta(seconds=12)
    write("dead", died)
    ended = died + timedelta(seconds=15)
    with capture_logs() as logs:
        assert known(0) == LeaseStatus(holder="dead", renewed=died)
        assert known(2.9) == LeaseStatus(holder="dead", renewed=died)
        assert known(3) == LeaseStatus(last_holder="dead", renewed=died, free_since=ended)
        assert known(14.9) == LeaseStatus(last_holder="dead", renewed=died, free_since=ended)
        assert known(15).holder == "me"
    assert [entry["event"] for entry in logs] == ["another process leads", "leading"]
    write("slow", start - timedelta(minutes=1))
    assert known(17).holder == "slow", "its clock is behind: it has just renewed the Lease"
    assert known(31.9).holder == "slow"
    lease.broken = True
    known(32)
    write("late", start)
    lease.broken = False
    assert known(90) == LeaseStatus(last_holder="late", renewed=start, free_since=start + timedelta(seconds=15))


def test_a_lease_that_was_not_handed_back_is_waited_for_with_a_word() -> None:
    lease = Shaky()
    lease.store.record = LeaseRecord(holder="dead", duration=15, renewed=datetime.now(UTC) - timedelta(seconds=20))
    candidate = elector(lease, [])
    with capture_logs() as logs:
        for _ in range(3):
            candidate.take_part()
    assert [(entry["event"], entry["holder"]) for entry in logs] == [
        ("waiting for a Lease that was not handed back", "dead")
    ]


def test_what_was_never_read_is_not_known() -> None:
    lease = Shaky()
    lease.broken = True
    candidate = elector(lease, [])
    assert candidate.describe_lease() == LeaseStatus(error="the Lease has not been read yet")
    candidate.take_part()
    assert candidate.describe_lease() == LeaseStatus(error="no answer")


def test_who_leads_instead_is_logged_once() -> None:
    """Else a process that waits for the Lease, as `run --once` does, looks as if it hung."""
    lease = Shaky()
    lease.store.record = LeaseRecord(holder="other", duration=15, renewed=datetime.now(UTC))
    candidate = elector(lease, [])
    with capture_logs() as logs:
        for _ in range(3):
            candidate.take_part()
    assert [entry["holder"] for entry in logs if entry["event"] == "another process leads"] == ["other"]


def test_a_replica_that_waits_warns_only_when_nobody_leads() -> None:
    """While another process leads, one reading of its Lease less changes nothing; from its end on, it does."""
    lease, seconds = Shaky(), [1000.0]
    candidate = Elector(
        lease=lease,
        election=Election(identity="me", duration=15.0, deadline=10.0),
        retry=2.0,
        clocks=Clocks(now=lambda: datetime.now(UTC), monotonic=lambda: seconds[0]),
        load_memory=lambda: NO_MEMORY,
        tell=lambda _: None,
    )

    def logged(after: float, *, broken: bool) -> list[tuple[str, str]]:
        seconds[0], lease.broken = 1000 + after, broken
        with capture_logs() as logs:
            candidate.take_part()
        return [(entry["log_level"], entry["event"]) for entry in logs if "error" in entry]

    assert logged(0, broken=True) == [("warning", "lease not taken")], "it does not know of another one yet"
    lease.store.record = LeaseRecord(holder="other", duration=15, renewed=datetime.now(UTC))
    assert logged(2, broken=False) == []
    assert logged(4, broken=True) == [("info", "lease not read, another process leads")]
    assert logged(16, broken=True) == [("info", "lease not read, another process leads")]
    assert logged(18, broken=True) == [("warning", "lease not taken")]
    assert logged(20, broken=False) == []
    assert candidate.leads()
    assert logged(22, broken=True) == [("warning", "lease not renewed")]


def test_a_replica_that_may_not_read_the_lease_warns() -> None:
    """Whoever leads now: nobody could after it."""
    lease = Shaky()
    lease.store.record = LeaseRecord(holder="other", duration=15, renewed=datetime.now(UTC))
    candidate = elector(lease, [])
    candidate.take_part()

    def refuse() -> LeaseRecord | None:
        raise LeaseUnavailable("no right")

    lease.read = refuse  # type: ignore[method-assign]
    with capture_logs() as logs:
        candidate.take_part()
    assert [(entry["log_level"], entry["event"]) for entry in logs] == [("warning", "lease not taken")]


def test_a_lease_that_is_free_again_begins_a_new_term() -> None:
    """Who was stopped while another process led and went must read what that one stored before it may act again."""
    lease, reported, readable = Shaky(), list[LoopEvent](), [True]
    saved = Memory(sent=(SentRequest(datetime.now(UTC)),))

    def load_memory() -> Memory:
        if not readable[0]:
            raise ConnectionError("no status")
        return saved

    candidate = elector(lease, reported, load_memory, election=Election(identity="me", duration=20.0, deadline=10.0))
    candidate.take_part()
    candidate.take_part()
    assert leads(reported) == [True], "a renewal begins nothing"
    assert candidate.leads_in(1)
    ours = lease.store.record
    assert ours is not None
    theirs = lease.store.write(replace(ours, holder="other", acquired=datetime.now(UTC), transitions=1))
    assert theirs is not None
    lease.store.write(replace(theirs, holder=""))
    readable[0] = False
    candidate.take_part()
    assert not candidate.leads(), "it holds the lease, and does not know what the other one did"
    assert leads(reported) == [True, False]
    readable[0] = True
    candidate.take_part()
    assert leads(reported) == [True, False, True]
    assert reported[-1] == Leading(leads=True, memory=saved, term=2)
    assert candidate.leads_in(2)
    assert not candidate.leads_in(1)
